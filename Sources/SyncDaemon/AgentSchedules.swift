package import SyncAgent
import SyncModel
package import SyncSchedule

/// The schedules that the agent's own clock fires: where neither systemd nor cron runs.
package struct AgentSchedules: Sendable {
    /// What is there at one moment.
    package struct Look: Sendable {
        /// Each with the last occurrence that was dealt with.
        package typealias Entry = (name: String, clock: ScheduleClock, handled: Slot?)

        package var entries: [Entry]
        /// Whether there are more that cannot be read now. The agent stays for them, and looks again.
        package var hasUnread: Bool

        package init(_ entries: [Entry], hasUnread: Bool = false) {
            (self.entries, self.hasUnread) = (entries, hasUnread)
        }

        var isEmpty: Bool { entries.isEmpty && !hasUnread }
    }

    /// Reads them; asked again and again, since people add and remove them.
    package var load: @Sendable () -> Look
    /// What is to be enqueued for an occurrence, and a word on why it starts when it does.
    package var request: @Sendable (_ name: String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>
    /// Keeps that an occurrence was dealt with, and by which run.
    ///
    /// - Returns: Whether that is on the disk.
    package var remember: @Sendable (_ name: String, Occurrence, EnqueueReply) -> Bool
    /// Called each time a run could not be started.
    package var failed: @Sendable (_ name: String, ControlError) -> Void

    package init(
        load: @escaping @Sendable () -> Look,
        request: @escaping @Sendable (String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>,
        remember: @escaping @Sendable (String, Occurrence, EnqueueReply) -> Bool,
        failed: @escaping @Sendable (String, ControlError) -> Void = { _, _ in }
    ) {
        (self.load, self.request, self.remember, self.failed) = (load, request, remember, failed)
    }
}

extension Agent {
    /// Longest time between two looks: clocks jump, and people add schedules.
    private static let longestLook = Duration.seconds(60)

    /// Fires the agent's own schedules until it is stopped or the task is cancelled.
    func followSchedules() async {
        guard let schedules = environment.schedules else { return }
        while stopMode == nil, !Task.isCancelled {
            let next = await fireDue(schedules)
            let wait = next.map { Duration.milliseconds(max(1, $0 - environment.now())) } ?? Self.longestLook
            // Cancelled: the agent ends.
            guard (try? await environment.sleep(min(wait, Self.longestLook))) != nil else { return }
        }
    }

    /// Looks whether there are schedules to stay for.
    func countSchedules() { hasSchedules = environment.schedules?.load().isEmpty == false }

    /// Enqueues everything that is due.
    ///
    /// - Returns: When to look again, **milliseconds** since 1970.
    private func fireDue(_ schedules: AgentSchedules) async -> Int64? {
        let look = schedules.load()
        hasSchedules = !look.isEmpty
        var next: Int64?
        func later(_ time: Int64?) { if let time { next = min(next ?? time, time) } }
        for entry in look.entries where stopMode == nil {
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
                environment.log("schedule \(name): the run of \(lost.slot) was missed and will not be made up for")
            }
            guard let due = outlook.due else { continue }
            if let failed = failedSchedules[name], failed.slot == due.slot, failed.due > environment.now() {
                later(failed.due)
                continue
            }
            later(await fire(name, due, schedules))
        }
        return next
    }

    /// Enqueues a run. The same run that is open already goes on: there are never two.
    ///
    /// - Returns: When to try again; `nil` when it is done.
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
            // 30 s, 1 min, 2 min … a quarter of an hour, as long as its window lasts.
            let seconds = min(Int64(30) << Int64(min(count - 1, 5)), 900)
            let due = environment.now() + seconds * 1_000
            failedSchedules[name] = (occurrence.slot, count, due)
            schedules.failed(name, error)
            environment.log("schedule \(name), \(occurrence.slot): \(escaped(error.message)); retrying in \(seconds) s")
            return due
        }
    }
}
