import Foundation
import SyncAgent
import SyncModel
import SyncReport
import SyncSchedule
import SyncSystem

/// The user's schedules, as a report needs them.
struct ReportSchedules: Sendable {
    private(set) var bySession: [String: ReportReader.Schedule] = [:]
    /// One entry per schedule.
    private(set) var all: [ReportReader.Schedule] = []

    /// Reads the schedules. One whose file cannot be parsed, or is refused, counts as one that could not start.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    init(now: Int64, environment: EnvironmentPaths = .ofProcess) {
        guard let records = try? ScheduleRecords(environment) else { return }
        for name in (try? records.names()) ?? [] {
            let record: ScheduleRecords.Record
            do throws(ScheduleError) {
                guard let found = try records.find(name) else { continue }
                record = found
            } catch {
                // Nothing is known of a file that this process may not read, as with `--system`.
                guard error.isRefusal || !error.isOfReading else { continue }
                var unread = ReportReader.Schedule()
                (unread.name, unread.failure, unread.cause) = (name, error.description, .configuration)
                all.append(unread)
                continue
            }
            let next = record.next(after: now)?.fire
            let due = record.definition.isPaused ? nil : record.clock.latest(at: now)?.fire
            // For a new schedule, no past occurrence counts as missed.
            let made = Self.modified(records.path(name))
            let lastDue = due.flatMap { $0 > made ? $0 : nil }
            var schedule = ReportReader.Schedule(next: next, lastDue: lastDue)
            (schedule.name, schedule.destination) = (name, record.definition.request.destination ?? "")
            // The person who paused a schedule knows about it.
            if !record.definition.isPaused {
                (schedule.failure, schedule.cause) = (record.memory.failure, record.memory.cause)
                schedule.failed = record.memory.failed?.milliseconds
            }
            (schedule.session, schedule.fired) = (record.session, record.memory.fired?.milliseconds)
            all.append(schedule)
            guard let session = record.session else { continue }
            // For several schedules of one session: the earliest next run, and the latest due one.
            let known = bySession[session]
            // If a schedule could not start, its failure explains why nothing has run.
            bySession[session] = ReportReader.Schedule(
                next: [known?.next, next].compactMap { $0 }.min(),
                lastDue: [known?.lastDue, schedule.failure == nil ? lastDue : nil].compactMap { $0 }.max())
        }
    }

    /// How many schedules could not start the last time.
    var failing: Int { all.count { $0.failure != nil } }

    /// When each session runs next, **milliseconds** since 1970.
    var next: [String: Int64] { bySession.compactMapValues(\.next) }

    /// When a file was last changed, **milliseconds** since 1970.
    private static func modified(_ path: String) -> Int64 {
        status(following: path).map { $0.modified / 1_000_000 } ?? .max
    }
}
