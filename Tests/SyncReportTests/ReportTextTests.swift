import SyncModel
import SyncReport
import SyncStore
import Testing

private let morning = november(21, 7, 30)

@Suite("The report for a terminal", .timeLimit(.minutes(10)))
struct ReportTextTests {
    @Test("Three nights: window too short, newer manifest on battery, whole [S132 S134 S135]")
    func threeNightsText() throws {
        let schedule = ["com.example.tower": ReportReader.Schedule(next: november(22, 2))]
        let text = try threeNights().text(at: morning, since: november(18, 12), schedules: schedule)
        #expect(
            text == """
                render-07: 1 session, nothing needs attention; 824 MiB received; 2026-11-18 12:00 to 2026-11-21 07:30

                ok         com.example.tower: 9,560 files put in place, 824 MiB received
                           arrived   9,524 files fetched, 36 built from local data, 824 MiB in 70 requests; 3 h 34 min, 65.6 KiB/s
                           into      textures 8,340 (1.24 GiB), maps 1,220 (191 MiB)
                           from      https://cdn.example.com  699 MiB in 60 requests
                                     http://mirror.lan        109 MiB in 10 requests, redirected by https://cdn.example.com
                                     16.0 MiB in transfers that were cut off
                           reused    24.0 MiB from older versions, other files and parts
                           waited    for power, 50 min, 2026-11-20 02:10 to 03:00: on battery, 61 %
                           hooks     /usr/local/lib/syncagent/reindex: exit 0 in 12 s
                           runs      2026-11-19 02:00  stopped by its conditions, 412 MiB in 2 h
                                     2026-11-20 02:00  stopped by its conditions, 64.0 MiB in 10 min
                                     2026-11-20 03:00  stopped by its conditions, 230 MiB in 1 h
                                     2026-11-21 02:00  ok, 118 MiB in 24 min 15 s
                           next      2026-11-22 02:00
                """)
    }

    @Test("The last night alone has only what came in it")
    func lastNight() throws {
        let text = try threeNights().text(at: morning)
        #expect(
            text == """
                render-07: 1 session, nothing needs attention; 118 MiB received; 2026-11-20 07:30 to 2026-11-21 07:30

                ok         com.example.tower: 1,240 files put in place, 118 MiB received
                           arrived   1,204 files fetched, 36 built from local data, 118 MiB in 14 requests; 24 min 15 s, 83.0 KiB/s
                           into      maps 900 (130 MiB), textures 340 (77.0 MiB)
                           from      http://mirror.lan        109 MiB in 10 requests, redirected by https://cdn.example.com
                                     https://cdn.example.com  9.00 MiB in 4 requests
                           reused    8,320 of 9,560 files were correct; 24.0 MiB from older versions, other files and parts
                           hooks     /usr/local/lib/syncagent/reindex: exit 0 in 12 s
                """)
    }

    @Test("What needs somebody comes first, with what to do; foreign text is harmless [V63]")
    func fortnightText() throws {
        let text = try fortnight().text(at: morning)
        #expect(
            text == """
                render-07: 4 sessions, 1 needs attention; 3.52 GiB received; 2026-11-20 07:30 to 2026-11-21 07:30

                ATTENTION  film.harbour-dailies: 13 of 4,210 files are missing (the server does not have all of them); 44 files put in place, 301 MiB received
                           problem   12 files: https://assets.example.com: status 404
                                       shots/010/plate.exr, shots/010/<script>alert(1)</script>.exr, shots/020/\\u{1b}[31mred.exr and 9 more
                                     -> Upload the missing files (of a published set everything again: packs first, the manifest last), then pull again.
                                     shots/040/a\\u{202e}gpj.exr: cannot write shots/040/a: No space left on device
                                     -> Free some space ('syncagent gc --dry-run' shows what can be removed), then 'syncagent resume' or pull again.
                                     hook 14, https://chat.example.com/…: exit 1
                                       it wrote: the channel is gone, CANARY-OUTPUT
                                     -> See what it wrote ('syncagent hooks list --output'), then 'syncagent hooks replay NUMBER'.
                           arrived   44 files fetched, 301 MiB in 22 requests; 9 min, 571 KiB/s
                           into      shots 44 (300 MiB)
                           from      https://assets.example.com  301 MiB in 22 requests, 2 transfers failed
                           reused    4,153 of 4,210 files were correct
                           waited    to try again, 4 times: https://assets.example.com: status 503
                           hooks     https://chat.example.com/…: exit 1 in 30 s

                working    lab-weights: blocked by metered (the connection 'Phone' is metered) since 2026-11-21 01:30; 3 files put in place, 2.88 GiB received so far
                           arrived   3 files fetched, 2.88 GiB in 24 requests; 30 min, 1.64 MiB/s
                           into      base 3 (2.88 GiB)
                           from      https://weights.example.net  2.88 GiB in 24 requests
                           waited    for metered, 6 h, since 2026-11-21 01:30, still: the connection 'Phone' is metered

                ok         com.example.tower: 1,103 files put in place, 356 MiB received
                           arrived   1,068 files fetched, 35 built from local data, 356 MiB in 40 requests; 3 min 12 s, 1.85 MiB/s
                           into      textures 712 (356 MiB), maps 267 (178 MiB), sounds 89 (44.0 MiB), top level 2 (4.00 KiB)
                           groups    maps 1,068 files
                           from      http://mirror.lan        285 MiB in 29 requests, redirected by https://cdn.example.com
                                     https://cdn.example.com  71.4 MiB in 9 requests
                           reused    18,897 of 20,000 files were correct; 25.0 MiB from older versions, other files and parts
                           hooks     /usr/local/lib/syncagent/reindex: exit 0 in 9.3 s

                ok         org.example.icons: nothing to fetch
                           reused    all of 57,894 files (114 MiB) match the manifest
                """)
    }

    @Test("A failed hook is told with what it wrote itself, not with another's whose number begins alike")
    func hookNumbers() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store, destination: "/srv/tower")
        let hooks = (1...12).map { RunHook(group: "all", arguments: ["/opt/hook-\($0)"]) }
        try story.begin("1", at: november(21, 1), hooks: hooks)
        let all = CompletedGroup(name: "all", result: .ok, changed: 1)
        for hook in try store.complete([all], of: "1", now: november(21, 2)) {
            let number = hook.identifier
            _ = try store.started(hook: number, now: november(21, 2))
            let hasFailed = number == 1 || number == 12
            try store.finished(
                hook: number, hasFailed ? .failed : .succeeded, ended: hasFailed ? "exit 1" : "exit 0",
                output: "these are the words of \(number)", now: november(21, 2))
        }
        try story.finish(StoreStory.Work(requests: 1), "1", at: november(21, 2), total: 1, result: .ok)
        let report = try store.report(at: morning)
        #expect(report.sessions.first?.problems.map(\.hook) == [1, 12])
        let text = try store.text(at: morning)
        let lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }
        for number in [1, 12] {
            let place = lines.firstIndex { $0.hasSuffix("hook \(number), /opt/hook-\(number): exit 1") }
            let next = try #require(place.map { $0 + 1 })
            #expect(lines[next] == "it wrote: these are the words of \(number)", "\(text)")
        }
    }

    @Test("Of hundreds of hooks, one that failed is told, whichever it is")
    func manyHooks() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1), hooks: (1...250).map { RunHook(arguments: ["/opt/hook-\($0)"]) })
        let all = CompletedGroup(name: "all", result: .ok, changed: 1)
        for (place, hook) in try store.complete([all], of: "1", now: november(21, 2)).enumerated() {
            _ = try store.started(hook: hook.identifier, now: november(21, 2))
            try store.finished(
                hook: hook.identifier, place == 0 ? .failed : .succeeded, ended: place == 0 ? "exit 1" : "exit 0",
                now: november(21, 2))
        }
        try story.finish(StoreStory.Work(installed: 1), "1", at: november(21, 3), total: 1)
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.verdict == .attention && session.problems.count == 1 && session.hooks.count == 250)
    }

    @Test("A failed hook stays a problem where the same program with other arguments has succeeded in the same run")
    func hooksOfOneProgram() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        let hooks = ["tiles.py", "index.py"].map { RunHook(arguments: ["/usr/bin/python3", $0]) }
        let all = CompletedGroup(name: "all", result: .ok, changed: 1)
        func run(_ run: String, at time: Int64, firstFails: Bool) throws {
            try story.begin(run, at: time, hooks: hooks)
            for (place, hook) in try store.complete([all], of: run, now: time).enumerated() {
                let hasFailed = place == 0 && firstFails
                _ = try store.started(hook: hook.identifier, now: time)
                try store.finished(
                    hook: hook.identifier, hasFailed ? .failed : .succeeded, ended: hasFailed ? "exit 1" : "exit 0",
                    now: time + 1_000 * Int64(place + 1))
            }
            try story.finish(StoreStory.Work(installed: 1), run, at: time + 10_000, total: 1)
        }
        try run("1", at: november(21, 1), firstFails: true)
        var session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.problems.map(\.isOver) == [false] && session.verdict == .attention)
        try run("2", at: november(21, 2), firstFails: false)
        session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.problems.map(\.isOver) == [true] && session.verdict == .ok)
    }

    @Test("A hook that asks for another try is still owed, and then running, whatever its last attempt said")
    func owedHook() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1), hooks: [RunHook(arguments: ["/opt/busy"])])
        let all = CompletedGroup(name: "all", result: .ok, changed: 1)
        let hook = try #require(try store.complete([all], of: "1", now: november(21, 1)).first).identifier
        _ = try store.started(hook: hook, now: november(21, 1))
        try store.finished(hook: hook, .askedForRetry, ended: "exit 75", now: november(21, 1, 0, 3))
        try story.finish(StoreStory.Work(installed: 1), "1", at: november(21, 1, 1), total: 1)
        var text = try store.text(at: morning)
        #expect(text.hasSuffix("hooks     /opt/busy: exit 75 in 3 s; still owed"), "\(text)")
        _ = try store.started(hook: hook, now: november(21, 2))
        text = try store.text(at: morning)
        #expect(text.hasSuffix("hooks     /opt/busy: running, attempt 2"), "\(text)")
        // As another process finds it whose predecessor was killed meanwhile.
        _ = try store.recover(session: "tower", now: november(21, 3))
        text = try store.text(at: morning)
        #expect(text.hasSuffix("hooks     /opt/busy: still owed"), "\(text)")
    }

    @Test("A hook that was stopped because somebody gave its run up is no problem [S102]")
    func hookGivenUp() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store, destination: "/srv/tower")
        try story.begin("1", at: november(21, 1), hooks: [RunHook(group: "all", arguments: ["/opt/slow"])])
        let all = CompletedGroup(name: "all", result: .ok, changed: 1)
        let hook = try #require(try store.complete([all], of: "1", now: november(21, 2)).first)
        _ = try store.started(hook: hook.identifier, now: november(21, 2))
        _ = try store.apply(.cancelled, to: "1", reason: .userCancel, now: november(21, 3))
        let report = try #require(try store.report(at: morning).sessions.first)
        #expect(report.problems == [] && !report.verdict.needsAttention)
        #expect(report.hooks.map(\.ended) == ["stopped"], "it is told all the same")
        let page = try metricsText(store, version: "0.1.0")
        #expect(page.contains("syncagent_last_run_failed_hooks{session=\"tower\"} 0"), "\(page)")
    }

    @Test("A hook whose program is not there is told so, with what to do about that")
    func hookNotStarted() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store, destination: "/srv/tower")
        try story.begin("1", at: november(21, 1), hooks: [RunHook(group: "all", arguments: ["/opt/nothing"])])
        try story.hooks(
            "1", at: november(21, 2), took: 1, ended: "not started: /opt/nothing: No such file or directory")
        try story.finish(StoreStory.Work(requests: 1), "1", at: november(21, 2), total: 1, result: .ok)
        let text = try store.text(at: morning)
        #expect(text.contains("-> Put its program or plugin in place, or correct its path"), "\(text)")
        #expect(!text.contains("See what it wrote"))
        #expect(try store.report(at: morning).sessions.first?.verdict == .attention)
    }

    @Test("A run that waited for the time of its switch is told with when it began, and with its work alone")
    func shownLater() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        let work = StoreStory.Work(elapsed: 3_600_000, waited: 13_500_000, installed: 1, received: 36 << 20)
        for (run, begin, end) in [
            ("1", november(20, 20), november(21, 0, 45)), ("2", november(21, 2), november(21, 6, 45)),
        ] {
            try story.begin(run, at: begin)
            try story.finish(work, run, at: end, total: 1)
        }
        let text = try store.text(at: morning)
        #expect(text.contains("2026-11-20 20:00  ok, 36.0 MiB in 1 h"), "\(text)")
        #expect(text.contains("2026-11-21 02:00  ok, 36.0 MiB in 1 h"), "\(text)")
    }

    @Test("One file is missing, two are", arguments: [(1, "1 of 72 files is"), (2, "2 of 72 files are")])
    func missing(count: Int, words: String) throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store, destination: "/srv/tower")
        try story.begin("1", at: november(21, 1), groups: ["all"], hooks: [])
        let work = StoreStory.Work(failed: count, requests: 1)
        try story.finish(work, "1", at: november(21, 2), total: 72, result: .partial)
        let text = try store.text(at: morning)
        #expect(text.contains("ATTENTION  tower: \(words) missing"), "\(text)")
    }

    @Test("A night in which nothing ran is told, and a schedule that was due is looked into [S132]")
    func nothingRan() throws {
        let store = try threeNights()
        let quiet = try store.text(at: november(25, 8))
        #expect(
            quiet == """
                render-07: 1 session, nothing needs attention; 0 B received; 2026-11-24 08:00 to 2026-11-25 08:00

                -          com.example.tower: nothing has run in this time; everything was in place on 2026-11-21 02:24
                """)
        let due = ["com.example.tower": ReportReader.Schedule(next: nil, lastDue: november(25, 2))]
        let missed = try store.text(at: november(25, 8), schedules: due)
        #expect(missed.contains("ATTENTION  com.example.tower: did not run; everything was in place on 2026-11-21"))
        #expect(missed.contains("its schedule was due, but nothing has run since"))
        #expect(missed.contains("-> See 'systemctl --user list-timers'"))
        // Within the hour it may still come.
        let soon = try store.text(at: november(25, 2, 30), schedules: due)
        #expect(!soon.contains("ATTENTION"))
    }

    @Test("A schedule that has never come so far as to make a session is told of [S132]")
    func unmet() throws {
        let now = clock(at: november(25, 8))
        var reader = ReportReader(store: try threeNights(), clock: now, version: "0.1.0")
        reader.unmet = [
            ReportReader.Schedule(next: november(26, 1), lastDue: november(25, 1)),
            ReportReader.Schedule(next: november(26, 1)),
        ]
        for (place, name) in ["weights", "fresh"].enumerated() {
            (reader.unmet[place].name, reader.unmet[place].destination) = (name, "/data/\(name)")
        }
        let report = try reader.report(since: november(24, 8), hasNights: true)
        #expect(report.sessions.map(\.session) == ["weights", "com.example.tower", "fresh"])
        #expect(report.sessions.map(\.verdict) == [.attention, .quiet, .quiet])
        #expect(report.sessions.first?.headline == "its schedule has never run")
        #expect(try reader.report(of: ["com.example.tower"], since: 0, hasNights: false).sessions.count == 1)
    }

    @Test("A schedule whose session was removed, or lost with the state, is told of, and so is why it cannot start")
    func lost() throws {
        var reader = ReportReader(store: try threeNights(), clock: clock(at: november(25, 8)), version: "0.1.0")
        var schedule = ReportReader.Schedule(next: november(26, 1), lastDue: november(25, 1))
        (schedule.name, schedule.session, schedule.fired) = ("night", "weights", november(25, 1))
        reader.unmet = [schedule]
        func report() throws -> SessionReport? {
            try reader.report(since: november(24, 8), hasNights: false).sessions.first { $0.session == "night" }
        }
        let removed = try report()
        #expect(removed?.verdict == .quiet && removed?.headline.hasPrefix("its session was removed") == true)
        // It was due once more, and nothing has run.
        reader.unmet[0].fired = november(24, 1)
        #expect(try report()?.verdict == .attention)
        reader.unmet[0].failure = "nobody answers"
        reader.unmet[0].cause = .unreachable
        #expect(try report()?.problems.map(\.detail) == ["nobody answers"])
        // The session that it names is of another destination, or busy, and does not tell.
        reader.unmet[0].session = "com.example.tower"
        #expect(try report()?.problems.map(\.detail) == ["nobody answers"])
        reader.unmet[0].failure = nil
        #expect(try report() == nil)
        reader.unmet[0].session = "weights"
        reader.unmet[0].next = nil
        reader.unmet[0].lastDue = nil
        #expect(try report()?.headline == "its schedule is paused, or never due")
    }

    @Test("A run that rests in the middle of its first file has received something; there was something to fetch")
    func midFile() throws {
        let store = try SyncStore.inMemory()
        let story = StoreStory("tower", in: store)
        try story.begin("1", at: november(21, 1))
        try story.stop(StoreStory.Work(received: 12 * mebi), "1", at: november(21, 2), reason: .userStop)
        let headline = try store.report(at: morning).sessions.first?.headline
        #expect(headline == "paused; \(ByteCount(12 * mebi)) received so far")
    }

    @Test("No session, no store to speak of: one line")
    func empty() throws {
        let text = try SyncStore.inMemory().text(at: morning)
        #expect(text == "render-07: no sessions; 2026-11-20 07:30 to 2026-11-21 07:30")
    }

    @Test("A run that failed and then succeeded needs nobody; one that failed last does")
    func order() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        func run(_ name: String, _ hour: Int, _ result: RunResult, error: String? = nil) throws {
            try tower.begin(name, at: november(21, hour))
            try tower.finish(
                StoreStory.Work(), name, at: november(21, hour, 1), total: 10, unchanged: result == .ok ? 10 : 0,
                result: result, error: error, cause: error == nil ? nil : .unreachable)
        }
        let error = "https://cdn.example.com/m.json: Could not resolve host: cdn.example.com"
        try run("1", 1, .failed, error: error)
        var session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.verdict == .failed && session.headline == "it failed: the server could not be reached")
        #expect(session.problems.map(\.kind) == [.unreachable])
        try run("2", 3, .ok)
        session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.verdict == .ok)
        #expect(session.problems.map(\.isOver) == [true])
        let text = try store.text(at: morning)
        #expect(text.contains("earlier   https://cdn.example.com/m.json: Could not resolve host"))
        #expect(!text.contains("->"))
    }

    @Test(
        "The report says who has stopped it, and what to do",
        arguments: [
            (RestReason.userStop, Verdict.attention, "paused", FailureCause.stoppedByPerson),
            (.quarantined, .attention, "set aside", .lostWorker), (.terminalClosed, .attention, "paused", .other),
        ])
    func paused(reason: RestReason, verdict: Verdict, headline: String, kind: FailureCause) throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1))
        try store.apply(.paused, to: "1", reason: reason, now: november(21, 2))
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.verdict == verdict && session.headline == headline)
        #expect(session.problems.map(\.kind) == [kind])
    }
}

@Suite("What a failure is and what to do about it", .timeLimit(.minutes(10)))
struct FailureCauseTests {
    @Test("What a run is on record to have failed for counts, whatever its words say", arguments: FailureCause.allCases)
    func causes(cause: FailureCause) throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1))
        try tower.finish(
            StoreStory.Work(), "1", at: november(21, 2), total: 1, result: .failed,
            error: "no space left: status 404, response 407", cause: cause)
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.problems.map(\.kind) == [cause])
    }

    @Test("A run that waits for a condition has no problem, whatever words the condition has for it")
    func conditions() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1), isHeld: false)
        try store.hold(
            run: "1", reason: .condition("metered"), error: "the connection is metered", due: november(21, 9))
        let session = try #require(try store.report(at: morning).sessions.first)
        #expect(session.problems == [] && session.verdict == .working)
    }

    @Test("The same reason for files with short names is one cause")
    func shortNames() {
        var sums = FailureSums()
        for path in ["a", "b", "sheets/a", "e"] {
            sums.take(path: path, reason: "refused by verifier scan: bad word in \(path)", cause: .rejected, time: 1)
        }
        #expect(sums.problems.map(\.files) == [4])
        #expect(sums.problems.first?.examples == ["a", "b", "sheets/a"])
    }

    @Test("A file that three places give wrong bytes of is one file")
    func oneFileThrice() {
        var sums = FailureSums()
        for path in ["a", "b", "a", "b", "a"] {
            let why = "gave wrong bytes: SHA-256 1 instead of 2"
            sums.take(path: path, reason: "http://h/\(path): \(why)", cause: .wrongBytes, isFinal: false, time: 1)
        }
        #expect(sums.problems.map(\.files) == [2] && sums.problems.first?.examples == ["a", "b"])
    }

    @Test("The number that is a file's name makes no difference: one cause for all that one dead server did not give")
    func numbers() {
        var sums = FailureSums()
        for path in ["205", "206", "416", "redirect.txt", "tls/deadline"] {
            let why = "Failed to connect to a.example port 80: Couldn't connect to server; nothing came for 10 s"
            sums.take(path: path, reason: "http://a.example/\(path): \(why)", cause: .unreachable, time: 1)
        }
        #expect(sums.problems.map(\.kind) == [.unreachable])
    }

    @Test("The last run that ended is given its own reason, not one that only an earlier run met")
    func reasonOfAnotherRun() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        func fail(_ run: String, _ hour: Int, _ failure: (reason: String, cause: FailureCause)?) throws -> String? {
            try tower.begin(run, at: november(21, hour))
            if let failure {
                try tower.event("task.failed", run, at: november(21, hour, 1)) {
                    $0.field("path", "a.bin")
                    $0.field("reason", failure.reason)
                    $0.field("cause", failure.cause.rawValue)
                }
            }
            try tower.finish(
                StoreStory.Work(failed: 1), run, at: november(21, hour, 2), total: 3, unchanged: 2, result: .partial)
            return try store.report(at: morning).sessions.first?.headline
        }
        #expect(
            try fail("1", 1, ("cannot write a.bin: Input/output error", .diskTrouble))
                == "1 of 3 files is missing (the disk has errors)")
        #expect(try fail("2", 2, nil) == "1 of 3 files is missing")
        #expect(
            try fail("3", 3, ("https://a.example/a.bin: status 404", .notThere))
                == "1 of 3 files is missing (the server does not have all of them)")
    }

    @Test("Bytes of transfers that were cut off have a name of their own where no server is named above them")
    func cutOff() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1))
        try tower.finish(
            StoreStory.Work(received: 327_680, otherBytes: 327_680), "1", at: november(21, 2), total: 3,
            result: .partial)
        let text = try store.text(at: morning)
        #expect(text.contains("           from      320 KiB in transfers that were cut off"), "\(text)")
    }

    @Test("How long a killed process worked is not known: what it received is told without a time, and in no rate")
    func killed() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1))
        let lost = StoreStory.Work(
            elapsed: 0, received: 600 * mebi, otherBytes: 600 * mebi, stopped: RestReason.agentRestart.rawValue)
        try tower.summary(lost, "1", at: november(21, 2))
        try tower.finish(StoreStory.Work(received: 60 * mebi), "1", at: november(21, 3), total: 3)
        let text = try store.text(at: morning)
        #expect(text.contains("interrupted, 600 MiB\n"), "\(text)")
        #expect(text.contains("; 1 min, \(ByteCount(mebi))/s"), "\(text)")
    }

    @Test("An exit status of 73 alone is no word of permissions: a place may be unusable for other reasons")
    func unusablePlace() { #expect(FailureCause(ExitStatus.cannotCreate) == .other) }

    @Test(
        "What is wrong with a redirect decides what to do about it",
        arguments: [
            ("https://a.example/m.json: a redirect loop, back to https://a.example/", "tell its operator"),
            ("https://a.example/m.json: a redirect without a usable target: no Location header", "tell its operator"),
            ("https://a.example/m.json: more than 10 redirects", "--max-redirects"),
            ("https://a.example/m.json: a redirect from https to http", "--allow-redirect-downgrade"),
        ])
    func redirects(detail: String, words: String) {
        let advice = Problem(kind: .refusedRedirect, detail: detail, time: 0).advice
        #expect(advice.contains(words), "\(advice)")
        #expect(advice.contains("--allow") == words.hasPrefix("--allow"), "\(advice)")
        #expect(advice.count < 160 && advice.hasSuffix("."))
    }

    @Test("What --max-delete refuses is not allowed by --force, and is not told to be")
    func maxDelete() {
        let reason = "--prune would remove 2 of 3 installed files from /srv/tower, more than "
        let most = Problem(kind: .pruneRefused, detail: reason + "--max-delete 1; nothing was changed", time: 0)
        #expect(most.advice.contains("--max-delete") && !most.advice.contains("--force"))
        #expect(Problem(kind: .pruneRefused, detail: reason + "half", time: 0).advice.contains("--force"))
    }

    @Test("Whoever has a list on this machine without its files is not told to upload a set")
    func listAlone() {
        func advice(_ detail: String) -> String { Problem(kind: .notThere, detail: detail, time: 0).advice }
        #expect(advice("file:///srv/lists/a.bin: No such file or directory").contains("--base"))
        #expect(advice("file:///srv/set/packs/5f0c.pack: No such file or directory").hasPrefix("Upload"))
        #expect(advice("https://host: status 404").hasPrefix("Upload"))
    }

    @Test("Whoever pulls from a repository with LFS is told what to do there")
    func largeFiles() {
        func advice(_ cause: FailureCause, _ detail: String) -> String {
            Problem(kind: cause, detail: detail, time: 0).advice
        }
        #expect(advice(.notThere, "https://host: the LFS server does not give it: 404 no").contains("git lfs push"))
        for detail in [
            "https://host: 401, and git's credential helpers have none for it",
            "lfs+https://host/a.git: git ls-remote: could not read Username for 'https://host': terminal prompts disabled",
        ] {
            let denied = advice(.access, detail)
            #expect(denied.contains("git's credential helpers") && !denied.contains("--credentials"))
        }
    }

    @Test("A former revision that somebody has changed is no fault of a server")
    func changedRevision() {
        let detail = "/srv/.syncagent-tower/rev/1: 1 file of the former revision, such as a, was changed or removed"
        #expect(Problem(kind: .wrongBytes, detail: detail, time: 0).advice.contains("syncagent revisions"))
    }

    @Test("Files that come compressed are not said to be another version")
    func compressed() {
        let detail = "https://host: Content-Encoding: gzip, which was not requested"
        #expect(Problem(kind: .wrongBytes, detail: detail, time: 0).advice.contains("uncompressed"))
    }

    @Test("Whose client certificate and key do not go together is not sent to look at the clock")
    func clientKey() {
        let detail = "https://host: key values mismatch; do --cert and --key name a certificate and its own key?"
        #expect(Problem(kind: .trust, detail: detail, time: 0).advice.contains("client certificate"))
    }

    @Test("What selects nothing is to be corrected where it was asked for")
    func selection() {
        for detail in [
            "the manifest has no group “shets”; it has: all, sheets",
            "no file of the manifest matches map; 'syncagent ls' lists them",
        ] {
            #expect(Problem(kind: .other, detail: detail, time: 0).advice.contains("selects"))
        }
    }

    @Test("A check that refuses a tree is no hook: nobody is sent to list or replay one")
    func check() throws {
        let store = try SyncStore.inMemory()
        let tower = StoreStory("tower", in: store)
        try tower.begin("1", at: november(21, 1))
        try tower.finish(
            StoreStory.Work(), "1", at: november(21, 2), total: 1, result: .failed,
            error: "/srv/assets: the check /opt/check ended with exit 1: no index; readers see what they saw before",
            cause: .hookFailed)
        let text = try store.text(at: morning)
        #expect(text.contains("-> Fix what the check complains about"), "\(text)")
        #expect(text.contains("it failed: its check did not accept it"), "\(text)")
        #expect(!text.contains("syncagent hooks"), "\(text)")
    }

    @Test("Every kind has advice that is a sentence", arguments: FailureCause.allCases)
    func advice(kind: FailureCause) {
        #expect(kind.advice.count > 20 && kind.advice.count < 160)
        #expect(kind.advice.hasSuffix("."))
    }
}

@Suite("Times and figures of reports", .timeLimit(.minutes(10)))
struct FigureTests {
    @Test(
        "Numbers read well",
        arguments: [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (-1_000, "-1,000")])
    func grouped(number: Int, text: String) { #expect(Figures.grouped(number) == text) }

    @Test(
        "Periods have the units people use",
        arguments: [
            (0, "0 s"), (5_000, "5 s"), (630, "0.63 s"), (1, "0.01 s"), (58, "0.06 s"), (996, "1 s"),
            (1_190, "1.2 s"), (9_970, "10 s"), (12_400, "12 s"), (192_000, "3 min 12 s"), (600_000, "10 min"),
            (7_200_000, "2 h"), (12_870_000, "3 h 34 min"), (183_600_000, "2 d 3 h"), (-5, "0 s"),
            (90_000, "1 min 30 s"), (150_000, "2 min 30 s"),
        ] as [(Int64, String)])
    func period(milliseconds: Int64, text: String) { #expect(Figures.period(milliseconds) == text) }

    @Test("A night goes from noon to noon of local time, whatever the clock did in it [S132]")
    func nights() {
        // Central Europe: one hour ahead of UTC, two until 2026-10-25 01:00 UTC.
        let change: Int64 = 1_792_890_000_000
        let zone = ReportClock(now: november(21), offset: { $0 < change ? 7_200 : 3_600 })
        #expect(ReportClock.date(night: zone.night(of: november(21, 2))) == "2026-11-21")
        #expect(ReportClock.date(night: zone.night(of: november(20, 11))) == "2026-11-21")
        #expect(ReportClock.date(night: zone.night(of: november(20, 10, 59))) == "2026-11-20")
        #expect(ReportClock.date(night: zone.night(of: change - 1)) == "2026-10-25")
        #expect(ReportClock.date(night: zone.night(of: change)) == "2026-10-25")
        #expect(zone.timeOfDay(change - 1) == "02:59" && zone.timeOfDay(change) == "02:00")
        #expect(ReportClock.shortDate(night: zone.night(of: november(21, 2))) == "Nov 21")
        #expect(ReportClock.date(night: zone.night(of: -1)) == "1970-01-01")
    }
}
