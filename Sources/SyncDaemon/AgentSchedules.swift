package import SyncAgent
import SyncModel
package import SyncSchedule

/// The schedules that the agent's own clock fires, where neither systemd nor cron runs.
package struct AgentSchedules: Sendable {
    /// The schedules at one moment, each with its last handled occurrence, and whether there are any that cannot be read
    /// now. The agent then keeps running, and tries to read them again.
    package typealias Snapshot = (
        entries: [(name: String, clock: ScheduleClock, handled: Slot?)], hasUnread: Bool
    )

    /// Reads the schedules. Called again and again, since people add and remove them.
    package var load: @Sendable () -> Snapshot
    /// The request for an occurrence, and the reason for its start time, for the log.
    package var request: @Sendable (_ name: String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>
    /// Records that an occurrence was handled, and by which run.
    ///
    /// - Returns: Whether the record is on disk.
    package var remember: @Sendable (_ name: String, Occurrence, EnqueueReply) -> Bool
    /// Called whenever a run could not be enqueued.
    package var failed: @Sendable (_ name: String, ControlError) -> Void
    /// The runs that wait for their planned start, of all schedules, whatever has fired them.
    package var planned: @Sendable () -> [PlannedRun] = { [] }
    /// Called when a session was removed.
    package var forget: @Sendable (_ session: String) -> Void = { _ in }

    /// A run that waits for its planned start.
    package struct PlannedRun: Sendable {
        let name: String
        let occurrence: Occurrence
        /// The run's name.
        let run: String
        /// The request with which it is asked for again.
        let request: EnqueueRequest
        /// When that is due, **milliseconds** since 1970: shortly before the start.
        let due: Int64
    }

    package init(
        load: @escaping @Sendable () -> Snapshot,
        request: @escaping @Sendable (String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>,
        remember: @escaping @Sendable (String, Occurrence, EnqueueReply) -> Bool,
        failed: @escaping @Sendable (String, ControlError) -> Void = { _, _ in }
    ) {
        (self.load, self.request, self.remember, self.failed) = (load, request, remember, failed)
    }
}

extension Agent {
    /// Longest time between two reads of the schedules: clocks jump, and people add schedules.
    private static let longestPoll = Duration.seconds(60)

    /// Fires the agent's own schedules until it is stopped or the task is cancelled.
    func followSchedules() async {
        guard let schedules = environment.schedules else { return }
        while stopMode == nil, !Task.isCancelled {
            let next = await fireDue(schedules)
            let wait = next.map { Duration.milliseconds(max(1, $0 - environment.now())) } ?? Self.longestPoll
            // Cancelled: the agent ends.
            guard (try? await environment.sleep(min(wait, Self.longestPoll))) != nil else { return }
        }
    }

    /// Finds out whether there are schedules for which the agent must not end.
    func countSchedules() { if let schedules = environment.schedules { _ = read(schedules) } }

    private func read(_ schedules: AgentSchedules) -> AgentSchedules.Snapshot {
        let snapshot = schedules.load()
        hasSchedules = !snapshot.entries.isEmpty || snapshot.hasUnread
        return snapshot
    }

    /// Enqueues all due occurrences.
    ///
    /// - Returns: When to check again, **milliseconds** since 1970.
    private func fireDue(_ schedules: AgentSchedules) async -> Int64? {
        let snapshot = read(schedules)
        var next: Int64?
        func later(_ time: Int64?) { if let time { next = min(next ?? time, time) } }
        for entry in snapshot.entries where stopMode == nil {
            let name = entry.name
            let now = environment.now()
            let handled = [entry.handled, handledSlots[name]].compactMap(\.self).filter {
                entry.clock.mayBePast($0, at: now)
            }.max()
            let outlook = entry.clock.outlook(at: now, handled: handled, started: failedSchedules[name]?.slot)
            later(outlook.next)
            if handled == nil { handledSlots[name] = outlook.handled }
            if let lost = outlook.missed, missedSlots[name] != lost.slot {
                missedSlots[name] = lost.slot
                environment.log("schedule \(name): the run of \(lost.slot) was missed and is skipped")
            }
            guard let due = outlook.due else { continue }
            if let failed = failedSchedules[name], failed.slot == due.slot, failed.due > environment.now() {
                later(failed.due)
                continue
            }
            later(await fire(name, due, schedules))
        }
        later(await askAgain(schedules))
        return next
    }

    /// Asks again for runs whose planned start is near: there may be a newer release than when their windows opened.
    ///
    /// - Returns: When to check again, **milliseconds** since 1970.
    private func askAgain(_ schedules: AgentSchedules) async -> Int64? {
        var next: Int64?
        for planned in schedules.planned() where stopMode == nil && askedAgain[planned.name] != planned.run {
            let (name, run) = (planned.name, planned.run)
            guard planned.due <= environment.now() else {
                next = min(next ?? planned.due, planned.due)
                continue
            }
            // Only once: without an answer, it starts with the release that it has.
            askedAgain[name] = run
            do throws(ControlError) {
                let reply = try await enqueue(planned.request, inPlaceOf: run)
                guard reply.run != run else { continue }
                askedAgain[name] = reply.run
                _ = schedules.remember(name, planned.occurrence, reply)
                environment.log("schedule \(name): run \(reply.run) replaces \(run), with the newest release")
            } catch {
                environment.log("schedule \(name): no newer release replaces run \(run): \(escaped(error.message))")
            }
        }
        return next
    }

    /// Enqueues a run. If the same run is already open, it goes on: there are never two.
    ///
    /// - Returns: When to try again; `nil` if it is enqueued.
    private func fire(_ name: String, _ occurrence: Occurrence, _ schedules: AgentSchedules) async -> Int64? {
        do throws(ControlError) {
            let (request, reason) = try schedules.request(name, occurrence).get()
            let reply = try await enqueue(request)
            handledSlots[name] = schedules.remember(name, occurrence, reply) ? nil : occurrence.slot
            failedSchedules[name] = nil
            let why = reason.map { "; \($0)" } ?? ""
            environment.log(
                "schedule \(name), \(occurrence.slot): run \(reply.run)" + (reply.isNew ? "" : " continues") + why)
            return nil
        } catch {
            var count = 1
            if let before = failedSchedules[name], before.slot == occurrence.slot { count += before.count }
            // 30 s, 1 min, 2 min … up to 15 min, as long as the window lasts.
            let seconds = min(Int64(30) << Int64(min(count - 1, 5)), 900)
            let due = environment.now() + seconds * 1_000
            failedSchedules[name] = (occurrence.slot, count, due)
            schedules.failed(name, error)
            environment.log("schedule \(name), \(occurrence.slot): \(escaped(error.message)); retrying in \(seconds) s")
            return due
        }
    }
}
