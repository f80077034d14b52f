import ArgumentParser
import Foundation
import SyncAgent
import SyncAssembly
import SyncModel
import SyncReport
import SyncSchedule
import Testing

@testable import SyncCommands

@Suite("Options of the report", .timeLimit(.minutes(10)))
struct ReportCommandTests {
    /// 2026-11-21 07:30 UTC.
    private let now: Int64 = 1_795_246_200_000
    private let berlin = Zone.named("Europe/Berlin") ?? Zone(name: nil) { _ in 0 }

    @Test(
        "--since takes periods, local dates and times, and RFC 3339",
        arguments: [
            ("1d", 1_795_159_800_000), ("12h", 1_795_203_000_000), ("90m", 1_795_240_800_000),
            ("7d", 1_794_641_400_000), ("2026-11-20", 1_795_129_200_000), ("2026-11-20T02:00", 1_795_136_400_000),
            ("2026-11-20 02:00", 1_795_136_400_000), ("2026-11-20T02:00:30", 1_795_136_430_000),
            ("2026-11-20T02:00:00Z", 1_795_140_000_000), ("2026-11-20T02:00:00.500Z", 1_795_140_000_500),
            ("2026-11-20T02:00:00+05:00", 1_795_122_000_000),
            // Summer time.
            ("2026-07-01", 1_782_856_800_000),
        ] as [(String, Int64)])
    func since(text: String, start: Int64) { #expect(reportStart(text, now: now, zone: berlin) == start) }

    @Test(
        "--since refuses what is none of them",
        arguments: [
            "", "0", "1", "7", "-1", "yesterday", "2026-13-01", "2026-11-20T25:00", "2026-11-2", "1.5d",
            "99999999999999",
        ])
    func refused(text: String) { #expect(reportStart(text, now: now, zone: berlin) == nil) }

    @Test("The system's own user is found by its state directory; root looks there as that user, for good")
    func systemUser() async throws {
        let root = FileManager.default.temporaryDirectory.path + "/system-\(UUID().uuidString)"
        let state = root + "/syncagent"
        defer { try? FileManager.default.removeItem(atPath: root) }
        let missing = #expect(throws: CommandFailure.self) { _ = try EnvironmentPaths.ofSystem(state) }
        #expect(missing?.status == .noInput)
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
        let own = try EnvironmentPaths.ofSystem(state)
        #expect(try own.statePath() == state && own.lookup("HOME") == nil)
        // Only root can give a directory away.
        guard geteuid() == 0, chown(state, 65_534, 65_534) == 0 else { return }
        await #expect(processExitsWith: .success) { [state = state as String] in
            let other = try EnvironmentPaths.ofSystem(state)
            guard geteuid() == 65_534, getegid() == 65_534, getgroups(0, nil) == 0, setuid(0) != 0,
                try other.statePath() == state
            else { exit(1) }
        }
    }

    @Test("A schedule whose file has an absurd time is new, as far as anybody knows")
    func absurdTime() throws {
        let home = FileManager.default.temporaryDirectory.path + "/schedules-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: home) }
        let environment = EnvironmentPaths(home: home) { _ in nil }
        let records = try ScheduleRecords(environment)
        let timing = ScheduleTiming(.daily(at: 60, on: []))
        let request = EnqueueRequest(manifest: "/m", destination: "/d")
        try records.put(ScheduleDefinition(timing, backend: "agent", request: request), for: "night")
        for seconds in [Int.max, Int.max / 1_000 + 1, Int.min] {
            var times = [timespec(tv_sec: seconds, tv_nsec: 0), timespec(tv_sec: seconds, tv_nsec: 0)]
            // A file system without such times takes the nearest it has.
            #expect(utimensat(AT_FDCWD, records.path("night"), &times, 0) == 0)
            let schedules = ReportSchedules(now: now, environment: environment)
            #expect(schedules.all.count == 1 && schedules.failing == 0)
        }
    }

    @Test("A schedule that could not start counts until a session says so, or it is paused")
    func failingSchedules() throws {
        let home = FileManager.default.temporaryDirectory.path + "/schedules-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: home) }
        let environment = EnvironmentPaths(home: home) { _ in nil }
        let records = try ScheduleRecords(environment)
        let request = EnqueueRequest(manifest: "/m", destination: "/d")
        var definition = ScheduleDefinition(ScheduleTiming(.daily(at: 60, on: [])), backend: "agent", request: request)
        try records.put(definition, for: "night")
        var memory = ScheduleMemory()
        for failure in [nil, "nobody answers"] as [String?] {
            memory.failure = failure
            try records.put(memory, for: "night")
            #expect(ReportSchedules(now: now, environment: environment).failing == (failure == nil ? 0 : 1))
        }
        definition.isPaused = true
        try records.put(definition, for: "night")
        #expect(ReportSchedules(now: now, environment: environment).failing == 0)
    }

    @Test(
        "Options that would be ignored are refused",
        arguments: [["--json", "--html"], ["--since", "soon"], ["--since", "2096-01-01"], ["--output", ""], [""]])
    func validation(arguments: [String]) { #expect(throws: (any Error).self) { try ReportCommand.parse(arguments) } }

    @Test(
        "A textfile ends in .prom",
        arguments: [("/x/syncagent.prom", true), ("a.prom", true), ("/x/.prom", false), ("a.txt", false)])
    func textfile(name: String, isFine: Bool) {
        #expect(MetricsFile.isName(name) == isFine)
        let command = try? MetricsCommand.parse(["--textfile", name])
        #expect((command != nil) == isFine)
    }

    @Test("A file is replaced as a whole, readable for others; where it cannot be, the old one stays")
    func replaced() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let path = directory + "/m.prom"
        try replaceFile(path, by: "one\n")
        try replaceFile(path, by: "two\n")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "two\n")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o644)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["m.prom"])
        let failure = #expect(throws: CommandFailure.self) {
            try replaceFile(directory + "/none/m.prom", by: "three\n")
        }
        #expect(failure?.status == .cannotCreate)
        #expect(failure?.message.contains("No such file or directory") == true)
    }

    @Test("A pipe or a device is not replaced by a file")
    func notReplaced() throws {
        let path = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        defer { unlink(path) }
        #expect(mkfifo(path, 0o600) == 0)
        let failure = #expect(throws: CommandFailure.self) { try replaceFile(path, by: "x") }
        #expect(failure == CommandFailure(.cannotCreate, "cannot write \(path): it is not a regular file"))
        var status = stat()
        #expect(lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
    }

    @Test("A symbolic link stays, and the file that it leads to is replaced; one that leads to nothing is refused")
    func replacedBehindLink() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let (file, link, lost) = (directory + "/file", directory + "/link", directory + "/lost")
        try replaceFile(file, by: "one\n")
        #expect(symlink("file", link) == 0 && symlink("none", lost) == 0)
        try replaceFile(link, by: "two\n")
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "two\n")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "file")
        let failure = #expect(throws: CommandFailure.self) { try replaceFile(lost, by: "x") }
        #expect(
            failure
                == CommandFailure(.cannotCreate, "cannot write \(lost): it is a symbolic link that leads to nothing"))
        #expect(mkfifo(directory + "/fifo", 0o600) == 0 && symlink("fifo", directory + "/pipe") == 0)
        #expect(throws: CommandFailure.self) { try replaceFile(directory + "/pipe", by: Array("x".utf8), mode: 0o644) }
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: directory + "/pipe") == "fifo")
    }

    @Test("A symbolic link that leads in a circle, or to a path that is not UTF-8, is refused with the reason")
    func refusedBehindLink() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let file = Array((directory + "/").utf8CString.dropLast()) + [CChar(bitPattern: 0xFF), 0]
        defer {
            unlink(file)
            try? FileManager.default.removeItem(atPath: directory)
        }
        let (loop, odd) = (directory + "/loop", directory + "/odd")
        #expect(symlink("loop", loop) == 0 && symlink(file, odd) == 0)
        let (circle, lost) = (refusal(loop), refusal(odd))
        #expect(circle?.message.contains("Too many levels of symbolic links") == true)
        #expect(lost?.message.contains("leads to nothing") == true)
        let made = open(file, O_CREAT | O_WRONLY, 0o600)
        #expect(made >= 0 && close(made) == 0)
        #expect(refusal(odd)?.message.contains("a path that is not UTF-8") == true)
        #expect(access(directory + "/\u{FFFD}", F_OK) != 0)
    }

    private func refusal(_ path: String) -> CommandFailure? {
        do throws(CommandFailure) {
            try replaceFile(path, by: "x")
            return nil
        } catch { return error }
    }

    @Test("A FIFO with the URL of a webhook does not hold the command up [F099]")
    func postFIFO() throws {
        let path = FileManager.default.temporaryDirectory.path + "/report-" + UUID().uuidString
        defer { unlink(path) }
        #expect(mkfifo(path, 0o600) == 0)
        let failure = #expect(throws: CommandFailure.self) { _ = try reportReceiver("@" + path) }
        #expect(failure == CommandFailure(.configuration, "\(path): it is not a regular file"))
    }

    @Test("A webhook is reached with the settings of the user whose report it is")
    func postSettings() throws {
        let path = FileManager.default.temporaryDirectory.path + "/settings-" + UUID().uuidString
        defer { unlink(path) }
        #expect(FileManager.default.createFile(atPath: path, contents: Data("{ nonsense: 1 }".utf8)))
        var host = HostEnvironment(base: EnvironmentPaths.ofProcess.pathBase, variables: [:])
        host.files = [path]
        let report = MorningReport(version: "1", host: nil, generated: now, since: now, sessions: [])
        let receiver = try reportReceiver("http://127.0.0.1:1/")
        let settings = host
        let failure = #expect(throws: CommandFailure.self) { try report.post(to: receiver, on: settings) }
        #expect(failure?.status == .configuration && failure?.message.contains(path) == true)
    }
}
