import Foundation
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@testable import SyncEngine

/// What stands on record of a pull, and what the next one makes of it.
@Suite("Runs that outlive a process", .timeLimit(.minutes(10)))
struct DurableRunTests {
    private let scene: Scene
    private let tree: AssetTree
    private static let size = 1_200_000

    init() throws {
        scene = try Scene(isDurable: true)
        var tree = AssetTree()
        tree.addFile("a/small", size: 900, seed: 1)
        tree.addFile("big", size: Self.size, seed: 2)
        self.tree = tree
        try scene.publish(tree) { ($0.looseAbove, $0.packSize) = (100_000, 64 << 20) }
    }

    private var hooked: (inout RunRecipe) -> Void { { $0.hooks = [RunHook(group: "all", arguments: ["/bin/after"])] } }

    /// A pull that ends after half of the large file.
    private func interrupted(_ reason: StopReason, _ configure: (inout RunRecipe) -> Void = { _ in }) throws
        -> Scene.Outcome
    {
        let stop = StopRequest()
        scene.transport.script(Scene.base + "files/big", .stall(after: Self.size / 2))
        let before = scene.transport.totals.bytesReceived
        scene.transport.onBytes { if $0 >= before + UInt64(Self.size / 2) { stop.stop(reason) } }
        let outcome = try scene.pull(stop: stop, configure)
        scene.transport.onBytes { _ in }
        #expect(outcome.report?.result != .ok)
        return outcome
    }

    private func only() throws -> StoredRun {
        let runs = try scene.store.runs()
        #expect(runs.count == 1)
        return try #require(runs.first)
    }

    private func names() throws -> [String] {
        try scene.store.events(of: "com.example.tower", after: 0, limit: .max).events.map { event in
            let object = try JSONSerialization.jsonObject(with: Data(event.line)) as? [String: Any]
            return try #require(object?["event"] as? String)
        }
    }

    @Test("A pull that was killed goes on as the same run, with what came, when the same is asked [S23 S28 F083]")
    func killed() throws {
        let first = try interrupted(.released, hooked)
        let run = try #require(first.report?.run)
        // As a kill leaves it: running, and nobody has the session.
        _ = try scene.store.take(run: run, now: 2)
        let hook = RecordingHook()
        let second = try scene.pull(hooks: hook, hooked)
        #expect(second.status == .done && second.report?.run == run)
        #expect(second.received < UInt64(Self.size) * 3 / 4, "half had come")
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RUN_ID"] } == [run])
        #expect(hook.calls.map { $0.environment["SYNCAGENT_CHANGED"] } == ["2"], "with what the first process placed")
        let stored = try only()
        #expect(stored.state == .finished && stored.result == .ok && stored.losses.count == 1)
        #expect(try names().count { $0 == "run.started" } == 2 && names().count { $0 == "pull.finished" } == 1)
        #expect(scene.problems(tree) == [])
    }

    @Test(
        "A file that a killed process had put in place and not told of is told once, before its group is complete [S25 S29 S30]"
    )
    func unreported() throws {
        let run = try leaveUntold()
        let destination = try Destination.open(path: scene.destination, create: false)
        let hook = RecordingHook()
        let second = try scene.pull(hooks: hook, hooked)
        #expect(second.status == .done && second.report?.run == run)
        #expect(second.values("path", of: "task.installed") == ["big"])
        #expect(second.values("source", of: "task.installed") == ["unknown"])
        #expect(second.requests.isEmpty, "nothing was fetched")
        // The hook hears of what the run changed, whoever did the work.
        #expect(hook.calls.map { $0.environment["SYNCAGENT_CHANGED"] } == ["2"])
        #expect(try names().count { $0 == "task.installed" } == 2)
        #expect(try scene.disorder(in: scene.store) == [])
        #expect(IndexLog.read(destination).isEmpty)
    }

    @Test("What a run placed that ended before its groups is among the changes that the next one's hook hears of")
    func untoldOfFailed() throws {
        // The index cannot be written: a directory is in its place, and not empty.
        try scene.root.write([1], to: "dest/.syncagent/index.new/x")
        let first = try scene.pull(hooked)
        #expect(first.status == .ioError && first.count("task.installed") == 2)
        try FileManager.default.removeItem(atPath: scene.destination + "/.syncagent/index.new")
        for expected in ["2", "0"] {
            let hook = RecordingHook()
            #expect(try scene.pull(hooks: hook, hooked).status == .done)
            #expect(hook.calls.map { $0.environment["SYNCAGENT_CHANGED"] } == [expected])
        }
    }

    @Test("What a killed process put in place counts only once it is on disk [S110]")
    func untoldUnsynced() throws {
        _ = try leaveUntold()
        let hook = RecordingHook()
        let second = try scene.pull(hooks: hook, disk: .failing(at: 1), hooked)
        #expect(second.status == .ioError && second.count("task.installed") == 0 && hook.calls.isEmpty)
        let third = try scene.pull(hooks: hook, hooked)
        #expect(third.status == .done && hook.calls.count == 1)
    }

    /// As a kill between the rename and the event leaves it: both files are in place and in the log, and only of `a/small`
    /// it was told.
    private func leaveUntold() throws -> String {
        let first = try interrupted(.released, hooked)
        let run = try #require(first.report?.run)
        #expect(first.values("path", of: "task.installed") == ["a/small"])
        _ = try scene.store.take(run: run, now: 2)
        try scene.root.write(try #require(tree.bytes("big")), to: "dest/big")
        let destination = try Destination.open(path: scene.destination, create: false)
        let log = try IndexLog(destination)
        for path in ["a/small", "big"] {
            let digest = try Scene.digest(try #require(tree.bytes(path)))
            try log.append([IndexLog.Entry(path: Array(path.utf8), digest: digest, kind: .file)])
        }
        return run
    }

    private var batched: (inout RunRecipe) -> Void {
        { $0.hooks = [RunHook(group: "all", arguments: ["/bin/files"], batch: 100)] }
    }

    /// The files that a hook was given.
    private func files(_ hook: RecordingHook) throws -> [String] {
        try hook.calls.filter { $0.environment["SYNCAGENT_BATCH"] != nil }.flatMap { call in
            let report = try JSONSerialization.jsonObject(with: Data(call.input)) as? [String: Any]
            return (report?["entries"] as? [[String: Any]] ?? []).compactMap { $0["path"] as? String }
        }
    }

    @Test(
        "What a killed run had put in place is told by the run that replaces it, and handed to its file hook [F083 S25 S131 G3]",
        arguments: [false, true])
    func untoldOfReplaced(isNewer: Bool) throws {
        let run = try leaveUntold()
        var tree = tree
        if isNewer {
            tree.addFile("a/new", size: 10, seed: 3)
            try scene.publish(tree, revision: 2) { ($0.looseAbove, $0.packSize) = (100_000, 64 << 20) }
        }
        let hook = RecordingHook()
        let second = try scene.pull(hooks: hook, batched)
        #expect(second.status == .done && second.report?.run != run)
        #expect(try scene.store.run(run).state == .superseded)
        #expect(try files(hook) == tree.paths.sorted())
        #expect(second.values("path", of: "task.installed").sorted() == tree.paths.sorted())
        // The hook that the killed run had promised comes after it.
        #expect(hook.calls.map(\.arguments) == [["/bin/files"], ["/bin/after"]])
        #expect(hook.calls.allSatisfy { $0.environment["SYNCAGENT_CHANGED"] == "\(tree.paths.count)" })
        let idle = RecordingHook()
        _ = try scene.pull(hooks: idle, batched)
        #expect(idle.calls.isEmpty)
    }

    @Test("What was put in place is on record before the index is complete and the log is gone [F083 S25 S30 G3]")
    func eventsBeforeIndex() throws {
        let database = SQLFile(scene.root.path("state/syncagent.sqlite"))
        // No event of a file gets into the store: as if the process ended before that.
        try database.run(
            """
            CREATE TRIGGER refuse BEFORE INSERT ON events WHEN instr(NEW.payload, 'task.installed') > 0
                BEGIN SELECT RAISE(ABORT, 'no room'); END;
            """)
        let first = try scene.pull(hooks: RecordingHook(), batched)
        #expect(first.error != nil && scene.problems(tree) == [])
        let destination = try Destination.open(path: scene.destination, create: false)
        #expect(StatIndex.read(from: destination).completion == nil)
        #expect(Set(IndexLog.read(destination).map(\.path)).count == tree.paths.count)
        try database.run("DROP TRIGGER refuse")
        let hook = RecordingHook()
        let second = try scene.pull(hooks: hook, batched)
        #expect(second.status == .done && second.requests.isEmpty)
        #expect(try files(hook) == tree.paths.sorted())
    }

    @Test(
        "Paths are found in events however they are written",
        arguments: ["a/b", "a \"b\"", "\\", "ü\u{1}", "\"path\":\""])
    func installedEvents(path: String) {
        func event(_ name: EventName, cut: Int = 0) -> SessionEvent {
            let others = name == .taskInstalled ? ["source"] : ["reason", "cause"]
            let told = SyncEvent(name, time: 0, session: path, run: "r1") {
                for field in others { $0.field(field, "x") }
                $0.field("path", path)
            }
            return SessionEvent(sequence: 1, line: told.json.bytes.dropLast(cut))
        }
        let installed = event(.taskInstalled)
        #expect(installed.installedPath == SessionEvent.spelled(path))
        #expect(installed.isOf(run: "r1") && !installed.isOf(run: "r11") && !installed.isOf(run: "r"))
        #expect(event(.taskFailed).installedPath == nil)
        #expect(event(.taskInstalled, cut: 2).installedPath == nil)
    }

    @Test(
        "Whatever else is asked takes the place of the killed run, which ends superseded [S42 S135]",
        arguments: ["manifest", "groups", "prune", "hook", "batch"])
    func superseded(what: String) throws {
        let first = try interrupted(.released, hooked)
        let run = try #require(first.report?.run)
        _ = try scene.store.take(run: run, now: 2)
        if what == "manifest" {
            var newer = tree
            newer.addFile("a/new", size: 10, seed: 3)
            try scene.publish(newer, revision: 2) { ($0.looseAbove, $0.packSize) = (100_000, 64 << 20) }
        }
        let second = try scene.pull(hooks: RecordingHook()) { options in
            hooked(&options)
            if what == "groups" { options.groups = ["all"] }
            if what == "prune" { options.prune = true }
            if what == "hook" { options.hooks[0].arguments.append("x") }
            if what == "batch" { options.hooks[0].batch = 100 }
        }
        #expect(second.status == .done && second.report?.run != run)
        #expect(try scene.store.run(run).state == .superseded)
        #expect(try scene.store.hooks(run: run).map(\.state) == [.skipped])
        #expect(second.received < UInt64(Self.size) * 3 / 4, "what had come is of use to the new run")
    }

    @Test(
        "How a run rests says why it was stopped; the same pull again goes on with it [S24 S27]",
        arguments: [
            (StopReason.user, RunState.paused), (.hangUp, .paused), (.released, .waiting), (.policy, .waiting),
            (.cancelled, .cancelled),
        ])
    func stopped(reason: StopReason, rests: RunState) throws {
        let first = try interrupted(reason)
        let stored = try only()
        #expect(stored.state == rests && stored.reason == reason.rest && stored.counts.files.total == 2)
        #expect(try names().last == "run.stopped" && !names().contains("pull.finished"))
        let second = try scene.pull()
        #expect(second.status == .done && scene.problems(tree) == [])
        #expect((second.report?.run == first.report?.run) == (reason != .cancelled))
    }

    @Test("A hook that a crash left pending is called by the next pull before anything else [S19 S36]")
    func pendingHook() throws {
        let run = try leaveHook(.pending)
        let hook = RecordingHook()
        let next = try scene.pull(hooks: hook)
        #expect(next.status == .done && next.report?.run != run)
        let call = try #require(hook.calls.first)
        #expect(hook.calls.count == 1)
        #expect(call.environment["SYNCAGENT_RUN_ID"] == run && call.environment["SYNCAGENT_ATTEMPT"] == "1")
        #expect(call.environment["SYNCAGENT_CHANGED"] == "2" && call.environment["SYNCAGENT_RESULT"] == "ok")
        #expect(next.events.first?["event"] as? String == "hook.started")
        #expect(try scene.store.run(run).state == .finished)
    }

    @Test("A hook that was running at a crash is called again: same run, next attempt, same report [F089 S33]")
    func runningHook() throws {
        let run = try leaveHook(.running)
        let hook = RecordingHook()
        _ = try scene.pull(hooks: hook)
        let call = try #require(hook.calls.first)
        #expect(hook.calls.count == 1)
        #expect(call.environment["SYNCAGENT_RUN_ID"] == run && call.environment["SYNCAGENT_ATTEMPT"] == "2")
        #expect(call.environment["SYNCAGENT_CHANGED"] == "2" && call.environment["SYNCAGENT_HOOK"] == nil)
        let report = try JSONSerialization.jsonObject(with: Data(call.input)) as? [String: Any]
        #expect(report?["run"] as? String == run && report?["result"] as? String == "ok")
        _ = try scene.pull(hooks: hook)
        #expect(hook.calls.count == 1, "once it has ended it is not called again")
    }

    @Test("A hook that left a receipt before the crash is not called again; one that is replayed is [G3 S33]")
    func receipt() throws {
        let run = try leaveHook(.running)
        let destination = try Destination.open(path: scene.destination, create: false)
        #expect(try HookReceipt(run: run, group: "all").leave(in: destination))
        #expect(try !HookReceipt(run: run, group: "all").leave(in: destination))
        let hook = RecordingHook()
        let next = try scene.pull(hooks: hook)
        #expect(hook.calls.isEmpty)
        #expect(next.count("hook.started") == 1 && next.values("result", of: "hook.finished") == ["receipt"])
        let stored = try #require(try scene.store.hooks(run: run).first)
        #expect(stored.state == .done && stored.ended == "receipt")
        #expect(try scene.store.run(run).state == .finished)

        try scene.store.replay(hook: stored.identifier)
        _ = try scene.pull(hooks: hook)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RUN_ID"] } == [run], "a person asked for it")
    }

    @Test(
        "Of several hooks of a group each has a receipt of its own: it stands for no other one [S19 S33 F089 G3]",
        arguments: [false, true])
    func receiptOfOne(isItsOwn: Bool) throws {
        let run = try leaveHook(.running) { options in
            options.hooks = ["/bin/one", "/bin/two"].map { RunHook(group: "all", arguments: [$0]) }
        }
        let numbers = try scene.store.hooks(run: run).map(\.identifier).sorted()
        let destination = try Destination.open(path: scene.destination, create: false)
        let number = try #require(isItsOwn ? numbers.last : numbers.first)
        #expect(try HookReceipt(run: run, group: "all", hook: number).leave(in: destination))
        #expect(try HookReceipt(run: run, group: "all").leave(in: destination))
        let hook = RecordingHook()
        _ = try scene.pull(hooks: hook)
        #expect(hook.calls.map(\.arguments) == (isItsOwn ? [] : [["/bin/two"]]))
        #expect(hook.calls.allSatisfy { $0.environment["SYNCAGENT_HOOK"] == numbers.last.map { "\($0)" } })
        #expect(try scene.store.hooks(run: run).map(\.state) == [.done, .done])
    }

    @Test("A replay that is stopped, or asks to be called again, stays one although there is a receipt [S33]")
    func stoppedReplay() throws {
        let run = try #require(try scene.pull(hooks: RecordingHook(), hooked).report?.run)
        let destination = try Destination.open(path: scene.destination, create: false)
        #expect(try HookReceipt(run: run, group: "all").leave(in: destination))
        let number = try #require(try scene.store.hooks(run: run).first).identifier
        try scene.store.replay(hook: number)
        let stop = StopRequest()
        try scene.engine(hooks: StoppedHook(stop), stop: stop).finishEarlierRuns(of: "com.example.tower")
        #expect(try scene.store.hook(number).state == .pending)
        let hook = RecordingHook(.exited(75))
        try scene.engine(hooks: hook).finishEarlierRuns(of: "com.example.tower")
        #expect(hook.calls.map { $0.environment["SYNCAGENT_ATTEMPT"] } == ["3", "4"])
        let stored = try scene.store.hook(number)
        #expect(stored.state == .done && stored.ended == "exit 0")
    }

    /// A pull whose process was lost with its last hook in this state.
    private func leaveHook(_ state: HookRunState, _ configure: ((inout RunRecipe) -> Void)? = nil) throws -> String {
        let outcome = try scene.pull(hooks: RecordingHook(), configure ?? hooked)
        let run = try #require(outcome.report?.run)
        try SQLFile(scene.root.path("state/syncagent.sqlite")).takeBackHook(state)
        return run
    }

    @Test(
        "A run that the next process ends has the exit status it would have had: 2 without some files, 5 with a failed hook",
        arguments: [HookRunState.pending, .running])
    func lateStatus(left: HookRunState) throws {
        try scene.root.write("x", to: "dest/a/small/mine")
        let incomplete = try leaveHook(left)
        _ = try scene.pull(hooks: RecordingHook(.exited(3)))
        let first = try scene.store.run(incomplete)
        #expect(first.result == .partial && first.exitStatus == ExitCode.incomplete.rawValue)

        let other = try DurableRunTests()
        let failing = try other.leaveHook(left)
        _ = try other.scene.pull(hooks: RecordingHook(.exited(3)))
        let second = try other.scene.store.run(failing)
        #expect(second.result == .ok && second.exitStatus == ExitCode.hookFailed.rawValue)
        let ends = try other.ends(of: failing)
        #expect((ends.last?["error"] as? [String: Any])?["status"] as? Int == 5)
    }

    @Test("A hook that had failed before the process was lost still counts for the run's exit status")
    func earlierHook() throws {
        let outcome = try scene.pull(hooks: RecordingHook(.exited(3))) { options in
            options.hooks = ["/bin/one", "/bin/two"].map { RunHook(group: "all", arguments: [$0]) }
        }
        let run = try #require(outcome.report?.run)
        try SQLFile(scene.root.path("state/syncagent.sqlite")).takeBackHook(.running)
        _ = try scene.pull(hooks: RecordingHook())
        #expect(try scene.store.run(run).exitStatus == ExitCode.hookFailed.rawValue)
    }

    @Test("What a lost process had done is added up once, by whoever ends its run")
    func lateTotals() throws {
        let run = try leaveHook(.running)
        let counts = try scene.store.run(run).counts
        // It was lost before it could report what it did.
        try SQLFile(scene.root.path("state/syncagent.sqlite")).run(
            "UPDATE sessions SET totals = json_set(totals, '$.received', 0, '$.requests', 0, '$.files', 0, '$.ok', 0)")
        let next = try scene.pull(hooks: RecordingHook())
        let totals = try #require(try scene.store.session("com.example.tower")).totals
        #expect(totals.files == 2 && totals.ok == 2)
        #expect(totals.received == counts.bytes.received + (next.report?.bytes.received ?? 0))
        #expect(totals.requests == counts.requests + (next.report?.requests ?? 0))
        #expect(try names().count { $0 == "run.summary" } == 2)
    }

    @Test("What a process had done is added up once, although it is stopped in a hook and the next ends its run")
    func stoppedInHook() throws {
        let stop = StopRequest()
        let first = try scene.pull(hooks: StoppedHook(stop), stop: stop, hooked)
        let run = try #require(first.report?.run)
        #expect(try scene.store.run(run).state == .waiting)
        let next = try scene.pull(hooks: RecordingHook())
        #expect(try scene.store.run(run).exitStatus == ExitCode.done.rawValue)
        let totals = try #require(try scene.store.session("com.example.tower")).totals
        #expect(totals.files == 2 && totals.ok == 2)
        let received = [first, next].map { $0.report?.bytes.received ?? 0 }
        #expect(totals.received == received.reduce(0, +))
        #expect(try names().count { $0 == "run.summary" } == 2)
    }

    @Test("A stop between two hooks: the one that was not called stays owed, and the status is 5 [S19 S33]")
    func stoppedBetweenHooks() throws {
        let stop = StopRequest()
        let first = try scene.pull(hooks: StoppingHook(after: 1, stop), stop: stop) { options in
            options.hooks = ["/bin/one", "/bin/two"].map { RunHook(group: "all", arguments: [$0]) }
        }
        #expect(first.status == .hookFailed && first.report?.result == .ok)
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done)
        #expect(hook.calls.map(\.arguments) == [["/bin/two"]])
    }

    @Test("A pull whose own run is ok has status 5 if a hook that an earlier run owes fails [S19 S33]")
    func failedOwedHook() throws {
        _ = try leaveHook(.pending)
        let outcome = try scene.pull(hooks: RecordingHook(.exited(3)))
        #expect(outcome.status == .hookFailed && outcome.report?.result == .ok)
    }

    @Test("A pull that is stopped in a hook of an earlier run begins no run; the next one ends the earlier [S19 S33]")
    func stoppedOwedHook() throws {
        let run = try leaveHook(.pending)
        let stop = StopRequest()
        let error = #expect(throws: EngineError.self) {
            try scene.engine(hooks: StoppedHook(stop), stop: stop).pull(scene.options())
        }
        #expect(error?.status == .interrupted)
        #expect(try scene.store.runs().map(\.identifier) == [run])
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook).status == .done)
        #expect(hook.calls.map { $0.environment["SYNCAGENT_RUN_ID"] } == [run])
        #expect(try scene.store.run(run).state == .finished)
    }

    @Test("A stop after the last hook of an earlier run leaves nothing of that run to the next pull [S19 S33]")
    func stoppedAfterOwedHook() throws {
        let run = try leaveHook(.pending)
        let stop = StopRequest()
        _ = try? scene.engine(hooks: StoppingHook(after: 1, stop), stop: stop).pull(scene.options())
        let ended = try scene.store.run(run)
        #expect(ended.state == .finished && ended.exitStatus == ExitCode.done.rawValue)
    }

    @Test("A run whose end cannot be recorded is reported once and added up once, by the process that ends it")
    func unrecordedEnd() throws {
        let path = scene.root.path("state/syncagent.sqlite")
        // The store takes everything but the end of the run.
        try SQLFile(path).run(
            """
            CREATE TRIGGER refuse BEFORE UPDATE OF state ON runs WHEN NEW.state = 'finished'
                BEGIN SELECT RAISE(ABORT, 'no room'); END;
            """)
        let first = try scene.pull()
        #expect(first.error != nil && first.count("run.summary") == 1 && scene.problems(tree) == [])
        let run = try #require(try scene.store.runs().first)
        #expect(run.state == .running)
        #expect(try scene.store.session(run.session)?.totals == SessionTotals())
        try SQLFile(path).run("DROP TRIGGER refuse")
        let next = try scene.pull()
        #expect(next.status == .done)
        let ended = try scene.store.run(run.identifier)
        #expect(ended.result == .ok && ended.exitStatus == ExitCode.done.rawValue)
        let totals = try #require(try scene.store.session("com.example.tower")).totals
        #expect(totals.files == 2 && totals.ok == 2)
    }

    @Test("What a stopped process had done is added up once, although its stop could not be recorded")
    func unrecordedStop() throws {
        let path = scene.root.path("state/syncagent.sqlite")
        try SQLFile(path).run(
            """
            CREATE TRIGGER refuse BEFORE UPDATE OF state ON runs WHEN NEW.state = 'waiting'
                BEGIN SELECT RAISE(ABORT, 'no room'); END;
            """)
        let first = try interrupted(.released)
        let told = try #require(first.events.first(where: { $0["event"] as? String == "run.summary" }))
        #expect(first.error != nil && (told["received"] as? Int ?? 0) >= Self.size / 2)
        #expect(try only().state == .running)
        #expect(try !names().contains("run.summary"))
        try SQLFile(path).run("DROP TRIGGER refuse")
        let next = try scene.pull()
        #expect(next.status == .done)
        let totals = try #require(try scene.store.session("com.example.tower")).totals
        #expect(totals.received == UInt64(told["received"] as? Int ?? 0) + (next.report?.bytes.received ?? 0))
        #expect(totals.requests == UInt64(told["requests"] as? Int ?? 0) + (next.report?.requests ?? 0))
        #expect(try names().count { $0 == "run.summary" } == 2)
    }

    private func ends(of run: String) throws -> [[String: Any]] {
        try scene.store.events(of: "com.example.tower", after: 0, limit: .max).events.compactMap { event in
            let object = try JSONSerialization.jsonObject(with: Data(event.line)) as? [String: Any]
            return object?["event"] as? String == "pull.finished" && object?["run"] as? String == run ? object : nil
        }
    }

    @Test("The end of a run and the event that tells it are recorded together, so neither comes twice [S25 S33]")
    func endTogether() throws {
        _ = try scene.pull()
        let pages = try SQLFile(scene.root.path("state/syncagent.sqlite")).numbers(
            "SELECT instr(payload, 'pull.finished') FROM events WHERE id = (SELECT max(id) FROM events)")
        #expect(pages.count == 1 && pages[0] > 0)
        // Refused by the store, nothing of it is told.
        let before = try names()
        #expect(throws: StoreError.self) {
            try scene.store.finish(
                run: "none", result: .ok, counts: RunCounts(), events: [Array("{\"event\":\"pull.finished\"}".utf8)],
                now: 1)
        }
        #expect(try names() == before)
    }

    @Test("Somebody else has the session: status 75, which names the process [S3]")
    func busySession() throws {
        let lease = try scene.store.lease(of: "com.example.tower", process: 4_711, now: 1_780_000_000_000)
        let outcome = try scene.pull()
        #expect(outcome.status == .busy && outcome.requests.isEmpty)
        #expect(outcome.error?.message.contains("process 4711, since 2026-") == true)
        withExtendedLifetime(lease) {}
        #expect(try scene.store.runs() == [])
    }

    @Test("Somebody else writes to the store for too long: status 75, and nothing is fetched [S3]")
    func busyStore() throws {
        _ = try scene.store.sessions()
        try SQLFile(scene.root.path("state/syncagent.sqlite")).whileWriting {
            let outcome = try scene.pull()
            #expect(outcome.status == .busy && outcome.requests.isEmpty)
        }
        #expect(try scene.pull().status == .done)
    }
}

/// A hook that is stopped together with its run.
final class StoppedHook: GroupHook {
    private let stop: StopRequest

    init(_ stop: StopRequest) { self.stop = stop }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        stop.stop(.released)
        return HookOutcome(end: .stopped, output: "", milliseconds: 1)
    }
}
