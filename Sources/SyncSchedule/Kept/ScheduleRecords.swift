package import SyncAgent
import SyncModel
import SyncSystem

/// Where schedules are kept: definitions beside the configuration, what they have come to in the state directory.
package struct ScheduleRecords: Sendable {
    /// Of definitions, absolute.
    package let definitions: String
    /// Of memories, absolute.
    package let memories: String
    package var installation: ScheduleInstallation

    /// - Parameters:
    ///   - configuration: The directory of syncagent's own configuration, absolute.
    ///   - state: The directory of its state, absolute.
    package init(configuration: String, state: String, installation: ScheduleInstallation) {
        definitions = configuration + "/schedules"
        memories = state + "/schedules"
        self.installation = installation
    }

    /// A schedule with everything that is known of it on this machine.
    package struct Record: Sendable {
        package let name: String
        package var definition: ScheduleDefinition
        package let backend: any ScheduleBackend
        package let clock: ScheduleClock
        package var memory: ScheduleMemory

        /// One that is to be, or that is kept.
        ///
        /// - Throws: ``ScheduleError`` for a time zone that is not known here.
        package init(
            _ name: String, _ definition: ScheduleDefinition, by backend: any ScheduleBackend,
            memory: ScheduleMemory = ScheduleMemory()
        ) throws(ScheduleError) {
            let timing = definition.timing
            let delay = timing.delay(machine: ScheduleRecords.machine, schedule: name)
            clock = ScheduleClock(timing, zone: try Zone.of(timing.timeZone), delay: delay)
            (self.name, self.definition, self.backend, self.memory) = (name, definition, backend, memory)
        }

        /// When it runs next after a moment, **milliseconds** since 1970; `nil` for never, and while it is paused.
        package func next(after now: Int64) -> Occurrence? { definition.isPaused ? nil : clock.next(after: now) }

        package var timing: ScheduleTiming { clock.timing }

        /// Its session, as far as it is known.
        package var session: String? { memory.session ?? definition.request.session }
    }

    /// The names of all schedules, in order.
    package func names() throws(ScheduleError) -> [String] {
        try scheduleFileNames(in: definitions).compactMap { file in
            guard file.hasSuffix(".json") else { return nil }
            let name = String(file.dropLast(5))
            return ScheduleName.isValid(name) ? name : nil
        }
    }

    /// The file of a schedule's definition.
    package func path(_ name: String) -> String { "\(definitions)/\(name).json" }

    /// Reads a schedule; `nil` if there is none.
    package func find(_ name: String) throws(ScheduleError) -> Record? {
        try ScheduleName.check(name)
        guard let bytes = try readScheduleFile(path(name)) else { return nil }
        return try parse(name, bytes, memory(name))
    }

    /// Makes a schedule of its definition's file and its memory.
    ///
    /// - Throws: ``ScheduleError`` when it cannot be understood.
    private func parse(_ name: String, _ bytes: [UInt8], _ memory: ScheduleMemory) throws(ScheduleError) -> Record {
        do {
            let definition = try ScheduleDefinition(json: bytes)
            return try Record(name, definition, by: installation.backend(definition.backend), memory: memory)
        } catch let error as ScheduleError { throw ScheduleError(.file, "\(escaped(path(name))): \(error)") } catch {
            throw ScheduleError(.file, "\(escaped(path(name))) cannot be parsed; 'schedule add' writes it again.")
        }
    }

    /// Reads a schedule that must be there.
    package func get(_ name: String) throws(ScheduleError) -> Record {
        guard let record = try find(name) else {
            throw ScheduleError(
                .unknown, "There is no schedule '\(escaped(name))'. 'syncagent schedule list' lists them.")
        }
        return record
    }

    /// Keeps a definition in the place of a former one; only its owner may read it, as with other settings.
    package func put(_ definition: ScheduleDefinition, for name: String) throws(ScheduleError) {
        try write(definition, to: path(name))
    }

    /// Keeps what a schedule has come to.
    package func put(_ memory: ScheduleMemory, for name: String) throws(ScheduleError) {
        try write(memory, to: "\(memories)/\(name).json")
    }

    /// Forgets a schedule.
    package func remove(_ name: String) throws(ScheduleError) {
        try removeScheduleFile("\(memories)/\(name).json")
        try removeScheduleFile(path(name))
    }

    /// What a schedule has come to. Lost, it is as if it were new; what is there and cannot be read is not lost.
    private func memory(_ name: String) throws(ScheduleError) -> ScheduleMemory {
        guard let bytes = try readScheduleFile("\(memories)/\(name).json") else { return ScheduleMemory() }
        return (try? ScheduleMemory(json: bytes)) ?? ScheduleMemory()
    }

    private func write(_ value: some Encodable, to path: String) throws(ScheduleError) {
        let bytes: [UInt8]
        do { bytes = try value.json(isPretty: true) + [0x0A] } catch {
            throw ScheduleError(.file, "\(escaped(path)) cannot be written: \(escaped("\(error)"))")
        }
        // The first of this user may be the first file in the state directory, too, which nobody else looks into.
        try writeScheduleFile(bytes, to: path, mode: 0o600, directories: 0o700)
    }

    /// What tells this machine apart: machine-id(5), or its name where there is none.
    private static let machine: String = {
        for path in ["/etc/machine-id", "/var/lib/dbus/machine-id"] {
            if let text = systemLine(path), !text.isEmpty { return String(text) }
        }
        return CurrentProcess.hostName ?? ""
    }()
}

extension ScheduleRecords {
    /// What becomes of a schedule.
    package enum Change: String, Sendable { case added, changed, unchanged, removed }

    /// What there is to do for a schedule that is to be. Reads, and asks nobody but crontab(1).
    ///
    /// - Throws: ``ScheduleError`` when what is installed cannot be looked at.
    package func change(_ wanted: Record, now: Int64) throws(ScheduleError) -> Change {
        guard let bytes = try readScheduleFile(path(wanted.name)) else { return .added }
        let known = try memory(wanted.name)
        // One that cannot be understood is written anew.
        guard let record = try? parse(wanted.name, bytes, known), record.definition == wanted.definition else {
            return .changed
        }
        if wanted.definition.isPaused { return .unchanged }
        let start = try installation.start(wanted.name, wanted.clock, now: now)
        return try wanted.backend.holds(start) ? .unchanged : .changed
    }

    /// Puts a schedule into effect in the place of one of the same name. When that fails, everything is as it was.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - warn: Told, in a line for people, what does not keep it from being in effect.
    /// - Returns: Whether there was one.
    package func replace(_ wanted: Record, now: Int64, warn: (String) -> Void) throws(ScheduleError) -> Bool {
        let (name, definition, clock) = (wanted.name, wanted.definition, wanted.clock)
        let before = try readScheduleFile(path(name))
        // Kept below: it has to be readable before anything is changed.
        let known = try self.memory(name)
        // One that cannot be understood is replaced, too; what started it is not known then: it is looked for.
        let former = before.flatMap { try? parse(name, $0, known) }
        // Another session, or another destination, has a past of its own.
        let (asked, past) = (definition.request, former?.definition.request)
        let isSame = asked.session == past?.session && asked.destination == past?.destination
        var memory = isSame ? former?.memory ?? ScheduleMemory() : ScheduleMemory()
        // A window that is already open counts as past: nothing is caught up for a schedule that is new or was paused.
        memory.handled = clock.latest(at: now)?.slot
        try put(memory, for: name)
        do throws(ScheduleError) {
            try put(definition, for: name)
            if definition.isPaused {
                try wanted.backend.remove(name)
            } else {
                for note in try wanted.backend.install(try installation.start(name, clock, now: now)) { warn(note) }
            }
        } catch {
            // What is said is why it failed; a file that cannot be put back would only hide that.
            if let before {
                try? writeScheduleFile(before, to: path(name), mode: 0o600)
                try? put(known, for: name)
            } else {
                try? remove(name)
            }
            throw error
        }
        do throws(ScheduleError) {
            if let former, former.definition.backend != definition.backend {
                try former.backend.remove(name)
            } else if former == nil, before != nil {
                try installation.removeEverywhere(name, but: definition.backend)
            }
        } catch {
            let by = former.map { "by \($0.backend.name)" } ?? "by what started it before"
            warn("\(name) may still be started \(by) as well: \(error)")
        }
        return before != nil
    }
}

extension ScheduleRecords {
    /// Takes a schedule out of effect and forgets it.
    ///
    /// - Returns: Its session, where it is known.
    package func discard(_ name: String) throws(ScheduleError) -> String? {
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
    package func remember(_ name: String, _ slot: Slot?, _ reply: EnqueueReply, fired: Int64) throws(ScheduleError) {
        guard var memory = try find(name)?.memory else { return }
        if let slot { memory.handled = slot }
        memory.fired = WallTime(milliseconds: fired)
        (memory.session, memory.run) = (reply.session, reply.run)
        (memory.failure, memory.failed, memory.cause) = (nil, nil, nil)
        try put(memory, for: name)
    }
}
