import Foundation
import SyncAgent
import SyncModel
import SyncReport
import SyncSchedule
import SyncSystem

/// What the user's schedules mean for a report.
struct ReportSchedules: Sendable {
    private(set) var bySession: [String: ReportReader.Schedule] = [:]
    /// Each by itself.
    private(set) var all: [ReportReader.Schedule] = []

    /// Reads what there is. A file that cannot be read is `schedule list`'s to complain about.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    init(now: Int64, environment: EnvironmentPaths = .ofProcess) {
        guard let records = try? ScheduleRecords(environment) else { return }
        for name in (try? records.names()) ?? [] {
            guard let record = (try? records.find(name)) ?? nil else { continue }
            let next = record.next(after: now)?.fire
            let due = record.definition.isPaused ? nil : record.clock.latest(at: now)?.fire
            // Of a schedule that is new, nothing of the past is missed.
            let made = Self.modified(records.path(name))
            let lastDue = due.flatMap { $0 > made ? $0 : nil }
            var schedule = ReportReader.Schedule(next: next, lastDue: lastDue)
            (schedule.name, schedule.destination) = (name, record.definition.request.destination ?? "")
            // Whoever pauses one knows.
            if !record.definition.isPaused {
                (schedule.failure, schedule.cause) = (record.memory.failure, record.memory.cause)
                schedule.failed = record.memory.failed?.milliseconds
            }
            (schedule.session, schedule.fired) = (record.session, record.memory.fired?.milliseconds)
            all.append(schedule)
            guard let session = record.session else { continue }
            // Several for one session: the next is the first of all, the last due the latest.
            let known = bySession[session]
            // Of one that could not start, the failure tells that nothing has run.
            bySession[session] = ReportReader.Schedule(
                next: [known?.next, next].compactMap { $0 }.min(),
                lastDue: [known?.lastDue, schedule.failure == nil ? lastDue : nil].compactMap { $0 }.max())
        }
    }

    /// How many could not start the last time and have no session to say so.
    var failing: Int { all.count { $0.failure != nil } }

    /// When each session runs next, **milliseconds** since 1970.
    var next: [String: Int64] { bySession.compactMapValues(\.next) }

    /// When a file was changed last, **milliseconds** since 1970.
    private static func modified(_ path: String) -> Int64 {
        status(following: path).map { $0.modified / 1_000_000 } ?? .max
    }
}
