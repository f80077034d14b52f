import Foundation
import SyncContent
import SyncEngine
import SyncFiles
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@Suite("Verifying and planning", .timeLimit(.minutes(10)))
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
        #expect(report.problems.map(\.reason) == ["missing", "is not executable", "links to elsewhere", "differs"])
        #expect(AssetTree.read(scene.destination).nodes == before.nodes)
    }

    @Test("A file whose name is not UTF-8 counts as one that the manifest does not name, too")
    func extraBytes() throws {
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let odd = "\(scene.destination)/odd".utf8CString.dropLast() + [CChar(bitPattern: 0xFF), 0]
        #expect(symlink("elsewhere", Array(odd)) == 0)
        #expect(try scene.engine().verify(scene.options()).extra == 1)
    }

    @Test("Verifying a destination that is not there names every file and makes nothing")
    func verifyNothing() throws {
        try scene.publish(tree)
        let report = try scene.engine().verify(scene.options())
        #expect(report.problems.count == tree.nodes.count)
        #expect(paths(below: scene.root.path) == [])
    }

    @Test("A link that leads nowhere and a file are no destination for pull, plan and verify alike")
    func noDirectory() throws {
        try scene.publish(tree)
        try scene.root.link("dangling", to: "nowhere")
        try scene.root.write("x", to: "file")
        for name in ["dangling", "file", "dangling/below"] {
            var recipe = scene.options()
            recipe.destination = scene.root.path(name)
            let named = recipe
            #expect(try scene.engine().plan(named).refusal?.status == .cannotCreate, "\(name)")
            #expect(try scene.pull { $0.destination = named.destination }.status == .cannotCreate, "\(name)")
            guard !name.contains("/") else { continue }
            let error = #expect(throws: EngineError.self) { try scene.engine().verify(named) }
            #expect(error?.status == .cannotCreate, "\(name)")
        }
        let whole = try scene.pull {
            ($0.destination, $0.atomic) = (scene.root.path("dangling"), AtomicSwitch())
        }
        #expect(whole.error?.message.contains("leads nowhere") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("nowhere")))
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

    /// The lines of `plan -v`.
    private func lines(_ options: RunRecipe) throws -> [String] {
        var lines: [String] = []
        _ = try scene.engine().plan(options) { file in
            guard file.action != .unchanged else { return }
            let from = file.from.map { " from \($0)" } ?? ""
            lines.append("\(file.action.rawValue) \(file.path)\(from)\(file.reason == nil ? "" : " !")")
        }
        return lines
    }

    @Test("A plan names every file with what becomes of it, in order, what goes included, and the pull does just that")
    func everyFile() throws {
        var tree = AssetTree()
        for (seed, name) in ["a", "b/1", "b/2", "c", "d"].enumerated() {
            tree.addFile(name, size: 900, seed: UInt64(seed + 1))
        }
        try scene.publish(tree)
        #expect(try lines(scene.options()) == ["new a", "new b/1", "new b/2", "new c", "new d"])
        #expect(try scene.pull().status == .done)
        #expect(try lines(scene.options()) == [])
        var next = tree
        next.addFile("a", size: 901, seed: 9)
        next.nodes["b/2"] = nil
        next.nodes["moved"] = tree.nodes["b/2"]
        next.addFile("z", size: 5, seed: 10)
        next.nodes["c"] = nil
        next.addFile("c/inside", size: 5, seed: 11)
        next.nodes["link"] = .link("a")
        try scene.publish(next, revision: 2)
        try scene.root.write("x", to: "dest/z/mine")
        var options = scene.options()
        let without = try lines(options)
        #expect(without.contains("obsolete b/2") && without.contains("removed c"))
        options.prune = true
        #expect(
            try lines(options) == [
                "changed a", "removed b/2", "removed c", "new c/inside", "new link", "new moved from b/2",
                "blocked z !",
            ])
        let plan = try scene.engine().plan(options)
        #expect(plan.status == .incomplete && plan.refusal == nil)
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .incomplete)
        #expect(Set(outcome.values("path", of: "task.installed")) == ["a", "c/inside", "link", "moved"])
        #expect(Set(outcome.values("path", of: "task.removed")) == ["b/2", "c"])
    }

    @Test(
        "What a killed pull put in place is planned as the pull then finds it, and nothing is written [F083 F112 S130]")
    func killedPull() throws {
        var tree = AssetTree()
        tree.addFile("m", size: 900, seed: 1)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let destination = try Destination.open(path: scene.destination, create: false)
        let log = try IndexLog(destination)
        for path in ["a", "m", "z", "changed since"] {
            let bytes = try path == "m" ? #require(tree.bytes("m")) : Array(path.utf8)
            try scene.root.write(path == "changed since" ? [] : bytes, to: "dest/\(path)")
            let digest = try Scene.digest(bytes)
            try log.append([IndexLog.Entry(path: Array(path.utf8), digest: digest, kind: .file)])
        }
        func state() -> [[UInt8]?] {
            ["index", "index.log", "index.new"].map { scene.root.read("dest/.syncagent/\($0)") }
        }
        let before = state()
        var options = scene.options()
        #expect(try lines(options) == ["obsolete a", "obsolete z"])
        options.prune = true
        #expect(try lines(options) == ["removed a", "removed z"])
        let plan = try scene.engine().plan(options)
        #expect(plan.prunable == 2 && plan.unchanged == 1 && plan.status == .refused)
        #expect(plan.refusal?.message.contains("would remove 2 of 3 installed files") == true)
        #expect(state() == before)
        let refused = try scene.pull { $0.prune = true }
        #expect(refused.error?.message == plan.refusal?.message)
        let outcome = try scene.pull { ($0.prune, $0.force) = (true, true) }
        #expect(outcome.values("path", of: "task.removed") == ["a", "z"])
    }

    @Test("A plan refuses what the pull refuses, with its exit status, and changes nothing")
    func refusals() throws {
        try scene.publish(tree)
        try scene.root.write("x", to: "file")
        var options = scene.options()
        for place in ["file/below", "file"] {
            options.destination = scene.root.path(place)
            let refusal = try scene.engine().plan(options).refusal
            let pull = try scene.pull { $0.destination = options.destination }
            #expect(refusal?.status == .cannotCreate && pull.error?.status == .cannotCreate, "\(place)")
        }
        options.destination = "/proc/nothing"
        #expect(try scene.engine().plan(options).refusal?.status == .cannotCreate)

        #expect(try scene.pull().status == .done)
        let destination = try Destination.open(path: scene.destination, create: false)
        guard let lock = try destination.lock() else { throw EngineError(.busy, "the lock") }
        let busy = try scene.engine().plan(scene.options()).refusal
        let waiting = try scene.pull()
        #expect(busy?.status == .busy && busy == waiting.error)
        _ = consume lock

        var small = AssetTree()
        small.nodes["text"] = tree.nodes["text"]
        small.addFile("one", size: 5, seed: 5)
        try scene.publish(small, revision: 2)
        options = scene.options()
        options.prune = true
        let prune = try scene.engine().plan(options).refusal
        let pull = try scene.pull { $0.prune = true }
        #expect(prune?.status == .refused && prune == pull.error)
    }

    @Test("A plan leaves a wrong executable bit as it is")
    func executableBit() throws {
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        chmod(scene.root.path("dest/bin/run"), 0o644)
        let before = AssetTree.read(scene.destination)
        _ = try scene.engine().plan(scene.options())
        #expect(AssetTree.read(scene.destination).nodes == before.nodes)
    }
}
