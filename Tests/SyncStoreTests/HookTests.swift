import SyncModel
import SyncStore
import Testing

@Suite("Hooks that are owed", .timeLimit(.minutes(10)))
struct HookTests {
    private func owing() throws -> (SyncStore, [StoredHook]) {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        return (store, try store.complete(bothGroups, of: "r1", now: 2))
    }

    @Test("Nothing is owed before its group is complete; then everything that was recorded with the run [S21 S31]")
    func owed() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        #expect(try store.owedHooks() == [])
        let waiting = try store.hooks(run: "r1")
        #expect(waiting.map(\.state) == [.waiting, .waiting])
        #expect(.of { _ = try store.started(hook: waiting[0].identifier, now: 1) } == .refused)
        let owed = try store.complete(bothGroups, of: "r1", now: 2)
        #expect(owed.map(\.group) == ["all", "sheets"])
        #expect(owed.map(\.result) == [.partial, .ok])
        #expect(owed.map(\.changed) == [3, 1])
        #expect(owed[0].timeout == 30)
        #expect(owed[0].destination == "/srv/tower")
        #expect(try store.owedHooks(session: "tower") == owed)
        #expect(try store.owedHooks(session: "bridge") == [])
    }

    @Test("A hook that no call is due of is skipped, and says why [S131]")
    func skipped() throws {
        let (store, owed) = try owing()
        try store.skip(hook: owed[0].identifier, reason: "nothing changed", now: 9)
        let hook = try store.hook(owed[0].identifier)
        #expect(hook.state == .skipped && hook.ended == "nothing changed" && hook.attempt == 0)
        #expect(try store.owedHooks().map(\.group) == ["sheets"])
        _ = try store.started(hook: owed[1].identifier, now: 10)
        #expect(.of { try store.skip(hook: owed[1].identifier, reason: "x", now: 11) } == .refused)
        #expect(try store.findings() == [])
    }

    @Test("A file hook is owed everything since the last run after which one of its kind did its work [S131]")
    func unreported() throws {
        let store = try SyncStore.inMemory()
        func run(
            _ name: String, at time: Int64, _ result: RunResult?, _ end: HookRunInput? = nil,
            arguments: [String] = ["/bin/thumbs"]
        ) throws -> StoredHook {
            var start = towerRun(name)
            start.recipe.hooks = [RunHook(group: "all", arguments: arguments, timeout: 9, results: [.ok], batch: 10)]
            try store.begin(start, now: time)
            let hook = try #require(try store.hooks(run: name).first)
            let event = Array("{\"event\":\"x\"}".utf8)
            guard let result else { return hook }
            let groups = [CompletedGroup(name: "all", result: result, changed: 1)]
            _ = try store.complete(groups, of: name, events: [event], now: time + 1)
            guard let end else { return hook }
            _ = try store.started(hook: hook.identifier, now: time + 2)
            try store.finished(hook: hook.identifier, end, ended: "exit", now: time + 3)
            return hook
        }
        func since(_ hook: StoredHook, own: Bool = false) throws -> Int64? {
            try store.unreported(hook, includingOwn: own)?.since
        }
        let first = try run("r1", at: 10, .ok, .succeeded)
        #expect(try since(first) == nil)
        #expect(try since(first, own: true) == 10)
        let second = try run("r2", at: 20, .ok, .failed)
        #expect(try since(second) == nil, "r1 was accepted")
        let third = try run("r3", at: 30, .partial)
        #expect(try since(third) == 20, "its hook failed")
        let fourth = try run("r4", at: 40, .ok, .succeeded)
        let work = try #require(try store.unreported(fourth, includingOwn: false))
        #expect(work.since == 20 && work.after == 0 && work.through == 3 && work.isOnRecord)
        let fifth = try run("r5", at: 50, nil)
        #expect(try since(fifth) == nil, "r4 was accepted")
        #expect(try store.unreported(fifth, includingOwn: true)?.after == 3)
        let other = try run("r6", at: 60, nil, arguments: ["/bin/new"])
        #expect(try since(other) == 50, "r5 is new to it, and what came before had its end")
        try store.skip(hook: other.identifier, reason: StoredHook.nothingChanged, now: 61)
        let again = try run("r7", at: 70, nil, arguments: ["/bin/new"])
        #expect(try since(again) == nil, "there was nothing to tell after r6")
    }

    @Test("A hook that does not ask for the result is skipped [S39]")
    func results() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let failed = CompletedGroup(name: "sheets", result: .failed, changed: 0)
        #expect(try store.complete([failed], of: "r1", now: 2) == [])
        #expect(try store.hooks(run: "r1").first { $0.group == "sheets" }?.state == .skipped)
    }

    @Test("A group completes once; telling it again changes nothing [S33 S41]")
    func once() throws {
        let (store, owed) = try owing()
        _ = try store.started(hook: owed[0].identifier, now: 3)
        try store.finished(hook: owed[0].identifier, .succeeded, ended: "exit 0", now: 4)
        let other = CompletedGroup(name: "all", result: .ok, changed: 99)
        #expect(try store.complete([other], of: "r1", now: 5).map(\.group) == ["sheets"])
        let all = try store.hooks(run: "r1").first { $0.group == "all" }
        #expect(all?.state == .done && all?.result == .partial && all?.changed == 3)
    }

    @Test("Each attempt has a higher number, also after a crash inside it [F089 G3]")
    func attempts() throws {
        let (store, owed) = try owing()
        let hook = owed[0].identifier
        #expect(try store.started(hook: hook, now: 3) == 1)
        #expect(.of { _ = try store.started(hook: hook, now: 3) } == .refused)
        #expect(try store.recover(session: "tower").hooks == [hook])
        #expect(try store.started(hook: hook, now: 4) == 2)
        try store.finished(hook: hook, .askedForRetry, ended: "exit 75", output: "later", due: 99, now: 5)
        #expect(try store.owedHooks().first?.due == 99)
        #expect(try store.started(hook: hook, now: 6) == 3)
        try store.finished(hook: hook, .succeeded, ended: "exit 0", now: 7)
        try store.finished(hook: hook, .succeeded, ended: "exit 0", now: 8)
        let done = try store.hooks(run: "r1").first { $0.identifier == hook }
        #expect(done?.state == .done && done?.attempt == 3 && done?.finished == 7 && done?.ended == "exit 0")
        #expect(try store.owedHooks().map(\.group) == ["sheets"])
    }

    @Test("A newer run takes the session over; a hook its dead holder left running is owed again [G3]")
    func takeover() throws {
        let (store, owed) = try owing()
        _ = try store.started(hook: owed[0].identifier, now: 3)
        try store.begin(towerRun("r2"), now: 4)
        #expect(try store.owedHooks().map(\.state) == [.pending, .pending])
        #expect(try store.started(hook: owed[0].identifier, now: 5) == 2)
    }

    @Test(
        "Given up with its run, a hook is not owed any more, whoever died in it; one that was stopped may be replayed [S33 S102]"
    )
    func givenUp() throws {
        func giveUp(_ store: SyncStore, _ owed: [StoredHook]) throws {
            #expect(try store.apply(.cancelled, to: "r1", reason: .userCancel, now: 9))
            #expect(try store.owedHooks() == [] && store.recover(session: "tower").hooks == [])
            let (called, other) = (try store.hook(owed[0].identifier), try store.hook(owed[1].identifier))
            #expect(called.state == .failed && called.ended == StoredHook.stopped && called.attempt == 1)
            #expect(!called.hasFailed, "nobody is to look")
            #expect(other.state == .skipped && other.attempt == 0)
            #expect(try store.findings() == [])
            try store.replay(hook: called.identifier)
            #expect(try store.owedHooks().map(\.identifier) == [called.identifier])
        }
        // Its process died, and nobody has looked since.
        let (first, dead) = try owing()
        _ = try first.started(hook: dead[0].identifier, now: 3)
        try giveUp(first, dead)
        // Somebody has.
        let (second, returned) = try owing()
        _ = try second.started(hook: returned[0].identifier, now: 3)
        #expect(try second.recover(session: "tower").hooks == [returned[0].identifier])
        try giveUp(second, returned)
        // It was stopped for that, by a process that lived on …
        let (third, stopped) = try owing()
        _ = try third.started(hook: stopped[0].identifier, now: 3)
        try third.finished(hook: stopped[0].identifier, .interrupted, ended: StoredHook.stopped, now: 4)
        // … and had it died here, nothing would have been given up.
        #expect(try third.owedHooks().map(\.identifier) == stopped.map(\.identifier))
        try giveUp(third, stopped)
    }

    @Test("One that waits for another attempt is skipped when its run is given up [S102]")
    func givenUpBetween() throws {
        let (store, owed) = try owing()
        _ = try store.started(hook: owed[0].identifier, now: 3)
        try store.finished(hook: owed[0].identifier, .askedForRetry, ended: "exit 75", due: 99, now: 4)
        #expect(try store.apply(.cancelled, to: "r1", reason: .userCancel, now: 9))
        #expect(try store.hooks(run: "r1").map(\.state) == [.skipped, .skipped])
    }

    @Test("A person may run an ended hook again, and only an ended one [S33]")
    func replay() throws {
        let (store, owed) = try owing()
        let hook = owed[0].identifier
        _ = try store.started(hook: hook, now: 3)
        #expect(.of { try store.replay(hook: hook) } == .refused)
        try store.finished(hook: hook, .failed, ended: "timeout", now: 4)
        try store.replay(hook: hook)
        #expect(try store.started(hook: hook, now: 5) == 2)
        #expect(.of { try store.replay(hook: 4711) } == .unknown)
    }

    @Test("Of a long output the end is kept, and it is text [F093]")
    func output() throws {
        let (store, owed) = try owing()
        _ = try store.started(hook: owed[0].identifier, now: 3)
        let output = String(repeating: "ü", count: 200_000) + "\0the end"
        try store.finished(hook: owed[0].identifier, .failed, ended: "exit 1", output: output, now: 4)
        let kept = try store.hooks(run: "r1").first { $0.identifier == owed[0].identifier }?.output ?? ""
        #expect(kept.utf8.count <= SyncStore.hookOutputLimit + 3)
        #expect(kept.hasPrefix("…") && kept.hasSuffix("ü the end"), "a NUL does not end it")
    }
}
