import SyncControl
import SyncEngine
import SyncModel
import SyncSchedule
import SyncStore

extension ScheduleRecords {
    /// Puts a schedule into effect in the place of one of the same name. When that fails, everything is as it was.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: ``ScheduleError``.
    func replace(
        _ name: String,
        _ definition: ScheduleDefinition,
        _ clock: ScheduleClock,
        output: Output
    ) throws(ScheduleError) -> Bool {
        let installation = ScheduleInstallation()
        let now = EngineAssembly.milliseconds()
        let before = try ScheduleFiles.read(path(name))
        // One that cannot be understood is replaced, too; what started it is not known then: it is looked for.
        let former = (try? find(name)) ?? nil
        try put(definition, for: name)
        do throws(ScheduleError) {
            let backend = installation.backend(definition.backend)
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
                _ = try? remove(name)
            }
            throw error
        }
        var memory = former?.memory ?? ScheduleMemory()
        // What has begun is of the past: nothing is made up for a schedule that is new, or that was paused.
        memory.handled = clock.latest(at: now)?.slot
        if former?.definition.request.session != definition.request.session { memory.session = nil }
        try put(memory, for: name)
        do throws(ScheduleError) {
            if let former, former.definition.backend != definition.backend {
                try installation.backend(former.definition.backend).remove(name)
            } else if former == nil, before != nil {
                try installation.removeEverywhere(name, but: definition.backend)
            }
        } catch {
            let by = former.map { "by \($0.definition.backend.rawValue)" } ?? "by what started it before"
            output.warning("\(name) may still be started \(by), too: \(error)")
        }
        return before != nil
    }
}

extension ScheduleRecords {
    /// Takes a schedule out of effect and forgets it.
    ///
    /// - Returns: Its session, where it is known.
    func discard(_ name: String) throws(ScheduleError) -> String? {
        let installation = ScheduleInstallation()
        do throws(ScheduleError) {
            let record = try get(name)
            try installation.backend(record.definition.backend).remove(name)
            try remove(name)
            return record.memory.session
        } catch  where error.code == .file && !error.description.hasPrefix("removing") {
            // It cannot be understood: whoever may start it is asked to stop.
            try installation.removeEverywhere(name)
            try remove(name)
            return nil
        }
    }

    /// Keeps for the report that a schedule could not start: with its session, or with itself where it has none yet.
    ///
    /// - Parameter store: The user's; `nil` where there is none.
    func note(_ name: String, _ reason: String, _ status: ExitStatus, in store: SyncStore?) {
        let now = EngineAssembly.milliseconds()
        // What cannot be kept has been said to whoever waits, or to the log.
        guard var record = try? get(name) else { return }
        if let store, let session = record.memory.session ?? record.definition.request.session,
            (try? store.session(session)) != nil
        {
            let event = SyncEvent("schedule.failed", time: now) {
                $0.field("session", session)
                $0.field("schedule", name)
                $0.field("reason", reason)
                $0.field("status", status.rawValue)
            }
            _ = try? store.append([event.json.bytes], to: session, time: now)
        } else {
            record.memory.failure = reason
            record.memory.failed = WallTime(milliseconds: now)
            try? put(record.memory, for: name)
        }
    }
}
