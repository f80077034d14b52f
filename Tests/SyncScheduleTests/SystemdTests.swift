import Foundation
import SyncModel
import Synchronization
import Testing

@testable import SyncSchedule

/// systemd's tools as they are installed; tests that need one and have none say so.
private let tools = ["/usr/bin/systemd-analyze", "/usr/bin/systemd-escape"]
private let hasSystemd = tools.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
private let noSystemd: Comment = "SKIPPED: systemd-analyze is not installed (package systemd)"

/// A directory that is removed with the value that owns it.
private final class Place {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.path + "/schedule test %h $HOME \(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        // A leftover in the temporary directory harms nobody.
        try? FileManager.default.removeItem(atPath: path)
    }

    /// An executable file.
    func program(_ name: String) throws -> String {
        let file = "\(path)/\(name)"
        try FileManager.default.copyItem(atPath: "/bin/true", toPath: file)
        return file
    }

    var files: [String] { (try? scheduleFileNames(in: path))?.filter { !$0.hasPrefix(".") } ?? [] }
}

/// Runs a program of the system.
private func tool(_ arguments: [String], _ variables: [String: String] = [:]) -> CommandOutcome {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = arguments
    process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"].merging(variables) { $1 }
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = errors
    guard (try? process.run()) != nil else { return CommandOutcome(status: 127) }
    // Both are a few lines: neither pipe fills up.
    let said = output.fileHandleForReading.readDataToEndOfFile()
    let complained = errors.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return CommandOutcome(
        status: process.terminationStatus, output: Array(said), errors: String(decoding: complained, as: UTF8.self))
}

private func units(
    _ name: String = "tower", program: String = "/bin/true", nightly: String = "02:30", zone: String? = "Europe/Berlin",
    days: Set<Weekday> = [], delay: Int = 0, isForMachine: Bool = false
) throws -> SystemdUnits {
    SystemdUnits(
        try start(
            .daily(at: ScheduleTiming.minutes(nightly) ?? -1, on: days), name: name, program: program, zone: zone,
            delay: delay), isForMachine: isForMachine)
}

private func start(
    _ recurrence: Recurrence = .daily(at: 150, on: []), name: String = "tower", program: String = "/bin/true",
    zone: String? = "Europe/Berlin", delay: Int = 0, today: CivilDay = CivilDay(year: 2026, month: 11, day: 21)
) throws -> ScheduledStart {
    var timing = ScheduleTiming(recurrence)
    timing.timeZone = zone
    return ScheduledStart(
        name: name, clock: ScheduleClock(timing, zone: try Zone.of(zone), delay: delay),
        program: try ScheduledProgram(
            path: program, arguments: ["schedule", "run", name, "50% \"of\" $HOME \\n it's ünï"],
            variables: ["XDG_STATE_HOME=/var/my \"state\" %h $HOME \\x"]), today: today)
}

/// Takes notes of what would have been run.
private final class Notes: Sendable {
    let said = Mutex<[String]>([])
    let refused: String?
    let status: Int32

    init(refusing refused: String? = nil, status: Int32 = 1) { (self.refused, self.status) = (refused, status) }

    var run: CommandRunner {
        { [self] arguments, _ in
            let words = arguments.joined(separator: " ")
            said.withLock { $0.append(words) }
            if let refused, words.contains(refused) { return CommandOutcome(status: status, errors: "no \(words)\n") }
            return CommandOutcome(status: 0)
        }
    }
}

@Suite("systemd units", .timeLimit(.minutes(10)))
struct SystemdTests {
    @Test(
        "systemd accepts the units of programs with nasty names [S132]", .enabled(if: hasSystemd, noSystemd),
        arguments: [
            "plain", "with blank", "100%h", "it's", "say\"so\"", "back\\slash", "cash$HOME", "grün", "a;b", "@at",
        ], [false, true])
    func verified(name: String, isForMachine: Bool) throws {
        let place = try Place()
        let units = try units(program: try place.program(name), isForMachine: isForMachine)
        for (file, text) in [(units.service, units.serviceText), (units.timer, units.timerText)] {
            try writeScheduleFile(Array(text.utf8), to: "\(place.path)/\(file)")
        }
        let option = isForMachine ? "--system" : "--user"
        let outcome = tool(
            [
                "systemd-analyze", option, "--man=no", "verify", "\(place.path)/\(units.service)",
                "\(place.path)/\(units.timer)",
            ], ["XDG_RUNTIME_DIR": place.path])
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(!outcome.errors.contains("syncagent-schedule"), "\(outcome.errors)")
    }

    @Test("The check of the checks: a program that is not there is refused", .enabled(if: hasSystemd, noSystemd))
    func canFail() throws {
        let place = try Place()
        let units = try units(program: "/nowhere/nobody")
        try writeScheduleFile(Array(units.serviceText.utf8), to: "\(place.path)/\(units.service)")
        let outcome = tool(
            ["systemd-analyze", "--user", "--man=no", "verify", "\(place.path)/\(units.service)"],
            ["XDG_RUNTIME_DIR": place.path])
        #expect(outcome.status != 0 && outcome.errors.contains("nobody"), "\(outcome.errors)")
    }

    @Test(
        "systemd starts every rule when our own clock does, in the nights of summer time, too [S132]",
        .enabled(if: hasSystemd, noSystemd),
        arguments: [
            ("Europe/Berlin", "30 2 * * *", "2027-03-26", 45), ("Europe/Berlin", "30 2 * * *", "2026-10-23", 45),
            ("America/New_York", "0 2 * * *", "2027-03-12", 45), ("America/New_York", "30 1 * * *", "2026-10-30", 45),
            ("Australia/Lord_Howe", "10 2 * * *", "2027-10-01", 45), ("Asia/Kolkata", "59 23 * * *", "2026-12-30", 45),
            ("UTC", "0 0 * * *", "2028-02-27", 45), ("Europe/Berlin", "*/30 * * * *", "2027-03-28", 45),
            ("Europe/Berlin", "*/30 * * * *", "2026-10-25", 45), ("Europe/Berlin", "0 */6 * * *", "2027-03-27", 0),
            ("Europe/Berlin", "15 2,3 * * *", "2027-03-27", 1_000), ("Africa/Cairo", "0 */2 * * *", "2027-04-29", 7),
            ("Africa/Casablanca", "30 2 * * *", "2027-03-12", 45), ("America/New_York", "0 9 * * 1-5", "2026-11-27", 0),
            ("UTC", "5 4 13 * fri", "2026-11-01", 0), ("UTC", "0 0 */2 * 1", "2026-11-01", 0),
            ("UTC", "0 12 29 2 *", "2026-11-01", 0), ("Pacific/Apia", "*/90 * * * *", "2026-11-01", 0),
            ("UTC", "10 22 1,15 jan-mar sun", "2026-11-01", 0),
        ])
    func calendar(zone name: String, rule: String, from: String, delay: Int) throws {
        let zone = try #require(Zone.named(name))
        let parts = from.split(separator: "-").compactMap { Int64($0) }
        let first = CivilDay(year: parts[0], month: parts[1], day: parts[2])
        // The fields of cron have no such step; it is the rule of --every.
        let recurrence = rule.hasPrefix("*/90") ? .every(minutes: 90) : Recurrence.cron(try CronExpression(rule))
        let start = try start(recurrence, zone: name, delay: delay)
        let base = zone.first(12 * 3_600, of: first.adding(-1))
        var found: Set<Int64> = []
        for times in SystemdUnits(start, isForMachine: false).calendar {
            let outcome = tool(
                ["systemd-analyze", "calendar", "--iterations=40", "--base-time=@\(base)", times], ["TZ": "UTC"])
            #expect(outcome.status == 0, "\(times): \(outcome.errors)")
            // "Next elapse: Sat 2027-03-27 01:30:45 UTC", "Iter. #2: …"
            let text = String(decoding: outcome.output, as: UTF8.self)
            for match in text.matches(of: /(?:elapse|#\d+): \w+ (\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+) UTC/) {
                let numbers = [match.1, match.2, match.3, match.4, match.5, match.6].compactMap { Int64($0) }
                let day = CivilDay(year: numbers[0], month: numbers[1], day: numbers[2])
                found.insert(day.number * 86_400 + numbers[3] * 3_600 + numbers[4] * 60 + numbers[5])
            }
        }
        let (clock, limit) = (start.clock, rule.contains("*/30") ? 40 : 5)
        var (now, ours) = (base * 1_000, [Int64]())
        for _ in 0..<limit {
            now = try #require(clock.next(after: now)).fire
            ours.append(now / 1_000)
        }
        let last = try #require(ours.last)
        #expect(found.filter { $0 <= last }.sorted() == ours)
    }

    @Test(
        "Units of a place that changes its clocks by a rule say the rule, and are the same in every year [S132]",
        arguments: [
            ("Europe/Berlin", "02:30", "Sun *-03-25,26,27,28,29,30,31 03:00:00 Europe/Berlin"),
            ("America/New_York", "02:00", "Sun *-03-08,09,10,11,12,13,14 03:00:00 America/New_York"),
            ("Australia/Lord_Howe", "02:10", "Sun *-10-01,02,03,04,05,06,07 02:30:00 Australia/Lord_Howe"),
            ("Africa/Cairo", "00:20", "Fri *-04-24,25,26,27,28,29,30 01:00:00 Africa/Cairo"),
        ])
    func everyYear(zone: String, nightly: String, line: String) throws {
        func calendar(_ year: Int64) throws -> [String] {
            let rule = Recurrence.daily(at: ScheduleTiming.minutes(nightly) ?? -1, on: [])
            let today = CivilDay(year: year, month: 5, day: 1)
            return SystemdUnits(try start(rule, zone: zone, today: today), isForMachine: false).calendar
        }
        #expect(try calendar(2026) == ["*-*-* \(nightly):00 \(zone)", line])
        #expect(try calendar(2031) == calendar(2026))
    }

    @Test("Where no rule says when clocks change, as in Morocco, units have the dates of eleven years [S132]")
    func datesWithoutRule() throws {
        let calendar = SystemdUnits(try start(zone: "Africa/Casablanca"), isForMachine: false).calendar
        #expect((9...12).contains(calendar.count - 1), "\(calendar)")
        #expect(calendar.dropFirst().allSatisfy { $0.hasPrefix("20") && $0.hasSuffix(" 03:00:00 Africa/Casablanca") })
    }

    @Test("What is not caught up is not persistent; the rule is in the unit's description")
    func catchingUp() throws {
        var timing = ScheduleTiming(.every(minutes: 360))
        timing.catchesUp = false
        let clock = ScheduleClock(timing, zone: try Zone.of("UTC"), delay: 0)
        let program = try ScheduledProgram(path: "/bin/true", arguments: [])
        let start = ScheduledStart(name: "tower", clock: clock, program: program, today: CivilDay(number: 20_000))
        let text = SystemdUnits(start, isForMachine: false).timerText
        #expect(text.contains("\nPersistent=false\n") && text.contains("\nOnCalendar=*-*-* 00,06,12,18:00:00\n"))
        #expect(text.contains("\nDescription=Scheduled pull tower, every 6 h\n"))
        #expect(try units().timerText.contains("\nPersistent=true\n"))
    }

    @Test("Weekdays follow a delay into the next day")
    func weekdays() throws {
        let units = try units(nightly: "23:50", zone: nil, days: [.mon, .sat], delay: 1_205)
        #expect(units.calendar == ["Tue,Sun *-*-* 00:10:05"])
    }

    @Test(
        "Unit names are what systemd-escape makes of them, or their dashes are plain",
        .enabled(if: hasSystemd, noSystemd), arguments: ["tower", "com.example_Tower9", "a.b"])
    func names(name: String)
        throws
    {
        #expect(ScheduleName.isValid(name))
        let escaped = String(decoding: tool(["systemd-escape", name]).output, as: UTF8.self)
        #expect(escaped == name + "\n")
    }

    @Test(
        "A name that could lead elsewhere is refused",
        arguments: [
            "", ".", "..", ".hidden", "-x", "a/b", "a b", "a\nb", "ä", "a@b", "a%", "a\\",
            String(repeating: "x", count: 101),
        ])
    func badNames(name: String) {
        #expect(!ScheduleName.isValid(name))
        #expect(throws: ScheduleError.self) { try ScheduleName.check(name) }
    }

    @Test(
        "A name is derived from a path or a project",
        arguments: [
            ("com.example.tower", "com.example.tower"), ("/srv/My Tower", "srv-My-Tower"), ("..", nil),
            ("grün", "gr-n"), ("--x--", "x"),
        ] as [(String, String?)])
    func derived(text: String, name: String?) { #expect(ScheduleName.derived(from: text) == name) }

    @Test("Units are written, checked, enabled; a second time replaced; removed with everything")
    func installing() throws {
        let place = try Place()
        let notes = Notes()
        let backend = SystemdBackend(isForMachine: false, directory: place.path, run: notes.run)
        let tower = try start()
        #expect(try !backend.holds(tower))
        #expect(try backend.install(tower) == [])
        #expect(try backend.holds(tower))
        #expect(place.files == ["syncagent-schedule-tower.service", "syncagent-schedule-tower.timer"])
        let said = notes.said.withLock { $0 }
        let enable = "systemctl --user enable --now syncagent-schedule-tower.timer"
        #expect(said.last == enable)
        let verify = try #require(said.firstIndex { $0.hasPrefix("systemd-analyze --user --man=no verify ") })
        #expect(verify < said.count - 1 && said.contains("systemctl --user daemon-reload"))

        try backend.install(try start(.daily(at: 240, on: [])))
        let timer = try #require(try readScheduleFile("\(place.path)/syncagent-schedule-tower.timer"))
        #expect(String(decoding: timer, as: UTF8.self).contains("04:00:00"))
        #expect(
            notes.said.withLock { $0 }.contains("systemctl --user clean --what=state syncagent-schedule-tower.timer"))

        #expect(try backend.remove("tower"))
        #expect(place.files == [])
        #expect(try !backend.remove("tower"))
    }

    @Test(
        "Whatever fails, nothing is left half installed", arguments: ["calendar", "verify", "daemon-reload", "enable"])
    func failing(step: String) throws {
        let place = try Place()
        let backend = SystemdBackend(isForMachine: true, directory: place.path, run: Notes(refusing: step).run)
        #expect(throws: ScheduleError.self) { try backend.install(try start()) }
        #expect(place.files == [])

        // What was there before is there again.
        let working = SystemdBackend(isForMachine: true, directory: place.path, run: Notes().run)
        try working.install(try start(.daily(at: 60, on: [])))
        let before = try readScheduleFile("\(place.path)/syncagent-schedule-tower.timer")
        #expect(throws: ScheduleError.self) { try backend.install(try start(.daily(at: 300, on: []))) }
        #expect(try readScheduleFile("\(place.path)/syncagent-schedule-tower.timer") == before)
    }

    @Test("Where systemctl cannot be started, a timer keeps its units, and that is said; without systemd they go")
    func notStopped() throws {
        let place = try Place()
        try SystemdBackend(isForMachine: false, directory: place.path, run: Notes().run).install(try start())
        func backend(_ status: Int32) -> SystemdBackend {
            SystemdBackend(
                isForMachine: false, directory: place.path, run: Notes(refusing: "disable", status: status).run)
        }
        #expect(throws: ScheduleError.self) { try backend(126).remove("tower") }
        #expect(place.files.count == 2)
        #expect(try !backend(126).remove("maps"))
        #expect(try backend(1).remove("tower"))
        #expect(place.files.isEmpty)
    }

    @Test("A FIFO in the place of a file ends at once, and so does one that others may write to [F099]")
    func otherFiles() throws {
        let place = try Place()
        #expect(mkfifo(place.path + "/fifo.json", 0o600) == 0)
        let error = #expect(throws: ScheduleError.self) { try readScheduleFile(place.path + "/fifo.json") }
        #expect(error?.description.hasSuffix("it is not a regular file") == true)
        let path = place.path + "/open.json"
        try writeScheduleFile(Array("{}".utf8), to: path, mode: 0o666)
        let refused = #expect(throws: ScheduleError.self) { try readScheduleFile(path) }
        #expect(refused?.isRefusal == true)
        #expect(chmod(path, 0o644) == 0)
        #expect(try readScheduleFile(path) == Array("{}".utf8))
        #expect(chmod(place.path, 0o777) == 0)
        #expect(throws: ScheduleError.self) { try readScheduleFile(path) }
        #expect(throws: ScheduleError.self) { try writeScheduleFile([], to: path) }
        #expect(chmod(place.path, 0o755) == 0)
        #expect(try readScheduleFile(path) == Array("{}".utf8))
    }

    @Test("A unit that somebody else wrote is left alone")
    func foreign() throws {
        let place = try Place()
        let path = "\(place.path)/syncagent-schedule-tower.timer"
        try writeScheduleFile(Array("[Timer]\n".utf8), to: path)
        let backend = SystemdBackend(isForMachine: false, directory: place.path, run: Notes().run)
        #expect(throws: ScheduleError.self) { try backend.install(try start()) }
        #expect(try readScheduleFile(path) == Array("[Timer]\n".utf8))
        #expect(place.files.count == 1)
    }
}

@Suite("What starts schedules", .timeLimit(.minutes(10)))
struct BackendChoiceTests {
    /// A machine in letters: `r`oot asks, the `u`ser's or the machine's (`s`) systemd answers, there is `c`rontab(1), and a
    /// cron `d`aemon.
    private static func machine(_ has: String) -> (MachineFacts, [any ScheduleBackend]) {
        let facts = MachineFacts(
            userName: "ana", isRoot: has.contains("r"), exists: { $0 == "/run/systemd/system" && has.contains("s") },
            hasProgram: { $0 == "crontab" && has.contains("c") },
            isRunning: { $0.contains("cron") && has.contains("d") }, isAgentRunning: { false })
        let backends = scheduleBackends(root: "", configuration: "/nowhere") { words, _ in
            let answers = words.contains("--user") ? has.contains("u") : has.contains("s")
            return CommandOutcome(status: words.first == "systemctl" && answers ? 0 : 1)
        }
        return (facts, backends)
    }

    @Test(
        "The best there is, and why [S132]",
        arguments: [
            ("uscd", nil, false, false, "systemd-user", "the user's systemd is running"),
            ("scd", nil, false, false, "cron", "systemd is not running, and a cron daemon is running"),
            ("scd", nil, false, true, "agent", "systemd is not running, and cron does not support time zones"),
            ("c", nil, false, false, "agent", "systemd is not running, and no cron daemon is running"),
            ("", nil, false, false, "agent", "systemd is not running, and no cron daemon is running"),
            ("ruscd", nil, false, false, "systemd-system", "the machine's systemd is running"),
            ("rscd", nil, true, false, "systemd-system", "the machine's systemd is running"),
            ("rcd", nil, true, false, "cron-system", "systemd is not running, and a cron daemon is running"),
            ("rcd", nil, false, false, "cron", "systemd is not running, and a cron daemon is running"),
            ("uscd", "systemd", false, false, "systemd-user", "the user's systemd is running"),
            ("uscd", "cron", false, false, "cron", "--backend cron"),
            ("c", "cron", false, false, "cron", "--backend cron; no cron daemon is running now"),
            ("uscd", "agent", false, false, "agent", "--backend agent"),
        ] as [(String, String?, Bool, Bool, String, String)]) func choice(
            has: String, named: String?, system: Bool, zone: Bool, backend: String, why: String
        ) throws
    {
        let (facts, backends) = Self.machine(has)
        let choice = try chooseBackend(named, of: backends, isForMachine: system, hasZone: zone, facts)
        #expect(choice.backend.name == backend)
        #expect(choice.reason == why)
    }

    @Test(
        "What cannot be had is refused, with what is missing",
        arguments: [
            ("r", nil, true, .unavailable, "systemd is not running, and no cron daemon is running; without --system"),
            ("u", nil, true, .invalid, "--system is for root"),
            ("scd", "systemd", false, .unavailable, "'systemctl --user show-environment' fails"),
            ("", "cron", false, .unavailable, "There is no crontab(1) here"),
            ("rs", "agent", true, .invalid, "the agent belongs to its user"),
        ] as [(String, String?, Bool, ScheduleError.Code, String)])
    func refusal(
        has: String, named: String?, system: Bool, code: ScheduleError.Code, why: String
    ) {
        let (facts, backends) = Self.machine(has)
        #expect { try chooseBackend(named, of: backends, isForMachine: system, hasZone: false, facts) } throws: {
            error in (error as? ScheduleError).map { $0.code == code && $0.description.contains(why) } ?? false
        }
    }

    @Test("Backends are kept under the names they have always had")
    func names() {
        let backends = Self.machine("").1
        #expect(backends.map(\.name) == ["systemd-user", "systemd-system", "cron", "cron-system", "agent"])
        #expect(backends.map(\.words) == ["systemd (user)", "systemd", "cron", "cron.d", "the agent"])
        #expect(backends.filter(\.isForMachine).map(\.name) == ["systemd-system", "cron-system"])
    }

    @Test(
        "What starts a schedule stays where that is not against the wish",
        arguments: [
            (nil, "cron", false, false, true), (nil, "cron", false, true, false), (nil, "cron", true, false, false),
            (nil, "systemd-system", true, true, true), ("systemd", "cron", false, false, false),
            ("systemd", "systemd-user", false, true, true), ("cron", "cron-system", true, false, true),
            ("agent", "agent", false, true, true), ("agent", "cron", false, false, false),
        ] as [(String?, String, Bool, Bool, Bool)])
    func keeping(
        named: String?, name: String, system: Bool, zone: Bool, isKept: Bool
    ) throws {
        let backend = try #require(Self.machine("").1.first { $0.name == name })
        #expect(backend.accepts(named, isForMachine: system, hasZone: zone) == isKept)
    }
}
