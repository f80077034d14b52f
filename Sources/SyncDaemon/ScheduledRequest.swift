package import SyncAgent
package import SyncModel
package import SyncSchedule
package import SyncStore

/// What is enqueued for an occurrence: the schedule's request with the occurrence's own times.
package struct ScheduledRequest: Sendable {
    package let request: EnqueueRequest
    /// When it starts, and why then; `nil` where nothing was worked out.
    package let plan: ReadyBy?

    /// - Parameters:
    ///   - record: The schedule.
    ///   - occurrence: Which one.
    ///   - store: The user's, for the runs of its session that have ended; `nil` where there is none.
    ///   - now: **Milliseconds** since 1970.
    package init(_ record: ScheduleRecords.Record, _ occurrence: Occurrence, in store: SyncStore?, now: Int64) {
        plan = occurrence.readyBy.map {
            ReadyBy.plan(occurrence, ready: $0, history: Self.history(record.session, in: store))
        }
        let start = plan?.start ?? occurrence.fire
        var request = record.definition.request
        request.origin = .schedule
        if start > now { request.notBefore = WallTime(milliseconds: start) }
        request.conditions.window = Self.window(record.clock)
        self.request = request
    }

    /// The part of every day in which the agent works on it. It begins with this machine's own delay, so that a
    /// fleet with work left from last night does not start as one either.
    package static func window(_ clock: ScheduleClock) -> DailyWindow? {
        guard let start = clock.timing.recurrence.onlyTime, let length = clock.timing.window else { return nil }
        let delay = clock.delay / 60
        return DailyWindow(
            startMinute: (start + delay) % 1_440, lengthMinutes: max(1, length - delay), timeZone: clock.timing.timeZone
        )
    }

    /// What the finished runs of a session tell about nights to come, newest first.
    private static func history(_ session: String?, in store: SyncStore?) -> [NightRecord] {
        guard let session, let store else { return [] }
        // Without a history the night starts with its window: early, never too late.
        let runs = (try? store.runs(session: session, limit: 100)) ?? []
        return runs.compactMap { run in
            guard run.state == .finished, run.result == .ok || run.result == .partial, let started = run.started,
                let finished = run.finished, 0 <= started, started <= finished
            else { return nil }
            return NightRecord(received: run.counts.bytes.received, elapsed: finished - started)
        }
    }
}
