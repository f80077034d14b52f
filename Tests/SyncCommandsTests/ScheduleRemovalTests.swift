import Foundation
import SyncAgent
import SyncModel
import SyncSchedule
import Testing

@testable import SyncCommands

@Suite("Schedules whose definition cannot be read", .timeLimit(.minutes(10)))
struct ScheduleRemovalTests {
    /// Everything that could start schedule `night`, below a directory that stands for the machine.
    private final class Machine {
        let path = FileManager.default.temporaryDirectory.path + "/schedules-\(UUID().uuidString)"
        static let files = [
            "etc/systemd/system/syncagent-schedule-night.timer", "etc/systemd/system/syncagent-schedule-night.service",
            "etc/cron.d/" + ScheduleName.cronFile("night"), "config/systemd/user/syncagent-schedule-night.timer",
        ]

        init() throws { for file in Self.files { try writeScheduleFile(Array("x".utf8), to: "\(path)/\(file)") } }

        deinit {
            // A leftover in the temporary directory harms nobody.
            try? FileManager.default.removeItem(atPath: path)
        }

        var left: [String] { Self.files.filter { FileManager.default.fileExists(atPath: "\(path)/\($0)") } }

        func installation(isRoot: Bool, crontab: CommandOutcome) -> ScheduleInstallation {
            let environment = EnvironmentPaths(home: nil) { [path] in ["XDG_CONFIG_HOME": path + "/config"][$0] }
            return ScheduleInstallation(environment, root: path, isRoot: isRoot) { words, _ in
                words.first == "crontab" ? crontab : CommandOutcome(status: 127)
            }
        }
    }

    @Test("For root, the machine's timer and cron file go, too; for others they are not touched")
    func removed() throws {
        for isRoot in [true, false] {
            let machine = try Machine()
            try machine.installation(isRoot: isRoot, crontab: CommandOutcome(status: 127)).removeEverywhere("night")
            #expect(machine.left == (isRoot ? [] : Array(Machine.files.prefix(3))))
        }
    }

    @Test("What may still start it is said, everything else goes all the same; what starts it rightly stays")
    func failing() throws {
        let machine = try Machine()
        let installation = machine.installation(isRoot: true, crontab: CommandOutcome(status: 1, errors: "denied"))
        #expect(throws: ScheduleError.self) { try installation.removeEverywhere("night", but: "cron-system") }
        #expect(machine.left == [Machine.files[2]])
    }

    @Test("What a schedule has come to and cannot be read is not taken for nothing, nor written anew")
    func unreadableMemory() throws {
        let machine = try Machine()
        let records = ScheduleRecords(
            configuration: machine.path + "/config", state: machine.path + "/state",
            installation: machine.installation(isRoot: false, crontab: CommandOutcome(status: 127)))
        let request = EnqueueRequest(manifest: "/m", destination: "/d")
        let definition = ScheduleDefinition(
            ScheduleTiming(.daily(at: 120, on: [])), backend: "agent", request: request)
        try records.put(definition, for: "night")
        let record = try records.get("night")
        // A link to itself: ELOOP, for root as well.
        let file = records.memories + "/night.json"
        try FileManager.default.createDirectory(atPath: records.memories, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: "night.json")
        #expect(throws: ScheduleError.self) { _ = try records.find("night") }
        #expect(throws: ScheduleError.self) { _ = try records.change(record, now: 0) }
        #expect(throws: ScheduleError.self) { _ = try records.replace(record, now: 0, warn: { _ in }) }
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: file) == "night.json")
        // It can be removed all the same.
        #expect(try records.discard("night") == nil)
        #expect(try records.find("night") == nil)
    }
}
