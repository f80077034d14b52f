import Foundation
import SyncControl
import SyncDaemon
import SyncEngine
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem

/// Where schedules are kept: definitions beside the configuration, what they have come to in the state directory.
struct ScheduleRecords: Sendable {
    /// Of definitions, absolute.
    let definitions: String
    /// Of memories, absolute.
    let memories: String
    var installation: ScheduleInstallation

    init(_ environment: EnvironmentPaths = .ofProcess) throws(CommandFailure) {
        installation = ScheduleInstallation(environment)
        definitions = try environment.configurationDirectory() + "/schedules"
        memories = try environment.statePath() + "/schedules"
    }

    /// A schedule with everything that is known of it on this machine.
    struct Record: Sendable {
        let name: String
        let definition: ScheduleDefinition
        let backend: any ScheduleBackend
        let clock: ScheduleClock
        var memory: ScheduleMemory

        /// When it runs next after a moment, **milliseconds** since 1970; `nil` for never, and while it is paused.
        func next(after now: Int64) -> Occurrence? { definition.isPaused ? nil : clock.next(after: now) }

        var timing: ScheduleTiming { clock.timing }

        /// Its session, as far as it is known.
        var session: String? { memory.session ?? definition.request.session }
    }

    /// The names of all schedules, in order.
    func names() throws(ScheduleError) -> [String] {
        try ScheduleFiles.names(in: definitions).compactMap { file in
            guard file.hasSuffix(".json") else { return nil }
            let name = String(file.dropLast(5))
            return ScheduleName.isValid(name) ? name : nil
        }
    }

    /// The file of a schedule's definition.
    func path(_ name: String) -> String { "\(definitions)/\(name).json" }

    /// Reads a schedule; `nil` if there is none.
    func find(_ name: String) throws(ScheduleError) -> Record? {
        try ScheduleName.check(name)
        guard let bytes = try ScheduleFiles.read(path(name)) else { return nil }
        let definition: ScheduleDefinition
        let backend: any ScheduleBackend
        do {
            definition = try Self.decoder.decode(ScheduleDefinition.self, from: Data(bytes))
            backend = try installation.backend(definition.backend)
        } catch {
            throw ScheduleError(
                .file,
                "\(escaped(path(name))) cannot be parsed; 'schedule add' writes it again."
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
        return Record(
            name: name,
            definition: definition,
            backend: backend,
            clock: clock,
            memory: memory(name)
        )
    }

    /// Reads a schedule that must be there.
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
    func remove(_ name: String) throws(ScheduleError) {
        try ScheduleFiles.remove("\(memories)/\(name).json")
        try ScheduleFiles.remove(path(name))
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

extension ScheduleRecords {
    /// Puts a schedule into effect in the place of one of the same name. When that fails, everything is as it was.
    ///
    /// - Returns: Whether there was one.
    func replace(
        _ name: String,
        _ definition: ScheduleDefinition,
        _ clock: ScheduleClock,
        output: Output
    ) throws(ScheduleError) -> Bool {
        let now = EngineAssembly.milliseconds()
        let before = try ScheduleFiles.read(path(name))
        // One that cannot be understood is replaced, too; what started it is not known then: it is looked for.
        let former = (try? find(name)) ?? nil
        try put(definition, for: name)
        do throws(ScheduleError) {
            let backend = try installation.backend(definition.backend)
            if definition.isPaused {
                try backend.remove(name)
            } else {
                for note in try backend.install(try installation.start(name, clock, now: now)) {
                    output.warning(note)
                }
            }
        } catch {
            // What is said is why it failed; a file that cannot be put back would only hide that.
            if let before {
                try? ScheduleFiles.write(before, to: path(name), mode: 0o600)
            } else {
                try? remove(name)
            }
            throw error
        }
        var memory = former?.memory ?? ScheduleMemory()
        // A window that is already open counts as past: nothing is caught up for a schedule that is new or was paused.
        memory.handled = clock.latest(at: now)?.slot
        if former?.definition.request.session != definition.request.session { memory.session = nil }
        try put(memory, for: name)
        do throws(ScheduleError) {
            if let former, former.definition.backend != definition.backend {
                try former.backend.remove(name)
            } else if former == nil, before != nil {
                try installation.removeEverywhere(name, but: definition.backend)
            }
        } catch {
            let by = former.map { "by \($0.backend.name)" } ?? "by what started it before"
            output.warning("\(name) may still be started \(by) as well: \(error)")
        }
        return before != nil
    }
}

extension ScheduleRecords {
    /// Takes a schedule out of effect and forgets it.
    ///
    /// - Returns: Its session, where it is known.
    func discard(_ name: String) throws(ScheduleError) -> String? {
        do throws(ScheduleError) {
            let record = try get(name)
            try record.backend.remove(name)
            try remove(name)
            return record.memory.session
        } catch  where error.code == .file && !error.description.hasPrefix("removing") {
            // It cannot be understood: whoever may start it is asked to stop.
            try installation.removeEverywhere(name)
            try remove(name)
            return nil
        }
    }

    /// Keeps what came of firing a schedule; nothing where it has been removed meanwhile.
    ///
    /// - Parameters:
    ///   - slot: The occurrence that was dealt with, if it was one.
    ///   - fired: **Milliseconds** since 1970.
    func remember(_ name: String, _ slot: Slot?, _ reply: EnqueueReply, fired: Int64) throws(ScheduleError) {
        guard var memory = try find(name)?.memory else { return }
        if let slot { memory.handled = slot }
        memory.fired = WallTime(milliseconds: fired)
        (memory.session, memory.run) = (reply.session, reply.run)
        (memory.failure, memory.failed, memory.cause) = (nil, nil, nil)
        try put(memory, for: name)
    }

    /// Keeps for the report that a schedule could not start: with its session, or with itself where it has none yet.
    ///
    /// - Parameter store: The user's; `nil` where there is none.
    func note(_ name: String, _ failure: CommandFailure, in store: SyncStore?) {
        let now = EngineAssembly.milliseconds()
        // What cannot be kept has been said to whoever waits, or to the log.
        guard var record = try? get(name) else { return }
        if let store, let session = record.session,
            (try? store.session(session)) != nil
        {
            let event = SyncEvent(.scheduleFailed, time: now) {
                $0.field("session", session)
                $0.field("schedule", name)
                $0.field("reason", failure.message)
                $0.field("cause", failure.cause)
                $0.field("status", failure.status.rawValue)
            }
            _ = try? store.append([event.json.bytes], to: session, time: now)
        } else {
            (record.memory.failure, record.memory.cause) = (failure.message, failure.cause)
            record.memory.failed = WallTime(milliseconds: now)
            try? put(record.memory, for: name)
        }
    }
}

extension AgentSchedules {
    /// The schedules that the agent of this user fires itself.
    init(_ records: ScheduleRecords, store: SyncStore, log: @escaping @Sendable (String) -> Void) {
        // What is wrong with a schedule's file is said once, not at every look.
        let told = ToldOnce()
        let tell: @Sendable (String) -> Void = { if told.isNew($0) { log($0) } }
        self.init(
            load: {
                let names: [String]
                do throws(ScheduleError) { names = try records.names() } catch {
                    tell("\(error)")
                    return []
                }
                return names.compactMap { name in
                    do throws(ScheduleError) {
                        guard let record = try records.find(name), record.backend.needsAgent,
                            !record.definition.isPaused
                        else { return nil }
                        return Entry(name: name, clock: record.clock, handled: record.memory.handled)
                    } catch {
                        tell("schedule \(name): \(error)")
                        return nil
                    }
                }
            },
            request: { name, occurrence in
                do throws(ScheduleError) {
                    let text = ScheduleText(now: EngineAssembly.milliseconds())
                    let made = ScheduledRequest(try records.get(name), occurrence, in: store, now: text.now)
                    return .success((made.request, made.plan.map(text.start)))
                } catch {
                    return .failure(ControlError(.failed, error.description, exitStatus: .configuration))
                }
            },
            remember: { name, occurrence, reply in
                do throws(ScheduleError) {
                    try records.remember(name, occurrence.slot, reply, fired: EngineAssembly.milliseconds())
                    return true
                } catch {
                    log("schedule \(name): \(error)")
                    return false
                }
            },
            failed: { name, error in records.note(name, CommandFailure(error), in: store) }
        )
    }
}
