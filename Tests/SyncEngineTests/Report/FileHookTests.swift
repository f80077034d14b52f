import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Synchronization
import Testing

/// Hooks that get the files that changed, some of them a call.
@Suite("File hooks", .timeLimit(.minutes(10)))
struct FileHookTests {
    private let scene: Scene
    private let tree: AssetTree
    /// In the order of paths.
    private let paths = ["models/c", "sheets/a", "sheets/b", "sheets/d", "sheets/e", "sheets/f", "sheets/latest"]

    init() throws {
        scene = try Scene(isDurable: true)
        var tree = AssetTree()
        for (seed, name) in paths.dropLast().enumerated() { tree.addFile(name, size: 900, seed: UInt64(seed + 1)) }
        tree.nodes["sheets/latest"] = .link("a")
        self.tree = tree
        try publish(tree)
    }

    private func publish(_ tree: AssetTree, revision: Int = 1) throws {
        try scene.publish(tree, revision: revision) {
            $0.groups = [("sheets", ["sheets/**"]), ("models", ["models/**"])]
        }
    }

    private func pull(
        _ hook: any GroupHook, batch: Int = 3, group: String = "all", stop: StopRequest = StopRequest(),
        _ configure: (inout RunRecipe) -> Void = { _ in }
    ) throws -> Scene.Outcome {
        try scene.pull(hooks: hook, stop: stop) { options in
            options.hooks = [
                RunHook(group: group, arguments: ["/bin/after"]),
                RunHook(group: group, arguments: ["/bin/thumbs"], batch: batch),
            ]
            configure(&options)
        }
    }

    /// One call of the file hook.
    private struct Call: Equatable {
        var paths: [String]
        var states: Set<String>
        var batch: String
        var attempt: String
        var isLate: Bool
    }

    private func calls(_ invocations: [HookInvocation]) throws -> [Call] {
        try invocations.filter { $0.arguments == ["/bin/thumbs"] }.map { call in
            let report = try #require(try JSONSerialization.jsonObject(with: Data(call.input)) as? [String: Any])
            let entries = try #require(report["entries"] as? [[String: Any]])
            let environment = call.environment
            let batch = "\(environment["SYNCAGENT_BATCH"] ?? "-")/\(environment["SYNCAGENT_BATCHES"] ?? "-")"
            #expect(batch == "\(report["batch"] ?? "-")/\(report["batches"] ?? "-")")
            #expect(report["format"] as? String == "syncagent-report/1" && report["project"] != nil)
            #expect((environment["SYNCAGENT_LATE"] == "1") == (report["late"] as? Bool == true))
            return Call(
                paths: entries.compactMap { $0["path"] as? String },
                states: Set(entries.compactMap { $0["state"] as? String }), batch: batch,
                attempt: environment["SYNCAGENT_ATTEMPT"] ?? "-", isLate: report["late"] as? Bool == true)
        }
    }

    private func stored() throws -> StoredHook {
        try #require(try scene.store.hooks().first { $0.arguments == ["/bin/thumbs"] })
    }

    @Test("A file hook gets what changed in order, so many a call, before the other hooks; they get one call [S131]")
    func batches() throws {
        let hook = RecordingHook()
        let outcome = try pull(hook)
        #expect(outcome.status == .done)
        #expect(hook.calls.map { $0.arguments[0] } == ["/bin/thumbs", "/bin/thumbs", "/bin/thumbs", "/bin/after"])
        let calls = try calls(hook.calls)
        #expect(calls.map(\.paths) == [Array(paths[0..<3]), Array(paths[3..<6]), Array(paths[6...])])
        #expect(calls.map(\.batch) == ["1/3", "2/3", "3/3"])
        #expect(calls.allSatisfy { $0.states == ["installed"] && $0.attempt == "1" && !$0.isLate })
        let last = try #require(hook.calls.last)
        #expect(last.environment["SYNCAGENT_BATCH"] == nil)
        // One attempt, however many calls.
        #expect(outcome.values("program", of: "hook.started") == ["/bin/thumbs", "/bin/after"])
        #expect(outcome.values("program", of: "hook.finished") == ["/bin/thumbs", "/bin/after"])
        let finished = outcome.events.first { $0["event"] as? String == "hook.finished" }
        #expect(finished?["batch_size"] as? Int == 3 && finished?["batches"] as? Int == 3)
        #expect(finished?["calls"] as? Int == 3 && finished?["elapsed_ms"] as? Int == 9)
        #expect(try stored().state == .done && stored().batch == 3 && stored().attempt == 1)
        #expect(try scene.store.hooks().count == 2)
    }

    @Test("The number of calls [S131]", arguments: [(1, 7), (2, 4), (6, 2), (7, 1), (10_000, 1)])
    func count(batch: Int, count: Int) throws {
        let hook = RecordingHook()
        _ = try pull(hook, batch: batch)
        let calls = try calls(hook.calls)
        #expect(calls.count == count && calls.flatMap(\.paths) == paths)
    }

    @Test("When nothing changed a file hook is not called; later it gets only what changed, of its group [S131]")
    func onlyWhatChanged() throws {
        _ = try pull(RecordingHook())
        let idle = RecordingHook()
        let second = try pull(idle)
        #expect(second.status == .done && idle.calls.map { $0.arguments[0] } == ["/bin/after"])
        #expect(try stored().state == .skipped && stored().ended == "nothing changed" && stored().attempt == 0)

        var newer = tree
        newer.addFile("sheets/b", size: 901, seed: 90)
        newer.addFile("models/new", size: 50, seed: 91)
        newer.nodes["sheets/z"] = tree.nodes["sheets/a"]
        try publish(newer, revision: 2)
        let hook = RecordingHook()
        _ = try pull(hook, group: "sheets")
        let calls = try calls(hook.calls)
        #expect(calls.map(\.paths) == [["sheets/b", "sheets/z"]] && calls[0].states == ["installed", "reused"])
    }
    @Test(
        "What a hook did not accept is handed over by the next pull, also when that finds nothing new, until it is [S131]"
    )
    func untilAccepted() throws {
        _ = try pull(RecordingHook())
        var newer = tree
        newer.addFile("sheets/b", size: 901, seed: 90)
        newer.addFile("a\"b\\c", size: 50, seed: 91)
        try publish(newer, revision: 2)
        let failing = RecordingHook(.exited(3))
        #expect(try pull(failing).status == .hookFailed)
        #expect(try calls(failing.calls).map(\.paths) == [["a\"b\\c", "sheets/b"]])

        // The next night there is nothing new, and the hook fails once more.
        let again = RecordingHook(.exited(3))
        let second = try pull(again)
        #expect(second.status == .hookFailed && second.requests.isEmpty)
        #expect(try calls(again.calls).map(\.paths) == [["a\"b\\c", "sheets/b"]])
        #expect(try calls(again.calls).map(\.states) == [["present"]])

        // Without the hook nobody is told, and a third file comes.
        newer.addFile("sheets/c", size: 30, seed: 92)
        try publish(newer, revision: 3)
        #expect(try scene.pull().status == .done)
        let third = RecordingHook()
        #expect(try pull(third).status == .done)
        #expect(try calls(third.calls).map(\.paths) == [["a\"b\\c", "sheets/b", "sheets/c"]])

        let idle = RecordingHook()
        #expect(try pull(idle).status == .done)
        #expect(try calls(idle.calls).isEmpty)
    }

    @Test("A replay hands over the files that the hook was told of then, and no others [S131 S33]")
    func replay() throws {
        _ = try pull(RecordingHook())
        var newer = tree
        newer.addFile("sheets/b", size: 901, seed: 90)
        try publish(newer, revision: 2)
        #expect(try pull(RecordingHook()).status == .done)
        let hook = try stored()
        try scene.store.replay(hook: hook.identifier)
        let again = RecordingHook()
        try scene.engine(hooks: again).finishEarlierRuns(of: hook.session)
        #expect(try calls(again.calls).map(\.paths) == [["sheets/b"]])
        #expect(try scene.store.hook(hook.identifier).state == .done)
    }

    @Test("A replay of an older run hands over what it changed and is still there; without record it says so")
    func olderReplay() throws {
        _ = try pull(RecordingHook())
        var next = tree
        next.addFile("sheets/b", size: 901, seed: 90)
        next.addFile("sheets/g", size: 50, seed: 91)
        next.addFile("sheets/h", size: 50, seed: 92)
        try publish(next, revision: 2)
        #expect(try pull(RecordingHook()).status == .done)
        let older = try stored()
        next.nodes["sheets/g"] = nil
        next.addFile("sheets/h", size: 60, seed: 93)
        next.addFile("sheets/i", size: 70, seed: 94)
        try publish(next, revision: 3)
        #expect(try pull(RecordingHook()) { $0.prune = true }.status == .done)
        #expect(try stored().run != older.run)

        try scene.store.replay(hook: older.identifier)
        let hook = RecordingHook()
        try scene.engine(hooks: hook).finishEarlierRuns(of: older.session)
        let calls = try calls(hook.calls)
        #expect(calls.map(\.paths) == [["sheets/b", "sheets/h"]] && calls.allSatisfy { $0.isLate })
        // Its manifest is not kept any more: whose the files are is told.
        let (own, latest) = (
            try scene.store.run(older.run).manifest.hex, try scene.store.run(stored().run).manifest.hex
        )
        let report = try #require(
            try hook.calls.first.map { try JSONSerialization.jsonObject(with: Data($0.input)) } as? [String: Any])
        #expect(report["manifest_sha256"] as? String == own && report["revision"] as? Int == 2)
        #expect(report["entries_manifest_sha256"] as? String == latest && report["entries_revision"] as? Int == 3)
        let told = try scene.store.events(of: older.session, after: 0, limit: 10_000).events
        let starts = told.filter { $0.text.contains("\"hook.started\"") }
        #expect(starts.last?.text.contains("\"entries_manifest_sha256\":\"\(latest)\"") == true)
        #expect(starts.dropLast().allSatisfy { !$0.text.contains("entries_manifest") })
        #expect(hook.calls.first?.environment["SYNCAGENT_RUN_ID"] == older.run)
        #expect(try scene.store.hook(older.identifier).state == .done)

        // Its events are gone.
        try scene.store.prune(eventBytes: 1)
        try scene.store.replay(hook: older.identifier)
        let late = RecordingHook()
        try scene.engine(hooks: late).finishEarlierRuns(of: older.session)
        #expect(late.calls.isEmpty)
        let failed = try scene.store.hook(older.identifier)
        #expect(failed.state == .failed && failed.ended?.contains("no longer on record") == true)
    }

    @Test("A batch that fails ends the attempt; the other hooks run all the same [S131]")
    func fails() throws {
        let hook = RecordingHook(.exited(0), .exited(3))
        let outcome = try pull(hook)
        #expect(outcome.status == .hookFailed)
        #expect(try calls(hook.calls).map(\.batch) == ["1/3", "2/3"])
        #expect(hook.calls.last?.arguments == ["/bin/after"] && hook.calls.count == 3)
        #expect(try stored().state == .failed && stored().ended == "exit 3")
        let finished = outcome.events.first { $0["event"] as? String == "hook.finished" }
        #expect(finished?["calls"] as? Int == 2 && finished?["result"] as? String == "exit 3")
    }

    @Test("A batch that asks to be called again makes a new attempt, from the first batch [S131]")
    func again() throws {
        let hook = RecordingHook(.exited(0), .exited(75))
        #expect(try pull(hook).status == .done)
        let calls = try calls(hook.calls)
        #expect(calls.map(\.batch) == ["1/3", "2/3", "1/3", "2/3", "3/3"])
        #expect(calls.map(\.attempt) == ["1", "1", "2", "2", "2"])
        #expect(calls.suffix(3).flatMap(\.paths) == paths && calls.allSatisfy { !$0.isLate })
    }

    @Test("A stop between two batches: the next pull hands over every file of the group, late [S131 S19]")
    func stopped() throws {
        let stop = StopRequest()
        let first = StoppingHook(after: 2, stop)
        #expect(try pull(first, stop: stop).report != nil)
        #expect(try calls(first.calls).count == 2 && stored().state == .pending)

        let hook = RecordingHook()
        let second = try pull(hook)
        #expect(second.status == .done)
        let calls = try calls(hook.calls)
        #expect(calls.map(\.batch) == ["1/3", "2/3", "3/3"] && calls.flatMap(\.paths) == paths)
        #expect(calls.allSatisfy { $0.isLate && $0.states == ["present"] && $0.attempt == "2" })
    }

    @Test("After a crash files that are not in place are left out, and a newer manifest does not matter [S131 F089]")
    func late() throws {
        try scene.root.write("x", to: "dest/models/c/mine")
        let only: (inout RunRecipe) -> Void = { $0.hooks.removeFirst() }
        #expect(try pull(RecordingHook(), only).status == .incomplete)
        try SQLFile(scene.root.path("state/syncagent.sqlite")).takeBackHook(.running)
        var newer = tree
        newer.nodes["sheets/f"] = nil
        try publish(newer, revision: 2)
        let hook = RecordingHook()
        _ = try scene.pull(hooks: hook)
        let calls = try calls(hook.calls)
        #expect(calls.flatMap(\.paths) == Array(paths.dropFirst()))
        #expect(calls.map(\.batch) == ["1/2", "2/2"] && calls.allSatisfy { $0.isLate && $0.attempt == "2" })
        #expect(try stored().state == .done)
    }

    @Test("When the manifest of that time is lost, the late hook fails and says why [S131]")
    func lost() throws {
        #expect(try pull(RecordingHook()) { $0.hooks.removeFirst() }.status == .done)
        try SQLFile(scene.root.path("state/syncagent.sqlite")).takeBackHook(.running)
        try FileManager.default.removeItem(atPath: scene.root.path("state/manifests"))
        var newer = tree
        newer.nodes["sheets/f"] = nil
        try publish(newer, revision: 2)
        let hook = RecordingHook()
        _ = try scene.pull(hooks: hook)
        #expect(hook.calls.isEmpty)
        #expect(try stored().state == .failed && stored().ended?.contains("the manifest has changed since") == true)
    }

    @Test(
        "What came before a run was cut short is handed over when it, or the one in its place, ends [S131]",
        arguments: [false, true])
    func earlierWork(isSuperseded: Bool) throws {
        var tree = tree
        tree.addFile("z/big", size: 1_200_000, seed: 99)
        func publish(_ tree: AssetTree, _ revision: Int) throws {
            try scene.publish(tree, revision: revision) { ($0.looseAbove, $0.packSize) = (100_000, 64 << 20) }
        }
        try publish(tree, 2)
        let stop = StopRequest()
        scene.transport.script(Scene.base + "files/z/big", .stall(after: 600_000))
        let before = scene.transport.totals.bytesReceived
        scene.transport.onBytes { if $0 >= before + 600_000 { stop.stop(.released) } }
        let first = RecordingHook()
        let cut = try pull(first, batch: 100, stop: stop)
        scene.transport.onBytes { _ in }
        let installed = Set(cut.values("path", of: "task.installed"))
        #expect(first.calls.isEmpty && !installed.isEmpty && !installed.contains("z/big"))
        if isSuperseded {
            tree.addFile("z/new", size: 5, seed: 98)
            try publish(tree, 3)
        }
        let hook = RecordingHook()
        #expect(try pull(hook, batch: 100).status == .done)
        #expect(try calls(hook.calls).map { Set($0.paths) } == [Set(tree.paths)])
        #expect(try calls(hook.calls).first?.states.contains("present") == true)
        // And once it has ended, not again.
        let idle = RecordingHook()
        _ = try pull(idle, batch: 100)
        #expect(try calls(idle.calls).isEmpty)
    }

    @Test("The output of all calls together is bounded; the end is kept [S131 S33]")
    func output() throws {
        let hook = TalkingHook()
        let outcome = try pull(hook, batch: 1)
        let output = try #require(outcome.values("output", of: "hook.finished").first)
        #expect(output.utf8.count <= (64 << 10) + 3 && output.hasSuffix("end 7\n"))
    }
}

/// Asks to stop once it has been called so many times.
final class StoppingHook: GroupHook {
    private let recording = RecordingHook()
    private let last: Int
    private let stop: StopRequest

    init(after last: Int, _ stop: StopRequest) {
        self.last = last
        self.stop = stop
    }

    var calls: [HookInvocation] { recording.calls }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        let outcome = recording.run(invocation)
        if calls.count == last { stop.stop(.released) }
        return outcome
    }
}

/// Writes 40,000 bytes, and which call it is.
private final class TalkingHook: GroupHook {
    private let count = Atomic(0)

    func run(_ invocation: HookInvocation) -> HookOutcome {
        let number = count.wrappingAdd(1, ordering: .relaxed).newValue
        let text = String(repeating: "x", count: 40_000) + "\nend \(number)\n"
        return HookOutcome(end: .exited(0), output: text, milliseconds: 1)
    }
}
