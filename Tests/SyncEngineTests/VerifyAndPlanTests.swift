import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import SyncUnpack
import Testing

@Suite("Verifying and planning", .timeLimit(.minutes(3)))
struct VerifyAndPlanTests {
    private let scene: Scene
    private let tree = AssetTree.mixed()

    init() throws { scene = try Scene() }

    private func paths(below directory: String) -> [String] {
        (FileManager.default.subpaths(atPath: directory) ?? []).sorted()
    }

    @Test("What was pulled verifies; every change since is named, and nothing is mended")
    func verify() throws {
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let good = try scene.engine().verify(scene.options())
        #expect(good.isWhole && good.files == tree.nodes.count && good.bytes == UInt64(tree.byteCount))
        let large = scene.root.path("dest/models/m0.ifc")
        var bytes = try #require(scene.root.read("dest/models/m0.ifc"))
        bytes[350_000] ^= 1
        let date = try FileManager.default.attributesOfItem(atPath: large)[.modificationDate]
        try scene.root.write(bytes, to: "dest/models/m0.ifc")
        if let date { try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: large) }
        unlink(scene.root.path("dest/bin/plain"))
        chmod(scene.root.path("dest/bin/run"), 0o644)
        unlink(scene.root.path("dest/latest"))
        try scene.root.link("dest/latest", to: "elsewhere")
        let before = AssetTree.read(scene.destination)
        let report = try scene.engine().verify(scene.options())
        #expect(report.problems.map(\.path) == ["bin/plain", "bin/run", "latest", "models/m0.ifc"])
        #expect(
            report.problems.map(\.reason) == [
                "missing", "is not executable", "links to elsewhere", "differs",
            ]
        )
        #expect(AssetTree.read(scene.destination).nodes == before.nodes)
    }

    @Test("Verifying a destination that is not there names every file and makes nothing")
    func verifyNothing() throws {
        try scene.publish(tree)
        let report = try scene.engine().verify(scene.options())
        #expect(report.problems.count == tree.nodes.count)
        #expect(paths(below: scene.root.path) == [])
    }

    @Test("A plan is what the pull then asks for, makes nothing, and is the same each time [S130]")
    func plan() throws {
        try scene.publish(tree) { $0.packSize = 200_000 }
        let first = try scene.engine().plan(scene.options())
        let second = try scene.engine().plan(scene.options())
        #expect(paths(below: scene.root.path) == [])
        #expect(first.destination == scene.destination)
        #expect(first.requests.map(\.range) == second.requests.map(\.range))
        #expect(first.wanted == tree.nodes.count && first.unchanged == 0)
        let outcome = try scene.pull()
        #expect(outcome.requests.count == first.requests.count)
        #expect(outcome.requests.map(\.url) == first.requests.map { Scene.base + $0.url })
        let after = try scene.engine().plan(scene.options())
        #expect(after.wanted == 0 && after.requests.isEmpty && after.unchanged == tree.nodes.count)
        #expect(after.unchangedBytes == UInt64(tree.byteCount))
    }

    @Test("A plan names what is in the way and counts what --prune would remove")
    func planProblems() throws {
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        var next = AssetTree(tree.nodes.filter { !$0.key.hasPrefix("text/") })
        next.addFile("new", size: 10, seed: 3)
        try scene.root.write("x", to: "dest/new/mine")
        try scene.publish(next, revision: 2)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.prunable == 4 && plan.obstructed.count == 1 && plan.requests.isEmpty)
        #expect(plan.obstructed.first?.contains("new") == true)
    }
}
