import Foundation
import SyncAgent
import SyncModel
import SyncSchedule
import SyncStore
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(10)))
struct SessionTextTests {
    /// 2026-11-20 12:00:00 UTC.
    static let now: Int64 = 1_795_176_000_000

    static func text(hasAgent: Bool = true) -> SessionText {
        SessionText(now: now, hasAgent: hasAgent, zone: Zone(name: nil) { _ in 0 })
    }

    static func session(
        _ state: RunState, reason: RestReason? = nil, until: Int64? = nil, holder: Int32? = nil, error: String? = nil
    ) -> SessionStatus {
        var run = RunStatus(
            run: "run-1", manifest: "https://example.org/m.json", manifestSha256: "74", state: state,
            created: WallTime(milliseconds: now))
        run.error = error
        return SessionStatus(
            session: "tower", project: "tower", destination: "/srv/tower", state: SessionState(state), reason: reason,
            until: until.map { WallTime(milliseconds: now + $0 * 1_000) }, holder: holder, run: run)
    }

    @Test("The delay of what a hook asks for is shown while there is one [S63]")
    func limiterDelay() {
        var session = Self.session(.waiting)
        #expect(!Self.text().details(session).contains { $0.hasPrefix("limiter") })
        session.limiterDelaySeconds = 120
        let line = Self.text().details(session).first { $0.hasPrefix("limiter") }
        #expect(line?.contains("the next run that a hook requests waits 2 min") == true, "\(line ?? "none")")
    }

    @Test("A run that a condition blocks says which, since when, why, and when it is looked at again [S49 S53]")
    func blocked() {
        var session = Self.session(
            .waiting, reason: .condition("power"), until: 25, error: "the machine runs on its battery")
        session.since = WallTime(milliseconds: Self.now - 200_000)
        #expect(
            Self.text().why(session)
                == "blocked by power since 2026-11-20 11:56:40 (3 min 20 s ago): the machine runs on its battery; "
                + "next check 2026-11-20 12:00:25 (in 25 s)")
        session.reason = .connectivity
        #expect(Self.text().why(session)?.hasPrefix("waits (connectivity) until") == true)
    }

    @Test(
        "Whatever waits says why and until when, in plain words [S27 S53]",
        arguments: [
            (session(.waiting, reason: .notBefore, until: 50_400), "not to start until 2026-11-21 02:00:00 (in 14 h)"),
            (
                session(.waiting, reason: .error, until: 40, error: "cannot reach example.org"),
                "waits after an error until 2026-11-20 12:00:40 (in 40 s) (cannot reach example.org)"
            ), (session(.waiting), "waits for its turn"),
            (session(.paused, reason: .userStop), "stopped by you; 'syncagent resume tower' resumes it"),
            (
                session(.paused, reason: .terminalClosed),
                "ended when its terminal closed; 'syncagent resume tower' resumes it"
            ),
            (session(.waiting, reason: .destinationBusy), "waits (another process is using the destination)"),
            (session(.paused), "not started yet, as requested; 'syncagent resume tower' resumes it"),
            (
                session(.paused, reason: .quarantined),
                "its process was lost repeatedly; 'syncagent resume tower' resumes it"
            ), (session(.running), "its process is gone; the agent continues it"),
            (session(.running, holder: 42), nil), (session(.finished), nil),
        ] as [(SessionStatus, String?)])
    func reasons(session: SessionStatus, words: String?) { #expect(Self.text().why(session) == words) }

    @Test("A revision that is complete and is shown later says so, and when; its bytes count as here")
    func shownLater() {
        var session = Self.session(.running, reason: .notBefore, until: 50_400, holder: 42)
        session.run?.bytes.total = 6 << 20
        session.run?.progress = .init(
            phase: .waiting, filesDone: 1, filesTotal: 1, bytesDone: 1 << 20, bytesTotal: 1 << 20)
        #expect(Self.text().why(session) == "complete, but not to be shown until 2026-11-21 02:00:00 (in 14 h)")
        let row = Self.text().table([session])[1]
        #expect(row.contains("6.00 MiB/6.00 MiB"), "\(row)")
    }

    @Test("A run whose hooks are called, or which waits for those of the run before it, says so [S27]")
    func callingHooks() {
        for reason in [nil, RestReason.agentRestart] {
            var session = Self.session(.waiting, reason: reason, holder: 42)
            session.owedHooks = 1
            #expect(Self.text().why(session) == "a hook is running")
            session.holder = nil
            #expect(Self.text().why(session) != "a hook is running")
        }
    }

    @Test("A run whose transfers all wait says for what and until when; how much is expected is shown [S27]")
    func waits() throws {
        var session = Self.session(.running, reason: .connectivity, until: 27, holder: 42)
        session.run?.waits = ["waiting for https://a.example: status 503", "waiting for https://b.example: its turn"]
        session.run?.expectedBytes = 20_000_000_000
        let why = "waiting for https://a.example: status 503 until 2026-11-20 12:00:27 (in 27 s)"
        #expect(Self.text().why(session) == why)
        let lines = Self.text().details(session)
        #expect(lines.contains("state         running: " + why), "\(lines)")
        #expect(lines.contains("also          waiting for https://b.example: its turn"), "\(lines)")
        #expect(lines.contains("expected      18.6 GiB"), "\(lines)")

        // The process that goes on has 40 of the 60 files to bring, and has brought 10 of them.
        session.run?.files.total = 60
        session.run?.files.installed = 10
        session.run?.files.unchanged = 20
        session.run?.bytes.total = 6 << 20
        session.run?.progress = .init(filesDone: 10, filesTotal: 40, bytesDone: 1 << 20, bytesTotal: 4 << 20)
        let row = Self.text().table([session])[1]
        #expect(row.contains("30/60  3.00 MiB/6.00 MiB"), "\(row)")

        // One that has just begun has a plan, of which nothing is on record yet.
        session.run?.files = FileCounts()
        session.run?.bytes.total = 0
        let first = Self.text().table([session])[1]
        #expect(first.contains("0/40   1.00 MiB/4.00 MiB"), "\(first)")
    }

    @Test("A run says how many files it has hashed, until it has hashed them all", arguments: [(2, 7), (7, 7), (0, 0)])
    func checking(done: Int, total: Int) {
        var session = Self.session(.running, holder: 7)
        session.run?.waits = ["waiting for a.test: its turn"]
        session.run?.progress = RunStatus.Progress(
            phase: .looking, filesDone: done, filesTotal: total, bytesDone: 0, bytesTotal: 9)
        let text = Self.text().why(session)
        #expect(text == (done < total ? "checking 2 of 7 files that are here already" : "waiting for a.test: its turn"))
    }

    @Test("Without an agent, what waits says that it does not move")
    func noAgent() {
        #expect(
            Self.text(hasAgent: false).why(Self.session(.waiting))
                == "no agent is running; 'syncagent agent run' starts one")
    }

    @Test("A failed hook is told beside a run that has brought every file, unless hooks are still owed [S39]")
    func failedHooks() {
        var session = Self.session(.finished)
        session.run?.result = .ok
        session.failedHooks = 1
        let why = "a hook failed; 'syncagent hooks list tower --output' shows the output"
        let lines = Self.text().details(session)
        #expect(lines.contains { $0.hasPrefix("state ") && $0.hasSuffix(" idle (ok): " + why) }, "\(lines)")
        #expect(Self.text().table([session])[1].contains("a hook failed"))
        session.failedHooks = 2
        #expect(Self.text().why(session)?.hasPrefix("2 hooks failed;") == true)
        session.owedHooks = 1
        #expect(Self.text().why(session) == "a hook is owed")
    }

    @Test("Columns line up, whatever is in them; names cannot steer the terminal [V63]")
    func table() {
        var other = Self.session(.paused, reason: .userStop)
        other.session = "a\u{1B}[2J-very-long-name"
        let lines = Self.text().table([Self.session(.waiting), other])
        #expect(lines.count == 3)
        #expect(lines[0].hasPrefix("SESSION                    STATE"))
        #expect(lines[1].hasPrefix("tower                      waiting"))
        #expect(lines[2].hasPrefix("a\\u{1b}[2J-very-long-name  paused"))
    }

    @Test(
        "The end of a run is an exit status: the pull's own, 2 where none is on record [S27]",
        arguments: [
            (.finished, .ok, 0, 0, SyncModel.ExitStatus.done), (.finished, .ok, 0, 1, .hookFailed),
            (.finished, .partial, 2, 0, .incomplete), (.finished, .failed, nil, 0, .incomplete),
            (.finished, .failed, 69, 0, .unavailable), (.finished, .failed, 65, 0, .dataInvalid),
            (.finished, .failed, 0, 0, .incomplete), (.finished, .failed, 999, 0, .incomplete),
            (.cancelled, nil, nil, 0, .incomplete),
        ] as [(RunState, RunResult?, Int32?, Int, SyncModel.ExitStatus)])
    func ends(
        state: RunState, result: RunResult?, recorded: Int32?, failedHooks: Int, status: SyncModel.ExitStatus
    ) throws {
        var run = try #require(Self.session(state).run)
        run.result = result
        run.exitStatus = recorded
        guard case .over(let found, _) = RunWatch.end(of: run, failedHooks: failedHooks) else {
            Issue.record("a run that is over is over")
            return
        }
        #expect(found == status)
    }

    @Test("Whoever waits for a run that was given up is told so in words, not by a name of the store's")
    func givenUp() throws {
        var run = try #require(Self.session(.cancelled).run)
        run.reason = .userCancel
        guard case .over(_, let words) = RunWatch.end(of: run, failedHooks: 0) else {
            Issue.record("a run that is over is over")
            return
        }
        #expect(words == "cancelled (given up by a person)")
    }

    @Test("An event is one line: number, local time with its zone, name, then what it says")
    func event() throws {
        let json = #"{"event":"task.installed","time":"2026-11-20T02:00:00.123Z","run":"r","size":3,"path":"a b"}"#
        let line = SessionEvent(sequence: 7, line: Array(json.utf8))
        let (berlin, nepal) = (try #require(Zone.named("Europe/Berlin")), try #require(Zone.named("Asia/Kathmandu")))
        let newYork = try #require(Zone.named("America/New_York"))
        let rest = #"task.installed  path="a b"  size=3"#
        #expect(line.shown(in: berlin) == "7  2026-11-20 03:00:00 +01:00  " + rest)
        #expect(line.shown(in: nepal) == "7  2026-11-20 07:45:00 +05:45  " + rest)
        #expect(line.shown(in: newYork) == "7  2026-11-19 21:00:00 -05:00  " + rest)
        let pruned = SessionEvent(json: #"{"event":"events.pruned","through":9}"#)
        #expect(pruned.shown() == "-    events.pruned  through=9")
        let bad = SessionEvent(json: #"{"seq":1,"event":"e\u001b[2J","x":"\u001b"}"#)
        #expect(!bad.shown().contains("\u{1B}"))
    }

    @Test("Whatever the store says of times and counts is shown", arguments: [Int64.min, -1, 0, .max])
    func extremes(time: Int64) throws {
        var session = Self.session(.running, holder: 7)
        session.run?.started = WallTime(milliseconds: time)
        session.run?.deadline = WallTime(milliseconds: time)
        session.run?.files.installed = Int(time)
        session.run?.files.unchanged = Int(time)
        #expect(Self.text().details(session).contains { $0.hasPrefix("started") })
        #expect(Self.text().table([session]).count == 2)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct StartTimeTests {
    @Test(
        "A time to start at can be written as people write it [S46]",
        arguments: [
            ("02:00", "2026-11-21T01:00:00Z"), ("13:30", "2026-11-20T12:30:00Z"), ("90m", "2026-11-20T13:30:00Z"),
            ("2026-12-01 02:00", "2026-12-01T01:00:00Z"), ("2026-12-01T02:00:30", "2026-12-01T01:00:30Z"),
            ("2026-12-01T02:00:00Z", "2026-12-01T02:00:00Z"),
            ("2026-12-01T02:00:00.500+02:00", "2026-12-01T00:00:00.500Z"),
        ])
    func times(text: String, expected: String) throws {
        let now: Int64 = 1_795_176_000_000
        #expect(startTime(text, now: now, zone: Zone(name: nil) { _ in 3_600 }) == parseTimestamp(expected))
    }

    @Test(
        "What is no time is refused",
        arguments: [
            "", "soon", "25:00", "2026-06-31 02:00", "2026-06-30", "2:00", "-5m", "0s", "٢٠٢٦-١١-٢٠ ٠٢:٠٠", "٠٢:٠٠",
        ])
    func refused(text: String) { #expect(startTime(text, now: 0, zone: .machine) == nil) }
}
