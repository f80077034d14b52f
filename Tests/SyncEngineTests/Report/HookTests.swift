import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@Suite("Hooks of complete groups", .timeLimit(.minutes(10)))
struct HookTests {
    private let scene: Scene
    private let tree: AssetTree

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for name in ["sheets/a", "sheets/b", "models/c"] { tree.addFile(name, size: 900, seed: UInt64(name.count)) }
        tree.nodes["sheets/latest"] = .link("a")
        self.tree = tree
        try scene.publish(tree) { $0.groups = [("sheets", ["sheets/**"]), ("models", ["models/**"])] }
    }

    private func pull(_ hook: RecordingHook, groups: [String] = ["all"], only: [String] = []) throws -> Scene.Outcome {
        try scene.pull(hooks: hook) { options in
            options.hooks = groups.map { RunHook(group: $0, arguments: ["/bin/after-\($0)", "x"]) }
            options.groups = only
        }
    }

    private func report(_ call: HookInvocation?) throws -> [String: Any] {
        let input = try #require(call?.input)
        return try #require(try JSONSerialization.jsonObject(with: Data(input)) as? [String: Any])
    }

    @Test("A hook is called once, after everything, with what it needs to know [S29 S30 S31]")
    func called() throws {
        let hook = RecordingHook()
        let outcome = try pull(hook)
        #expect(outcome.status == .done)
        let call = try #require(hook.calls.first)
        #expect(hook.calls.count == 1)
        #expect(call.arguments == ["/bin/after-all", "x"] && call.directory == scene.destination)
        #expect(call.environment["SYNCAGENT_GROUP"] == "all" && call.environment["SYNCAGENT_RESULT"] == "ok")
        #expect(call.environment["SYNCAGENT_CHANGED"] == "4" && call.environment["SYNCAGENT_ATTEMPT"] == "1")
        #expect(call.environment["SYNCAGENT_DESTINATION"] == scene.destination)
        #expect(call.environment["SYNCAGENT_SESSION"] == "com.example.tower")
        #expect(call.environment["SYNCAGENT_RUN_ID"] == outcome.report?.run)
        let names = outcome.events.compactMap { $0["event"] as? String }
        #expect(names.suffix(4) == ["hook.started", "hook.finished", "run.summary", "pull.finished"])
    }

    @Test("The report of many files is handed on piece by piece, until whoever takes it has had enough")
    func reportInPieces() throws {
        var tree = AssetTree()
        for number in 0..<3_000 { tree.addFile("many/\(number)", size: 10, seed: UInt64(number)) }
        try scene.publish(tree)
        let hook = RecordingHook()
        _ = try pull(hook)
        let call = try #require(hook.calls.first)
        var all: [[UInt8]] = []
        call.writeInput { bytes in
            all.append(bytes)
            return true
        }
        #expect(all.count > 1 && all.allSatisfy { $0.count < 300_000 })
        #expect(Array(all.joined()) == call.input)
        let report = try report(call)
        #expect((report["entries"] as? [Any])?.count == 3_000)
        var taken = 0
        call.writeInput { _ in
            taken += 1
            return false
        }
        #expect(taken == 1)
    }

    @Test("The report names every file and what became of it")
    func reportOfFiles() throws {
        let hook = RecordingHook()
        _ = try pull(hook)
        let report = try report(hook.calls.first)
        let entries = try #require(report["entries"] as? [[String: Any]])
        #expect(Set(entries.compactMap { $0["path"] as? String }) == Set(tree.paths))
        #expect(entries.allSatisfy { $0["state"] as? String == "installed" })
        #expect(report["format"] as? String == "syncagent-report/1" && report["changed"] as? Int == 4)
        let link = try #require(entries.first { $0["path"] as? String == "sheets/latest" })
        #expect(link["link"] as? String == "a" && link["sha256"] == nil)
    }

    @Test("When nothing changed a hook is called all the same, and told so [S41]")
    func nothingChanged() throws {
        #expect(try scene.pull().status == .done)
        let hook = RecordingHook()
        let outcome = try pull(hook, groups: ["all", "sheets"])
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_CHANGED"] } == ["0", "0"])
        let entries = try report(hook.calls.first)["entries"] as? [[String: Any]]
        #expect(entries?.count == 4 && entries?.allSatisfy { $0["state"] as? String == "unchanged" } == true)
    }

    @Test("A hook of a group gets that group's files; a group that was not asked for has none")
    func groups() throws {
        let hook = RecordingHook()
        _ = try pull(hook, groups: ["sheets", "models"], only: ["sheets"])
        #expect(hook.calls.map(\.arguments.first) == ["/bin/after-sheets"])
        let entries = try report(hook.calls.first)["entries"] as? [[String: Any]]
        #expect(Set(entries?.compactMap { $0["path"] as? String } ?? []) == ["sheets/a", "sheets/b", "sheets/latest"])
        #expect(hook.calls.first?.environment["SYNCAGENT_CHANGED"] == "3")
    }

    @Test(
        "A hook that fails makes the status 5; the files stay",
        arguments: [HookOutcome.End.exited(1), .signalled(9), .timedOut, .notStarted("no such file.")])
    func fails(
        end: HookOutcome.End
    ) throws {
        let hook = RecordingHook(end)
        let outcome = try pull(hook, groups: ["all", "sheets"])
        #expect(outcome.status == .hookFailed && outcome.report?.result == .ok)
        #expect(hook.calls.count == 2, "the other hook runs all the same")
        let words = outcome.values("result", of: "hook.finished")
        #expect(words.count == 2 && words.allSatisfy { !$0.hasSuffix(".") }, "\(words)")
        #expect(scene.problems(tree) == [])
    }

    @Test("A hook that asks to be called again is called three times, and no more")
    func again() throws {
        let patient = RecordingHook(.exited(75), .exited(75))
        #expect(try pull(patient).status == .done)
        #expect(patient.calls.map { $0.environment["SYNCAGENT_ATTEMPT"] } == ["1", "2", "3"])
        let stubborn = RecordingHook(.exited(75), .exited(75), .exited(75), .exited(75))
        #expect(try pull(stubborn).status == .hookFailed)
        #expect(stubborn.calls.count == 3)
    }

    @Test(
        "A hook for which there is no process stays owed: the pull ends with 5, and the next one calls it [F095]",
        arguments: ["/bin/reindex", "plugin:reindex"])
    func noProcess(program: String) throws {
        let none = HookOutcome.End.notStarted("no process")
        let first = try scene.pull(hooks: RecordingHook(none, none, none, isTransient: true, isExhaustion: true)) {
            $0.hooks = [RunHook(group: "all", arguments: [program])]
        }
        #expect(first.status == .hookFailed && first.report?.result == .ok)
        let owed = try #require(try scene.store.owedHooks().first)
        #expect(owed.state == .pending && owed.attempt == 3 && owed.due == 1_780_000_300_000)
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done)
        let run = try #require(first.report?.run)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RUN_ID"] } == [run])
        #expect(hook.calls.map { $0.environment["SYNCAGENT_ATTEMPT"] } == ["4"])
        #expect(try scene.store.hooks(run: run).map(\.state) == [.done])
    }

    @Test(
        "Where the destination was moved away or emptied, an owed hook waits until a pull has brought its files [S33]",
        arguments: [nil, AtomicSwitch()], [false, true])
    func movedAway(atomic: AtomicSwitch?, isEmptied: Bool) throws {
        let none = HookOutcome.End.notStarted("no process")
        let first = try scene.pull(hooks: RecordingHook(none, none, none, isTransient: true, isExhaustion: true)) {
            $0.atomic = atomic
            $0.hooks = [RunHook(group: "all", arguments: ["/bin/reindex"])]
        }
        #expect(first.status == .hookFailed && first.report?.result == .ok)
        let files = FileManager.default
        for name in isEmptied && atomic == nil ? ["/models", "/sheets"] : [""] {
            try files.removeItem(atPath: scene.destination + name)
        }
        if isEmptied { try files.createDirectory(atPath: scene.destination, withIntermediateDirectories: true) }
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done)
        #expect(hook.calls.isEmpty && scene.problems(tree) == [])
        #expect(try scene.pull(hooks: hook).status == .done)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RUN_ID"] } == [first.report?.run])
    }

    @Test("While a first pull into a new directory has brought only a part, hooks owed from before wait [S33]")
    func broughtInPart() throws {
        let none = HookOutcome.End.notStarted("no process")
        _ = try scene.pull(hooks: RecordingHook(none, none, none, isTransient: true, isExhaustion: true)) {
            $0.hooks = [RunHook(group: "all", arguments: ["/bin/reindex"])]
        }
        try FileManager.default.removeItem(atPath: scene.destination)
        try scene.root.write("part", to: "dest/sheets/a")
        try scene.root.write("", to: "dest/.syncagent/index.log")
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done && hook.calls.isEmpty)
        #expect(try scene.pull(hooks: hook).status == .done && hook.calls.count == 1)
        #expect(scene.problems(tree) == [])
    }

    @Test("A plugin that does not come up by its own fault fails after three attempts")
    func noPlugin() throws {
        let none = HookOutcome.End.notStarted("plugin reindex is given up")
        let hook = RecordingHook(none, none, none, isTransient: true)
        let outcome = try scene.pull(hooks: hook) { $0.hooks = [RunHook(group: "all", arguments: ["plugin:reindex"])] }
        #expect(outcome.status == .hookFailed && hook.calls.count == 3)
        #expect(try scene.store.hooks().map(\.state) == [.failed])
    }

    @Test("When files are missing the hook is told, by group, and the status is of the files")
    func partial() throws {
        try scene.root.write("x", to: "dest/models/c/mine")
        let hook = RecordingHook(.exited(0), .exited(0), .exited(3))
        let outcome = try pull(hook, groups: ["all", "sheets", "models"])
        #expect(outcome.status == .incomplete)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RESULT"] } == ["partial", "ok", "failed"])
        let entries = try report(hook.calls.last)["entries"] as? [[String: Any]]
        #expect(entries?.first?["state"] as? String == "failed")
        #expect((entries?.first?["reason"] as? String)?.contains("directory") == true)
    }
}
