package import SyncAgent
import SyncModel
import SyncSystem

/// Where schedules are stored: definitions beside the configuration, their state in the state directory.
package struct ScheduleRecords: Sendable {
    /// The directory of definitions, absolute.
    package let definitions: String
    /// The directory of schedule states, absolute.
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

    /// A schedule with everything that this machine knows about it.
    package struct Record: Sendable {
        package let name: String
        package var definition: ScheduleDefinition
        package let backend: any ScheduleBackend
        package let clock: ScheduleClock
        package var memory: ScheduleMemory

        /// A schedule that is stored, or is to be.
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

        /// The next occurrence after a moment in **milliseconds** since 1970; `nil` if there is none, or while it is
        /// paused.
        package func next(after now: Int64) -> Occurrence? { definition.isPaused ? nil : clock.next(after: now) }

        package var timing: ScheduleTiming { clock.timing }

        /// Its session, if known.
        package var session: String? { memory.session ?? definition.request.session }
    }

    /// The names of all schedules, sorted.
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

    /// Makes a record from the definition's file and the schedule's state.
    ///
    /// - Throws: ``ScheduleError`` if the definition cannot be parsed.
    private func parse(_ name: String, _ bytes: [UInt8], _ memory: ScheduleMemory) throws(ScheduleError) -> Record {
        do {
            let definition = try ScheduleDefinition(json: bytes)
            return try Record(name, definition, by: installation.backend(definition.backend), memory: memory)
        } catch let error as ScheduleError {
            throw ScheduleError(.malformed, "\(escaped(path(name))): \(error)")
        } catch {
            throw ScheduleError(.malformed, "\(escaped(path(name))) cannot be parsed; 'schedule add' writes it again.")
        }
    }

    /// Reads a schedule that must exist.
    package func get(_ name: String) throws(ScheduleError) -> Record {
        guard let record = try find(name) else {
            throw ScheduleError(
                .unknown, "There is no schedule '\(escaped(name))'. 'syncagent schedule list' lists them.")
        }
        return record
    }

    /// Stores a definition in place of a former one; only its owner may read it, as with other settings.
    package func put(_ definition: ScheduleDefinition, for name: String) throws(ScheduleError) {
        try write(definition, to: path(name))
    }

    /// Stores the state of a schedule.
    package func put(_ memory: ScheduleMemory, for name: String) throws(ScheduleError) {
        try write(memory, to: "\(memories)/\(name).json")
    }

    /// Deletes a schedule.
    package func remove(_ name: String) throws(ScheduleError) {
        try removeScheduleFile("\(memories)/\(name).json")
        try removeScheduleFile(path(name))
    }

    /// The state of a schedule. If the file is missing or invalid, the schedule counts as new; an unreadable file is an
    /// error.
    private func memory(_ name: String) throws(ScheduleError) -> ScheduleMemory {
        guard let bytes = try readScheduleFile("\(memories)/\(name).json") else { return ScheduleMemory() }
        return (try? ScheduleMemory(json: bytes)) ?? ScheduleMemory()
    }

    private func write(_ value: some Encodable, to path: String) throws(ScheduleError) {
        let bytes: [UInt8]
        do { bytes = try value.json(isPretty: true) + [0x0A] } catch {
            throw ScheduleError(.file, "\(escaped(path)) cannot be written: \(escaped("\(error)"))")
        }
        // The first schedule of this user may be the first file in the state directory, which only the user may read.
        try writeScheduleFile(bytes, to: path, mode: 0o600, directories: 0o700)
    }

    /// The identity of this machine: machine-id(5), or its host name if there is none.
    private static let machine: String = {
        for path in ["/etc/machine-id", "/var/lib/dbus/machine-id"] {
            if let text = systemLine(path), !text.isEmpty { return String(text) }
        }
        return CurrentProcess.hostName ?? ""
    }()
}

extension ScheduleRecords {
    /// The change to a schedule.
    package enum Change: String, Sendable { case added, changed, unchanged, removed }

    /// The change that is needed for a wanted schedule. Changes nothing, and runs only crontab(1).
    ///
    /// - Throws: ``ScheduleError`` if what is installed cannot be read.
    package func change(_ wanted: Record, now: Int64) throws(ScheduleError) -> Change {
        guard let bytes = try readScheduleFile(path(wanted.name)) else { return .added }
        let known = try memory(wanted.name)
        // A definition that cannot be parsed is written anew.
        guard let record = try? parse(wanted.name, bytes, known), record.definition == wanted.definition else {
            return .changed
        }
        if wanted.definition.isPaused { return .unchanged }
        let start = try installation.start(wanted.name, wanted.clock, now: now)
        return try wanted.backend.holds(start) ? .unchanged : .changed
    }

    /// Puts a schedule into effect in place of one with the same name. On failure, everything is as it was.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - warn: Receives, as a line for people, each problem that does not keep it from being in effect.
    /// - Returns: Whether there was one.
    package func replace(_ wanted: Record, now: Int64, warn: (String) -> Void) throws(ScheduleError) -> Bool {
        let (name, definition, clock) = (wanted.name, wanted.definition, wanted.clock)
        let before = try readScheduleFile(path(name))
        // Reused below: it has to be readable before anything is changed.
        let known = try self.memory(name)
        // A definition that cannot be parsed is replaced, too; its backend is then unknown, so all are tried below.
        let former = before.flatMap { try? parse(name, $0, known) }
        // Another session, or another destination, has a past of its own.
        let (asked, past) = (definition.request, former?.definition.request)
        let isSame = asked.session == past?.session && asked.destination == past?.destination
        var memory = isSame ? former?.memory ?? ScheduleMemory() : ScheduleMemory()
        // A window that is already open counts as past: a schedule that is new or was paused catches up on nothing.
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
    /// Takes a schedule out of effect and deletes it.
    ///
    /// - Returns: Its session, if known.
    package func discard(_ name: String) throws(ScheduleError) -> String? {
        do throws(ScheduleError) {
            let record = try get(name)
            try record.backend.remove(name)
            try remove(name)
            return record.memory.session
        } catch  where error.code == .malformed || error.isOfReading {
            // The definition cannot be parsed, or not read: every backend that may start it is asked to stop.
            try installation.removeEverywhere(name)
            try remove(name)
            return nil
        }
    }

    /// Forgets a session that was removed, whose name another one may get. Schedules that cannot be read are skipped.
    package func forget(session: String) {
        for name in (try? names()) ?? [] {
            guard var memory = (try? find(name))?.memory, memory.session == session else { continue }
            memory.session = nil
            // It is replaced by the next run in any case.
            try? put(memory, for: name)
        }
    }

    /// Records the result of firing a schedule; does nothing if it has been removed meanwhile.
    ///
    /// - Parameters:
    ///   - slot: The occurrence that was handled, if any.
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
