import Foundation
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine
@testable import SyncFiles

/// What a pull does file by file it does with trees, too, in whatever layout they are.
@Suite("A destination that changes as a whole, in either layout", .timeLimit(.minutes(10)))
struct EitherLayoutTests {
    typealias Layout = AtomicSwitch.Layout
    private let scene: Scene

    init() throws { scene = try Scene(isDurable: true) }

    private func publish(_ number: Int, _ tree: AssetTree? = nil) throws {
        try scene.publish(tree ?? Revisions.tree(UInt64(number)), revision: number) { $0.chunkSize = 50_000 }
    }

    private func pull(
        _ layout: Layout, keep: Int = 1, hooks: (any GroupHook)? = nil, stop: StopRequest = StopRequest(),
        verifications: [FileVerification] = [], _ configure: (inout RunRecipe) -> Void = { _ in }
    ) throws -> Scene.Outcome {
        try scene.pull(hooks: hooks, stop: stop, verifications: verifications) { recipe in
            var wishes = AtomicSwitch()
            (wishes.keep, wishes.keepSeconds, wishes.layout) = (keep, 0, layout)
            recipe.atomic = wishes
            if hooks != nil { recipe.hooks = [RunHook(arguments: ["/hook"])] }
            configure(&recipe)
        }
    }

    private var home: TreeHome { get throws { try #require(try TreeHome.find(scene.destination)) } }

    /// What readers see.
    private func place(_ layout: Layout) -> String {
        layout == .links ? scene.destination + "/.syncagent/now" : scene.destination
    }

    private func expect(
        _ number: Int, in layout: Layout, _ outcome: Scene.Outcome? = nil, _ tree: AssetTree? = nil,
        location: SourceLocation = #_sourceLocation
    ) throws {
        if let outcome {
            #expect(outcome.status == .done, "\(outcome.error?.message ?? "")", sourceLocation: location)
        }
        let tree = tree ?? Revisions.tree(UInt64(number))
        #expect(tree.problems(in: place(layout)) == [], sourceLocation: location)
        #expect(try home.ledger.shownTree?.revision == UInt64(number), sourceLocation: location)
    }

    @Test(
        "What the oldest tree has of the new revision already stays, and readers are told of it",
        arguments: Layout.allCases)
    func ahead(layout: Layout) throws {
        for number in 1...2 {
            try publish(number)
            try expect(number, in: layout, pull(layout))
        }
        // As the first one was: the oldest tree has it.
        try publish(3, Revisions.tree(1))
        let hook = RecordingHook()
        let outcome = try pull(layout, hooks: hook)
        try expect(3, in: layout, outcome, Revisions.tree(1))
        #expect(outcome.requests.isEmpty)
        let changed = Revisions.tree(1).nodes.filter { Revisions.tree(2).nodes[$0] != $1 }.count
        let report = try #require(outcome.report)
        #expect(report.files.reused == changed && report.files.installed == 0)
        #expect(outcome.count("task.installed") == changed)
        #expect(hook.calls.last?.environment["SYNCAGENT_CHANGED"] == "\(report.changed)")
        #expect(try scene.store.findings() == [])
    }

    @Test("A file that no night changes stays the very same one, its status included", arguments: Layout.allCases)
    func unchanged(layout: Layout) throws {
        for number in 1...2 {
            try publish(number)
            try expect(number, in: layout, pull(layout))
        }
        // Whatever becomes of its status: it is right in the oldest tree.
        let path = place(layout) + "/common/d0/1"
        let before = try #require(status(following: path))
        try publish(3)
        let outcome = try pull(layout)
        try expect(3, in: layout, outcome)
        #expect(outcome.received < 400_000)
        let after = try #require(status(following: path))
        if try home.ledger.sharing == .link {
            #expect(after.inode == before.inode && after.changed == before.changed)
        }
        // What was known of it still is: nothing is to be done, or read.
        #expect(try scene.engine().plan(scene.options()).wanted == 0)
        #expect(try pull(layout).count("tree.switched") == 0)
    }

    @Test(
        "After a rollback the tree that was being built is made like what readers see then, and nothing stays in it",
        arguments: Layout.allCases)
    func rolledBackMeanwhile(layout: Layout) throws {
        for number in 1...3 {
            try publish(number)
            try expect(number, in: layout, pull(layout, keep: 2))
        }
        try publish(4)
        let no = RecordingHook(.exited(3))
        let checked = try pull(layout, keep: 2, hooks: no) { $0.atomic?.check = ["/check"] }
        #expect(checked.status == .hookFailed)
        try expect(3, in: layout)
        #expect(try home.ledger.building != nil)
        #expect(try scene.engine(hooks: RecordingHook()).rollback("com.example.tower", to: "2").status == .done)
        try expect(2, in: layout)
        let outcome = try pull(layout, keep: 2)
        try expect(4, in: layout, outcome)
        #expect(outcome.requests.isEmpty)
        try publish(5)
        try expect(5, in: layout, pull(layout, keep: 2))
    }

    @Test(
        "A run that was stopped while its tree was checked goes on there, and counts each file once [S127]",
        arguments: Layout.allCases)
    func stopped(layout: Layout) throws {
        try publish(1)
        try expect(1, in: layout, pull(layout))
        try publish(2)
        let stop = StopRequest()
        let stopped = try pull(layout, hooks: StopAtCheck(stop), stop: stop) { $0.atomic?.check = ["/check"] }
        #expect(stopped.status == .interrupted)
        try expect(1, in: layout)
        let before = try #require(try scene.store.runs(session: "com.example.tower", limit: 1).first).counts.files
        let hook = RecordingHook()
        let outcome = try pull(layout, hooks: hook) { $0.atomic?.check = ["/check"] }
        try expect(2, in: layout, outcome)
        #expect(outcome.requests.isEmpty && outcome.count("task.installed") == 0)
        let report = try #require(outcome.report)
        #expect(report.files.installed == before.installed && report.files.reused == before.reused)
        #expect(hook.calls.map(\.arguments) == [["/check"], ["/hook"]])
    }

    @Test("A file that a verifier refuses keeps the new tree from being shown", arguments: Layout.allCases)
    func refused(layout: Layout) throws {
        try publish(1)
        try expect(1, in: layout, pull(layout))
        try publish(2)
        let hook = RecordingHook()
        let verification = FileVerification(name: "no", verifier: Refusing(path: "each/now"))
        let outcome = try pull(layout, hooks: hook, verifications: [verification])
        #expect(outcome.status != .done && outcome.count("tree.switched") == 0)
        #expect(outcome.values("result", of: "group.completed").allSatisfy { $0 == "failed" })
        try expect(1, in: layout)
        let second = try pull(layout, hooks: hook)
        try expect(2, in: layout, second)
        // The others are there already.
        #expect(second.requests.count <= 2)
    }

    @Test(
        "Night after night only deltas are fetched: the former version is the one that readers see",
        arguments: Layout.allCases)
    func deltas(layout: Layout) throws {
        func tree(_ night: Int) -> AssetTree {
            var tree = AssetTree()
            tree.addFile("big", size: 2_000_000, seed: 4)
            tree.addFile("same", size: 40_000, seed: 5)
            guard var bytes = tree.bytes("big") else { return tree }
            for number in 0..<night { bytes[number * 350_000 + 100] ^= 0x55 }
            tree.nodes["big"] = .file(bytes, executable: false)
            return tree
        }
        for night in 1...4 {
            let set = try scene.publish(tree(night), revision: night) {
                ($0.packSize, $0.chunkSize) = (64 << 20, 100_000)
                $0.former = night > 1 ? tree(night - 1) : nil
            }
            let outcome = try pull(layout)
            try expect(night, in: layout, outcome, tree(night))
            if night > 1 { #expect(outcome.received < UInt64(set.manifest.count) + 2_000, "night \(night)") }
        }
    }
}

/// Has something against one file.
private struct Refusing: FileVerifier {
    let path: String

    func verify(_ files: [StagedFile]) -> [FileVerdict] {
        files.map { $0.path == path ? .refused(reason: "not this one") : .accepted }
    }
}
