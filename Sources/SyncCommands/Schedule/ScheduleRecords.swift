import Foundation
import SyncModel
import SyncSchedule
import SyncSystem

/// Where schedules are kept: definitions beside the configuration, what they have come to in the state directory.
struct ScheduleRecords: Sendable {
    /// Of definitions, absolute.
    let definitions: String
    /// Of memories, absolute.
    let memories: String

    init(_ environment: EnvironmentPaths = .ofProcess) throws(CommandFailure) {
        definitions = try environment.configurationDirectory() + "/schedules"
        memories = try environment.statePath() + "/schedules"
    }

    /// A schedule with everything that is known of it on this machine.
    struct Record: Sendable {
        let name: String
        let definition: ScheduleDefinition
        let clock: ScheduleClock
        var memory: ScheduleMemory

        /// When it runs next after a moment, **milliseconds** since 1970; `nil` for never, and while it is paused.
        func next(after now: Int64) -> Occurrence? { definition.isPaused ? nil : clock.next(after: now) }

        var timing: ScheduleTiming { clock.timing }
    }

    /// The names of all schedules, in order.
    var names: [String] {
        ScheduleFiles.names(in: definitions).compactMap { file in
            guard file.hasSuffix(".json") else { return nil }
            let name = String(file.dropLast(5))
            return ScheduleName.isValid(name) ? name : nil
        }
    }

    /// The file of a schedule's definition.
    func path(_ name: String) -> String { "\(definitions)/\(name).json" }

    /// Reads a schedule; `nil` if there is none.
    ///
    /// - Throws: ``ScheduleError`` for a file that cannot be read or understood.
    func find(_ name: String) throws(ScheduleError) -> Record? {
        try ScheduleName.check(name)
        guard let bytes = try ScheduleFiles.read(path(name)) else { return nil }
        let definition: ScheduleDefinition
        do {
            definition = try Self.decoder.decode(ScheduleDefinition.self, from: Data(bytes))
        } catch {
            throw ScheduleError(
                .file,
                "\(escaped(path(name))) cannot be understood; 'schedule add' writes it anew."
            )
        }
        let timing: ScheduleTiming
        let zone: Zone
        do throws(ScheduleError) {
            timing = try definition.timing()
            zone = try Zone.of(timing.timeZone)
        } catch {
            throw ScheduleError(.file, "\(escaped(path(name))): \(error)")
        }
        let delay = Jitter.delay(machine: Self.machine, schedule: name, most: timing.jitter)
        let clock = ScheduleClock(timing, zone: zone, delay: delay)
        return Record(name: name, definition: definition, clock: clock, memory: memory(name))
    }

    /// Reads a schedule that must be there.
    ///
    /// - Throws: ``ScheduleError``.
    func get(_ name: String) throws(ScheduleError) -> Record {
        guard let record = try find(name) else {
            throw ScheduleError(
                .unknown,
                "There is no schedule '\(escaped(name))'. 'syncagent schedule list' lists them."
            )
        }
        return record
    }

    /// Keeps a definition in the place of a former one; only its owner may read it, as with other settings.
    func put(_ definition: ScheduleDefinition, for name: String) throws(ScheduleError) {
        try write(definition, to: path(name))
    }

    /// Keeps what a schedule has come to.
    func put(_ memory: ScheduleMemory, for name: String) throws(ScheduleError) {
        try write(memory, to: "\(memories)/\(name).json")
    }

    /// Forgets a schedule.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    func remove(_ name: String) throws(ScheduleError) -> Bool {
        try ScheduleFiles.remove("\(memories)/\(name).json")
        return try ScheduleFiles.remove(path(name))
    }

    /// What a schedule has come to. Lost, it is as if it were new.
    private func memory(_ name: String) -> ScheduleMemory {
        guard let bytes = (try? ScheduleFiles.read("\(memories)/\(name).json")) ?? nil else {
            return ScheduleMemory()
        }
        return (try? Self.decoder.decode(ScheduleMemory.self, from: Data(bytes))) ?? ScheduleMemory()
    }

    private func write(_ value: some Encodable, to path: String) throws(ScheduleError) {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let bytes: [UInt8]
        do {
            bytes = Array(try encoder.encode(value)) + [0x0A]
        } catch {
            throw ScheduleError(.file, "\(escaped(path)) cannot be written: \(escaped("\(error)"))")
        }
        try ScheduleFiles.write(bytes, to: path, mode: 0o600)
    }

    private static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }

    /// What tells this machine apart: machine-id(5), or its name where there is none.
    static let machine: String = {
        for path in ["/etc/machine-id", "/var/lib/dbus/machine-id"] {
            if let text = systemLine(path), !text.isEmpty { return String(text) }
        }
        return ProcessInfo.processInfo.hostName
    }()
}
