import Foundation
import SyncModel
import Synchronization
import Testing

@testable import SyncSchedule

private func program(_ path: String = "/usr/bin/syncagent", variables: [String] = []) throws -> ScheduledProgram {
    try ScheduledProgram(path: path, arguments: ["schedule", "run", "tower", "--quiet"], variables: variables)
}

/// A schedule of the machine's zone.
private func start(
    _ name: String, _ recurrence: Recurrence, delay: Int = 0, program path: ScheduledProgram? = nil,
    zone: String? = nil, catchesUp: Bool = true
) throws -> ScheduledStart {
    var timing = ScheduleTiming(recurrence)
    timing.timeZone = zone
    timing.catchesUp = catchesUp
    let today = CivilDay(year: 2026, month: 11, day: 21)
    let clock = ScheduleClock(timing, zone: try Zone.of(zone), delay: delay)
    return ScheduledStart(name: name, clock: clock, program: try path ?? program(), today: today)
}

private func nightly(_ time: String, _ days: Set<Weekday> = []) -> Recurrence {
    .daily(at: ScheduleTiming.minutes(time) ?? -1, on: days)
}

/// A crontab(1) in memory.
private final class FakeCrontab: Sendable {
    let table: Mutex<[UInt8]?>
    let complaint: String?

    init(_ table: [UInt8]?, complaint: String? = nil) {
        self.table = Mutex(table)
        self.complaint = complaint
    }

    var run: CommandRunner {
        { [self] arguments, input in
            if let complaint { return CommandOutcome(status: 1, errors: complaint) }
            return table.withLock { table in
                switch arguments {
                case ["crontab", "-l"]:
                    return table.map { CommandOutcome(status: 0, output: $0) }
                        ?? CommandOutcome(status: 1, errors: "no crontab for user\n")
                case ["crontab", "-"]: table = input
                case ["crontab", "-r"]: table = nil
                default: return CommandOutcome(status: 2, errors: "\(arguments)")
                }
                return CommandOutcome(status: 0)
            }
        }
    }
}

@Suite("Crontabs", .timeLimit(.minutes(10)))
struct CrontabTests {
    static let nasty: [[UInt8]] = [
        Array("".utf8),
        Array("MAILTO=\"\"\nPATH=/bin\n\n# m h  dom mon dow   command\n0 5 * * 1 tar -zcf /b.tgz /home/\n".utf8),
        Array("0 1 * * * echo no end".utf8), Array("0 1 * * * echo crlf\r\n# comment\r\n".utf8),
        Array("0 1 * * * echo 100\\% done%input%lines\n\n\n".utf8),
        Array("# syncagent schedule other: do not edit; by hand\n0 2 * * * x\n".utf8),
        [0x23, 0x20, 0xFF, 0xFE, 0x0A, 0x23, 0xC3, 0x0A], Array("\n".utf8),
    ]

    @Test("Whatever else is in a crontab stays, byte for byte", arguments: nasty.indices)
    func others(index: Int) throws {
        let before = Self.nasty[index]
        let crontab = FakeCrontab(before.isEmpty ? nil : before)
        let backend = CronBackend(run: crontab.run)
        try backend.install(start("tower", nightly("02:00")))
        try backend.install(start("maps", nightly("03:00")))
        try backend.install(start("tower", nightly("04:00")))
        let both = try #require(crontab.table.withLock { $0 })
        #expect(both.starts(with: before))
        #expect(both.last == 0x0A)
        let text = String(decoding: both, as: UTF8.self)
        #expect(
            text.contains("\n0 4 * * * /usr") && text.contains("\n0 3 * * * /usr") && !text.contains("\n0 2 * * * /usr")
        )
        #expect(backend.isInEffect("tower") && backend.isInEffect("maps") && !backend.isInEffect("towe"))

        let again = try start("tower", nightly("02:00"))
        #expect(try !backend.holds(again))
        try backend.install(again)
        #expect(try backend.holds(again))
        #expect(try backend.remove("tower"))
        #expect(try !backend.remove("tower"))
        #expect(try backend.remove("maps"))
        let after = crontab.table.withLock { $0 }
        // A last line without an end has got one: cron would not have run it.
        let whole = before.isEmpty || before.last == 0x0A ? before : before + [0x0A]
        #expect(after == (before.isEmpty ? nil : whole))
    }

    @Test("A block whose end is missing takes no lines of others with it")
    func broken() {
        var table = Crontab([])
        table.set("tower", lines: ["1 1 * * * a"])
        let text = String(decoding: table.bytes, as: UTF8.self)
        let cut = text.split(separator: "\n").dropLast().joined(separator: "\n") + "\n5 5 * * * mine\n"
        var broken = Crontab(Array(cut.utf8))
        broken.set("tower", lines: ["2 2 * * * b"])
        let result = String(decoding: broken.bytes, as: UTF8.self)
        #expect(result.contains("5 5 * * * mine\n") && result.contains("2 2 * * * b\n"))
        broken.remove("tower")
        #expect(String(decoding: broken.bytes, as: UTF8.self) == "1 1 * * * a\n5 5 * * * mine\n")
    }

    @Test("A crontab that cannot be read is not taken for an empty one")
    func refused() throws {
        for complaint in ["You (x) are not allowed to use this program (crontab)\n", "crontab: disk on fire"] {
            let crontab = FakeCrontab(Array("0 1 * * * mine\n".utf8), complaint: complaint)
            #expect(throws: ScheduleError.self) {
                try CronBackend(run: crontab.run).install(start("tower", nightly("02:00")))
            }
            #expect(crontab.table.withLock { $0 } == Array("0 1 * * * mine\n".utf8))
        }
    }

    @Test("A program that is nowhere is not installed; one that cannot be looked at may be, and starts what it has")
    func notInstalled() throws {
        let place = FileManager.default.temporaryDirectory.path + "/crontab-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: place) }
        // A link to itself: ELOOP, for root as well. The names lead there from /usr/bin and its like.
        try FileManager.default.createSymbolicLink(atPath: place + "/loop", withDestinationPath: "loop")
        let run = systemCommands(environment: [:]) { _ in nil }
        for (name, status) in [("none", 127), ("loop", 126)] as [(String, Int32)] {
            #expect(run(["../..\(place)/\(name)"], []).status == status)
        }
        let backend = CronBackend(run: { _, input in run(["../..\(place)/loop"], input) })
        #expect(throws: ScheduleError.self) { try backend.remove("tower") }
        #expect(try !CronBackend(run: { _, input in run(["../..\(place)/none"], input) }).remove("tower"))
    }

    @Test("A crontab whose carriage returns crontab -l has spelled out is left alone")
    func carriageReturns() throws {
        let spelled = Array("0 1 * * * grep '\\r' x\n0 2 * * * /bin/true\\r\n".utf8)
        let crontab = FakeCrontab(spelled)
        #expect(throws: ScheduleError.self) {
            try CronBackend(run: crontab.run).install(start("tower", nightly("02:00")))
        }
        #expect(crontab.table.withLock { $0 } == spelled)
        let harmless = FakeCrontab(Array("0 1 * * * grep '\\r' x\n".utf8))
        try CronBackend(run: harmless.run).install(start("tower", nightly("02:00")))
    }

    @Test(
        "The line has the machine's minute and day",
        arguments: [
            ("02:00", 0, [], "0 2 * * * "), ("02:00", 1_259, [], "20 2 * * * "),
            ("23:50", 1_200, [.mon, .sat], "10 0 * * 0,2 "), ("07:05", 0, [.sun], "5 7 * * 0 "),
        ] as [(String, Int, Set<Weekday>, String)])
    func line(
        time: String, delay: Int, days: Set<Weekday>, begin: String
    ) throws {
        let lines = try Crontab.lines(of: start("tower", nightly(time, days), delay: delay))
        #expect(lines[0] == begin + "/usr/bin/syncagent schedule run tower --quiet")
        #expect(lines[1] == "@reboot /usr/bin/syncagent schedule run tower --quiet --missed")
    }

    @Test(
        "Every rule becomes lines of cron: hours that have the same minutes are one, what the star means is kept",
        arguments: [
            (.every(minutes: 15), 0, ["0,15,30,45 * * * *"]), (.every(minutes: 60), 600, ["10 * * * *"]),
            (.every(minutes: 360), 0, ["0 0,6,12,18 * * *"]),
            (.every(minutes: 90), 0, ["0 0,3,6,9,12,15,18,21 * * *", "30 1,4,7,10,13,16,19,22 * * *"]),
            (.every(minutes: 1), 0, ["* * * * *"]), (.every(minutes: 720), 43_000, ["56 11,23 * * *"]),
        ] as [(Recurrence, Int, [String])])
    func rules(rule: Recurrence, delay: Int, lines: [String]) throws {
        let found = try Crontab.lines(of: start("tower", rule, delay: delay, catchesUp: false))
        #expect(found == lines.map { $0 + " /usr/bin/syncagent schedule run tower --quiet" })
    }

    @Test(
        "A rule of cron comes back from cron's lines as it was meant",
        arguments: [
            ("0 3 * * 1-5", "0 3 * * 1,2,3,4,5"), ("*/20 8-9 1,15 jan,jul *", "0,20,40 8,9 1,15 1,7 *"),
            ("5 4 13 * fri", "5 4 13 * 5"), ("0 0 */2 * 1", "0 0 */2 * 1"), ("0 0 1-31 * 1", "0 0 * * *"),
            ("@weekly", "0 0 * * 0"), ("30 6 * * sat-sun", "30 6 * * 0,6"), ("0 0 * * 0-7", "0 0 * * *"),
        ])
    func expressions(text: String, line: String) throws {
        let rule = Recurrence.cron(try CronExpression(text))
        let found = try Crontab.lines(of: start("tower", rule, catchesUp: false))
        #expect(found == [line + " /usr/bin/syncagent schedule run tower --quiet"])
    }

    @Test(
        "Names with blanks, quotes, percent signs and backslashes reach the program",
        arguments: [
            ("/opt/a b/sync", "'/opt/a b/sync'"), ("/opt/100%/sync", "'/opt/100\\%/sync'"),
            ("/opt/it's/sync", "'/opt/it'\\''s/sync'"), ("/opt/$HOME`x`/s", "'/opt/$HOME`x`/s'"),
            ("/opt/\\%/s", "'/opt/\\\\%/s'"), ("/opt/grün/s", "'/opt/grün/s'"),
        ])
    func quoting(path: String, word: String) throws {
        let lines = try Crontab.lines(of: start("tower", nightly("02:00"), program: program(path)))
        #expect(lines[0] == "0 2 * * * \(word) schedule run tower --quiet")
    }

    @Test("Variables come by env(1), a file of cron.d names the user")
    func variables() throws {
        let lines = try Crontab.lines(
            of: start("tower", nightly("02:00"), program: program(variables: ["XDG_STATE_HOME=/var/my state"])),
            user: "root")
        #expect(
            lines[0] == "0 2 * * * root /usr/bin/env 'XDG_STATE_HOME=/var/my state' "
                + "/usr/bin/syncagent schedule run tower --quiet")
    }

    @Test("Line breaks, relative paths, other zones and endless commands are refused")
    func refusals() throws {
        #expect(throws: ScheduleError.self) { try program("/opt/a\nb") }
        #expect(throws: ScheduleError.self) { try program("sync") }
        #expect(throws: ScheduleError.self) {
            try Crontab.lines(
                of: start("tower", nightly("02:00"), program: program("/" + String(repeating: "x", count: 1_000))))
        }
        #expect(throws: ScheduleError.self) {
            try Crontab.lines(of: start("tower", nightly("02:00"), zone: "Europe/Berlin"))
        }
    }

    @Test("For the machine, a schedule is a file of its own in cron.d, replaced and removed whole")
    func machine() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/cron.d-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let backend = CronBackend(directory: directory, run: FakeCrontab(nil, complaint: "not to be asked").run)
        try backend.install(start("tower.night", nightly("02:00")))
        try backend.install(start("tower.night", nightly("03:00")))
        let path = directory + "/syncagent-tower_-night"
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text.split(separator: "\n").filter { $0.contains(" root /usr/bin/syncagent") }.count == 2)
        #expect(text.contains("\n0 3 * * * root ") && text.hasSuffix("\n"))
        // cron(8) passes over files that others may write.
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode.map { $0 & 0o022 } == 0)
        #expect(backend.isInEffect("tower.night"))
        #expect(try scheduleFileNames(in: directory).count { !$0.hasPrefix(".") } == 1)
        #expect(try backend.remove("tower.night"))
        #expect(!backend.isInEffect("tower.night"))
    }

    @Test("Names of schedules become names that cron.d takes, no two the same")
    func files() {
        let names = ["a.b", "a-b", "a_b", "a_-b", "a__b", "a._b", "a_.b"]
        let files = names.map(ScheduleName.cronFile)
        #expect(Set(files).count == names.count)
        #expect(files.allSatisfy { !$0.contains(".") })
    }
}
