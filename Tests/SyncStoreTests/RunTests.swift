import SyncModel
import SyncStore
import Testing

@Suite("Sessions and runs", .timeLimit(.minutes(10)))
struct RunTests {
    @Test("A rehearsal passes through a whole run, so that a real one finds every coder set up") func rehearsal() {
        #expect(SyncStore.rehearse())
    }

    @Test("A run comes back as it was recorded [S21 S65]")
    func roundTrip() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        start.recipe.groups = ["sheets", "a\"b"]
        (start.recipe.prune, start.facts.revision) = (true, 7)
        start.deadline = 99
        let started = try store.begin(start, now: 5)
        #expect(started.superseded == [])
        #expect(try store.session(named: "tower").isAt(device: .max, inode: 7))
        let run = try store.run("r1")
        #expect(run.session == "tower")
        #expect(run.state == .running)
        #expect(run.recipe.groups == ["sheets", "a\"b"])
        #expect(run.recipe.prune && run.facts.revision == 7)
        #expect(run.manifest == .zero)
        #expect(run.deadline == 99 && run.started == 5 && run.created == 5 && run.finished == nil)
        #expect(try store.hooks(run: "r1").map(\.arguments).contains(["/usr/bin/reindex", "a b", "ü\n\"\\"]))
    }

    @Test("Thousands of groups that end together are not read anew for each of them", .timeLimit(.minutes(1)))
    func manyGroups() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        (start.groups, start.recipe.hooks) = ((0..<6_000).map { "g\($0)" } + ["all"], [])
        try store.begin(start, now: 1)
        let done = start.groups.map { CompletedGroup(name: $0, result: .ok, changed: 0) }
        #expect(try store.complete(done, of: "r1", now: 2).isEmpty)
        #expect(try store.groups(of: "r1").allSatisfy { $0.state == .completed })
        try store.finish(run: "r1", result: .ok, counts: RunCounts(), now: 3)
    }

    @Test("A pause, of a second or of weeks, does not use up the deadline, however often [S101 S108]")
    func pausedDeadline() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        start.deadline = 99
        try store.begin(start, now: 5)
        #expect(try store.apply(.paused, to: "r1", reason: .userStop, now: 10))
        #expect(try !store.apply(.paused, to: "r1", reason: .userStop, now: 60), "it is paused since 10")
        #expect(try store.run("r1").deadline == 99)
        #expect(try store.apply(.resumed, to: "r1", now: 110))
        #expect(try store.run("r1").deadline == 199)
        #expect(try !store.apply(.resumed, to: "r1", now: 150))
        #expect(try store.run("r1").deadline == 199)
        // A clock that was set back meanwhile takes no time away.
        #expect(try store.apply(.paused, to: "r1", reason: .userStop, now: 190))
        #expect(try store.apply(.resumed, to: "r1", now: 20))
        #expect(try store.run("r1").deadline == 199)
        #expect(try store.apply(.paused, to: "r1", reason: .userStop, now: 21))
        #expect(try store.apply(.resumed, to: "r1", now: 21 + 1_209_600_000))
        #expect(try store.run("r1").deadline == 199 + 1_209_600_000)
    }

    @Test("What is to be told of a run that has ended is not: nothing follows the last event [S12]")
    func afterTheEnd() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let line = Array(#"{"event":"condition.blocked"}"#.utf8)
        #expect(try store.append([line], ofUnfinished: "r1", time: 2))
        let before = try store.events(of: "tower", after: 0).lastSequence
        try finish("r1", in: store)
        let last = try store.events(of: "tower", after: 0).lastSequence
        #expect(try !store.append([line], ofUnfinished: "r1", time: 4))
        #expect(try store.events(of: "tower", after: 0).lastSequence == last && last >= before)
    }

    @Test("A second run attaches to the session and begins an epoch [S1 S3]")
    func attach() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let first = try store.session(named: "tower")
        try finish("r1", in: store)
        try store.begin(towerRun("r2"), now: 2)
        let second = try store.session(named: "tower")
        #expect(second.created == first.created)
        #expect(second.epoch == first.epoch + 1)
        #expect(try store.sessions().count == 1)
    }

    @Test(
        "A pull whose terminal has closed goes on with a schedule that asks for the same, and one that a person has paused does not"
    )
    func closedTerminal() throws {
        for (reason, state) in [(RestReason.terminalClosed, RunState.waiting), (.userStop, .paused)] {
            let store = try SyncStore.inMemory()
            try store.begin(towerRun("r1"), now: 1)
            #expect(try store.apply(.paused, to: "r1", reason: reason, now: 10))
            var again = towerRun("r2")
            again.recipe.origin = .schedule
            let started = try store.begin(again, now: 20, isHeld: false, continuing: true)
            #expect(started.run.identifier == "r1" && started.run.state == state)
        }
    }

    @Test("The same request with other settings and another configuration replaces them, unless a hook makes it")
    func settings() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1, isHeld: false)
        var again = towerRun("r2")
        (again.recipe.settings.http2, again.recipe.configuration) = (.always, RunConfiguration(file: "/c", hooks: [:]))
        try store.begin(again, now: 2, isHeld: false, continuing: true)
        #expect(try store.run("r1").recipe.settings.http2 == .always)
        #expect(try store.run("r1").recipe.configuration?.file == "/c")
        var ofHook = towerRun("r3")
        ofHook.recipe.origin = .hook
        let started = try store.begin(ofHook, now: 3, isHeld: false, continuing: true)
        #expect(started.run.identifier == "r1" && started.run.recipe.configuration?.file == "/c")
    }

    @Test("A session goes on in another directory, and under another name of the same one [S1 F113]")
    func moved() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        var renamed = tower
        renamed.destination = "/mnt/tower"
        try store.begin(towerRun("r2", session: renamed), now: 2)
        #expect(try store.session(named: "tower").destination == "/mnt/tower")
        let other = StoredSession(
            identifier: "tower", project: tower.project, destination: "/srv/second", device: .max, inode: 8)
        try store.begin(towerRun("r3", session: other), now: 3)
        let last = try store.session(named: "tower")
        #expect(last.created == 1)
        #expect(last.destination == "/srv/second" && last.isAt(device: .max, inode: 8))
    }

    @Test("A session belongs to one project; the conflict names both [S2]")
    func otherProject() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        var stranger = tower
        stranger.project = "org.example.bridge"
        do throws(StoreError) {
            try store.begin(towerRun("r2", session: stranger), now: 2)
            Issue.record("it began")
        } catch {
            #expect(error.code == .refused)
            #expect(error.message.contains("com.example.tower") && error.message.contains("org.example.bridge"))
        }
        #expect(try store.session("tower")?.epoch == 1, "nothing of it was recorded")
    }

    @Test("All of a run is recorded, or nothing [S64 S153]")
    func atomic() throws {
        let store = try SyncStore.inMemory()
        var start = towerRun("r1")
        start.recipe.hooks.append(RunHook(group: "no such group", arguments: ["/bin/true"]))
        #expect(.of { try store.begin(start, now: 1) } != nil)
        #expect(try store.sessions() == [])
        #expect(try store.runs() == [])
        #expect(try store.hooks() == [])
        try store.begin(towerRun("r1"), now: 1)
        #expect(.of { try store.begin(towerRun("r1"), now: 1) } != nil, "run identifiers are unique")
        #expect(try store.session("tower")?.epoch == 1)
        #expect(try store.findings() == [])
    }

    @Test("A new run takes the place of one that was left, but not of what is still owed [S42 S135 G3]")
    func supersede() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        _ = try store.complete([bothGroups[1]], of: "r1", now: 2)
        let started = try store.begin(towerRun("r2"), now: 3)
        #expect(started.superseded == ["r1"])
        let old = try store.run("r1")
        #expect(old.state == .superseded && old.reason == .superseded && old.finished == 3)
        let owed = try store.owedHooks()
        #expect(owed.map(\.run) == ["r1"])
        #expect(owed.map(\.group) == ["sheets"])
        #expect(try Set(store.hooks(run: "r1").map(\.state)) == [.pending, .skipped])
        #expect(try store.findings() == [])
    }

    @Test("A run that waits behind the hooks of another takes nothing from it [S33 S42 F123]")
    func behind() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let epoch = try store.session(named: "tower").epoch
        let owed = try store.complete(bothGroups, of: "r1", now: 2)
        _ = try store.started(hook: owed[0].identifier, now: 3)
        let second = try store.begin(towerRun("r2"), now: 4, isHeld: false, continuing: true, isBehind: true)
        #expect(try second.superseded == [] && store.session(named: "tower").epoch == epoch)
        #expect(try store.hook(owed[0].identifier).state == .running)
        #expect(try store.run("r1").state == .running)
        // Of those that wait, the last one counts.
        var other = towerRun("r3")
        other.recipe.prune = true
        let third = try store.begin(other, now: 5, isHeld: false, continuing: true, isBehind: true)
        #expect(third.superseded == ["r2"])
        try finish("r1", in: store)
        #expect(try store.runs(onlyOpen: true).map(\.identifier) == ["r3"])
        #expect(try store.findings() == [])
    }

    @Test("Enqueued, taken, stopped, resumed, finished: each step once, however often it is asked for [S24 S98 S106]")
    func commands() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1, isHeld: false)
        #expect(try store.run("r1").state == .waiting)
        #expect(try store.run("r1").started == nil)
        #expect(try store.take(run: "r1", now: 2).state == .running)
        #expect(.of { _ = try store.take(run: "r1", now: 2) } == .refused)
        #expect(try store.apply(.paused, to: "r1", reason: .userStop, now: 3))
        #expect(try !store.apply(.paused, to: "r1", reason: .userStop, now: 3))
        #expect(try store.run("r1").reason == .userStop)
        #expect(try store.recover(session: "tower").runs == [], "a paused run stays paused")
        #expect(try store.run("r1").state == .paused)
        #expect(try store.apply(.resumed, to: "r1", now: 4))
        #expect(try store.take(run: "r1", now: 5).started == 2)
        try finish("r1", in: store)
        #expect(.of { try store.apply(.cancelled, to: "r1", now: 6) } == .refused)
        #expect(try store.runs(onlyOpen: true) == [])
        #expect(try store.findings() == [])
    }

    @Test("Cancelling ends groups and hooks with the run [S102]")
    func cancel() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        #expect(try store.apply(.cancelled, to: "r1", reason: .userCancel, now: 2))
        #expect(try !store.apply(.cancelled, to: "r1", reason: .userCancel, now: 3))
        #expect(try store.hooks(run: "r1").allSatisfy { $0.state == .skipped })
        #expect(.of { _ = try store.complete(bothGroups, of: "r1", now: 3) } == .refused)
        #expect(try store.findings() == [])
    }

    @Test("What the dead left running is given back, by ownership, and twice is once [S23 S28 F083]")
    func recovery() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        let owed = try store.complete(bothGroups, of: "r1", now: 2)
        #expect(try store.started(hook: owed[0].identifier, now: 3) == 1)
        let recovery = try store.recover(session: "tower")
        #expect(recovery.runs == ["r1"])
        #expect(recovery.hooks == [owed[0].identifier])
        #expect(try store.run("r1").state == .waiting)
        let again = try store.recover(session: "tower")
        #expect(again.runs == [] && again.hooks == [])
        #expect(again.epoch == recovery.epoch + 1)
        #expect(try store.take(run: "r1", now: 9).epoch == again.epoch + 1)
        #expect(try store.findings() == [])
    }

    @Test(
        "What a killed process wrote last of its work is counted once, and only while its run has files to fetch [S52]")
    func lostWork() throws {
        let store = try StateDirectory().open()
        try store.begin(towerRun("r1"), now: 1)
        let lease = try store.lease(of: "tower", process: 1, now: 1)
        func write(_ received: Int, run: String = "r1", epoch: Int64) throws {
            let json = #"{"run":"\#(run)","epoch":\#(epoch),"bytes_received":\#(received),"requests_sent":3}"#
            try store.liveFiles(of: "tower")?.write(requests: Array(json.utf8))
        }
        func lose() throws -> UInt64 {
            #expect(try store.recover(session: "tower").runs == ["r1"])
            let counts = try store.run("r1").counts
            #expect(counts.requests == counts.bytes.received / 700 * 3)
            return counts.bytes.received
        }
        try write(700, epoch: try store.run("r1").epoch)
        #expect(try lose() == 700)
        #expect(try store.recover(session: "tower").runs == [])
        // Killed before it wrote anything: what is there is of the one before.
        _ = try store.take(run: "r1", now: 2)
        #expect(try lose() == 700)
        let third = try store.take(run: "r1", now: 3)
        try write(9, run: "another", epoch: third.epoch)
        #expect(try lose() == 700)
        let fourth = try store.take(run: "r1", now: 4)
        try write(700, epoch: fourth.epoch)
        #expect(try lose() == 1_400)
        let fifth = try store.take(run: "r1", now: 5)
        try write(700, epoch: fifth.epoch)
        _ = try store.complete(bothGroups, of: "r1", counts: fifth.counts, now: 6)
        #expect(try lose() == 1_400, "the record has it")
        let totals = try #require(try store.session("tower")).totals
        #expect(totals.received == 1_400 && totals.requests == 6)
        let summaries = try store.events(of: "tower", after: 0).events.filter { $0.kind == .runSummary }
        #expect(summaries.count == 2)
        #expect(summaries.allSatisfy { $0.text.contains(#""received":700,"#) && $0.text.contains("agent_restart") })
        _ = consume lease
    }

    @Test("What a killed process had received counts although another request replaces its run")
    func lostAndReplaced() throws {
        let store = try StateDirectory().open()
        let run = try store.begin(towerRun("r1"), now: 1).run
        let lease = try store.lease(of: "tower", process: 1, now: 1)
        let json = #"{"run":"r1","epoch":\#(run.epoch),"bytes_received":700,"requests_sent":3}"#
        try store.liveFiles(of: "tower")?.write(requests: Array(json.utf8))
        #expect(try store.begin(towerRun("r2"), now: 2).superseded == ["r1"])
        let lost = try store.run("r1")
        #expect(lost.state == .superseded && lost.counts.bytes.received == 700)
        #expect(try store.session("tower")?.totals.received == 700)
        _ = consume lease
    }

    @Test("The latest runs come first, and of one session where asked")
    func listing() throws {
        let store = try SyncStore.inMemory()
        var bridge = tower
        bridge.identifier = "bridge"
        for number in 1...5 {
            try store.begin(towerRun("t\(number)"), now: 1)
            try store.begin(towerRun("b\(number)", session: bridge), now: 1)
        }
        #expect(try store.runs(limit: 3).map(\.identifier) == ["b5", "t5", "b4"])
        #expect(try store.runs(session: "tower", limit: 2).map(\.identifier) == ["t5", "t4"])
        #expect(try store.runs(onlyOpen: true).map(\.identifier) == ["b5", "t5"])
        try store.remove(session: "bridge")
        #expect(try store.runs().map(\.session) == Array(repeating: "tower", count: 5))
        #expect(.of { _ = try store.run("b5") } == .unknown)
    }

    @Test("The numbers of a finished run are kept, the largest too")
    func counts() throws {
        let store = try SyncStore.inMemory()
        try store.begin(towerRun("r1"), now: 1)
        _ = try store.complete(bothGroups, of: "r1", now: 2)
        var counts = RunCounts()
        counts.files.total = 20_000
        counts.files.installed = 19_999
        counts.files.failed = 1
        counts.bytes.total = 1 << 62
        counts.bytes.received = 12
        counts.requests = 41
        try store.finish(run: "r1", result: .partial, counts: counts, now: 3)
        try store.finish(run: "r1", result: .ok, counts: RunCounts(), now: 4)
        let run = try store.run("r1")
        #expect(run.counts == counts)
        #expect(run.result == .partial && run.finished == 3)
        counts.bytes.total = .max
        try store.begin(towerRun("r2"), now: 5)
        try store.finish(run: "r2", result: .ok, counts: counts, now: 6)
        #expect(try store.run("r2").counts == counts)
    }

    private func finish(_ run: String, in store: SyncStore) throws {
        _ = try store.complete(bothGroups, of: run, now: 8)
        try store.finish(run: run, result: .ok, counts: RunCounts(), now: 8)
    }
}
