import Foundation
import SyncAgent
import SyncModel
import SyncSchedule
import Synchronization
import Testing

@testable import SyncCommands

@Suite("A backend of schedules that nothing but the list of them knows", .timeLimit(.minutes(10)))
struct ScheduleBackendTests {
    /// Keeps what it is given in memory.
    private final class Sundial: ScheduleBackend {
        let name = "sundial-garden"
        let words = "the sundial"
        let choice = "sundial"
        let isForMachine = false
        let installed = Mutex<[String: ScheduledProgram]>([:])

        func reason(on machine: MachineFacts, isNamed: Bool) throws(ScheduleError) -> String {
            guard machine.exists("/garden") else { throw ScheduleError(.unavailable, "there is no garden") }
            return "the sun is shining"
        }
        func preview(_ start: ScheduledStart) -> String { start.name }
        func install(_ start: ScheduledStart) -> [String] {
            installed.withLock { $0[start.name] = start.program }
            return []
        }
        func holds(_ start: ScheduledStart) -> Bool { installed.withLock { $0[start.name] == start.program } }
        func remove(_ name: String) -> Bool { installed.withLock { $0.removeValue(forKey: name) } != nil }
        func isInEffect(_ name: String) -> Bool { installed.withLock { $0[name] } != nil }
        func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)? { nil }
    }

    private static func facts(hasGarden: Bool) -> MachineFacts {
        MachineFacts(
            userName: "ana", isRoot: false, exists: { _ in hasGarden }, hasProgram: { _ in false },
            isRunning: { _ in false }, isAgentRunning: { false })
    }

    @Test("It is chosen, planned, put into effect, listed and removed")
    func works() throws {
        let place = FileManager.default.temporaryDirectory.path + "/backend-\(UUID().uuidString)"
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(atPath: place) }
        let environment = EnvironmentPaths(home: nil) {
            ["XDG_CONFIG_HOME": place + "/config", "XDG_STATE_HOME": place + "/state"][$0]
        }
        var records = try ScheduleRecords(environment)
        records.installation = ScheduleInstallation(environment, root: place) { _, _ in CommandOutcome(status: 127) }
        let sundial = Sundial()
        records.installation.backends.insert(sundial, at: 3)

        // By name, and in its turn; where it cannot be had, the next one says so.
        for named in ["sundial", nil] {
            let choice = try chooseBackend(
                named, of: records.installation.backends, isForMachine: false, hasZone: true,
                Self.facts(hasGarden: true))
            #expect(choice.backend.name == "sundial-garden" && choice.reason.hasSuffix("the sun is shining"))
        }
        let other = try chooseBackend(
            nil, of: records.installation.backends, isForMachine: false, hasZone: false, Self.facts(hasGarden: false))
        #expect(other.reason == "systemd is not running, no cron daemon is running, and there is no garden")

        var timing = ScheduleTiming(.daily(at: 120, on: []))
        timing.timeZone = "UTC"
        let definition = ScheduleDefinition(
            timing, backend: sundial.name, request: EnqueueRequest(manifest: "/m", destination: "/d"))
        let plan = try ScheduleRecords.Record("night", definition, by: sundial)
        #expect(try records.change(plan, now: 0) == .added)
        #expect(try !records.replace(plan, output: Output()))
        #expect(try records.change(plan, now: 0) == .unchanged)
        // It may be the first that is written in the state directory, into which nobody else looks.
        let traits = try FileManager.default.attributesOfItem(atPath: place + "/state/syncagent")
        #expect((traits[.posixPermissions] as? Int) == 0o700)
        let record = try records.get("night")
        #expect(record.backend.words == "the sundial" && record.backend.isInEffect("night"))

        // One in its place goes on with what was, unless it has another destination: that has a session of its own.
        var memory = record.memory
        (memory.session, memory.failure) = ("m", "nobody answered")
        try records.put(memory, for: "night")
        for (destination, session) in [("/d", "m"), ("/e", nil)] as [(String, String?)] {
            let request = EnqueueRequest(manifest: "/n", destination: destination)
            let next = try ScheduleRecords.Record(
                "night", ScheduleDefinition(timing, backend: sundial.name, request: request), by: sundial)
            #expect(try records.replace(next, output: Output()))
            let kept = try records.get("night").memory
            #expect(kept.session == session && (kept.failure == nil) == (session == nil))
        }
        _ = try records.discard("night")
        #expect(!sundial.isInEffect("night"))
        #expect(try records.find("night") == nil)

        // Where nothing can be kept of what it comes to, it is not put into effect either.
        try FileManager.default.removeItem(atPath: records.memories)
        #expect(FileManager.default.createFile(atPath: records.memories, contents: nil))
        #expect(throws: ScheduleError.self) { _ = try records.replace(plan, output: Output()) }
        #expect(!sundial.isInEffect("night"))
        #expect(try records.find("night") == nil)
    }
}
