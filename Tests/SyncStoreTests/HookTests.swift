import SyncModel
import SyncStore
import Testing

@Suite("Hooks that are owed", .timeLimit(.minutes(3)))
struct HookTests {
    private func owing() throws -> (SyncStore, [StoredHook]) {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        return (store, try store.complete(bothGroups, of: "r1", now: 2))
    }

    @Test(
        "Nothing is owed before its group is complete; then everything that was recorded with the run [S21 S31]"
    )
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

    @Test("Since when a hook was not told: from the first run after the last that it was called for [S131]")
    func untold() throws {
        let store = try SyncStore.inMemory()
        func run(_ name: String, at time: Int64, _ results: [RunResult]?) throws -> StoredHook {
            try store.begin(towerRun(name), now: time)
            let hook = try #require(try store.hooks(run: name).first { $0.group == "all" })
            if let results {
                let groups = zip(["all", "sheets"], results).map {
                    CompletedGroup(name: $0, result: $1, changed: 1)
                }
                _ = try store.complete(groups, of: name, now: time + 1)
            }
            return hook
        }
        let first = try run("r1", at: 10, [.ok, .ok])
        #expect(try store.untoldSince(first, takenUp: false) == nil)
        #expect(try store.untoldSince(first, takenUp: true) == 10)
        let second = try run("r2", at: 20, nil)
        #expect(try store.untoldSince(second, takenUp: false) == nil)
        let third = try run("r3", at: 30, nil)
        #expect(try store.untoldSince(third, takenUp: false) == 20)
        _ = try run("r4", at: 40, [.partial, .failed])
        let fifth = try run("r5", at: 50, nil)
        #expect(try store.untoldSince(fifth, takenUp: false) == nil, "any result was asked for")
        let sheets = try #require(try store.hooks(run: "r5").first { $0.group == "sheets" })
        #expect(sheets.results == [.ok])
        #expect(try store.untoldSince(sheets, takenUp: false) == 20, "it was not called for r4")
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
        let output = String(repeating: "ü", count: 200_000) + "the end"
        try store.finished(hook: owed[0].identifier, .failed, ended: "exit 1", output: output, now: 4)
        let kept = try store.hooks(run: "r1").first { $0.identifier == owed[0].identifier }?.output ?? ""
        #expect(kept.utf8.count <= SyncStore.hookOutputLimit + 3)
        #expect(kept.hasPrefix("…") && kept.hasSuffix("üthe end"))
    }
}
