package import SyncModel
package import SyncSchedule
package import SyncStore

extension ScheduleRecords.Record {
    /// What is enqueued for an occurrence: the schedule's request with the occurrence's own times.
    ///
    /// - Parameters:
    ///   - store: The user's, for the runs of its session that have ended; `nil` where there is none.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: The request; and when it starts, and why then, `nil` where nothing was worked out.
    package func request(for occurrence: Occurrence, in store: SyncStore?, now: Int64) -> (
        request: RunRecipe, plan: ReadyBy?
    ) {
        let plan = occurrence.readyBy.map {
            ReadyBy.plan(occurrence, ready: $0, history: Self.history(session, in: store))
        }
        let start = plan?.start ?? occurrence.fire
        var request = definition.request
        request.origin = .schedule
        if start > now { request.notBefore = WallTime(milliseconds: start) }
        if let shown = occurrence.switchAt { request.atomic?.notBefore = WallTime(milliseconds: shown) }
        request.conditions.window = clock.dailyWindow
        return (request, plan)
    }

    /// What the finished runs of a session tell about nights to come, newest first.
    private static func history(_ session: String?, in store: SyncStore?) -> [(received: UInt64, elapsed: Int64)] {
        guard let session, let store else { return [] }
        // Without a history the night starts with its window: early, never too late.
        let runs = (try? store.runs(session: session, limit: 100)) ?? []
        return runs.compactMap { run in
            guard run.state == .finished, run.result == .ok || run.result == .partial, let started = run.started,
                let finished = run.finished, 0 <= started, started <= finished
            else { return nil }
            return (run.counts.bytes.received, finished - started)
        }
    }
}

extension ScheduleClock {
    /// The part of every day in which the agent works on it. It begins with this machine's own delay, so that a
    /// fleet with work left from last night does not start as one either.
    package var dailyWindow: DailyWindow? {
        guard let start = timing.recurrence.onlyTime, let length = timing.window else { return nil }
        let delay = delay / 60
        return DailyWindow(
            startMinute: (start + delay) % 1_440, lengthMinutes: max(1, length - delay), timeZone: timing.timeZone)
    }
}
