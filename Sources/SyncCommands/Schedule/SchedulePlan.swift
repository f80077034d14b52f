import Foundation
import SyncControl
import SyncModel
import SyncSchedule

/// A schedule that is to be, compared with what there is.
struct SchedulePlan: Sendable {
    let name: String
    var definition: ScheduleDefinition
    let clock: ScheduleClock
    let choice: BackendChoice

    /// What becomes of a schedule.
    enum Change: String, Sendable {
        case added, changed, unchanged, removed
    }

    /// What there is to do. Reads, and asks nobody but crontab(1).
    ///
    /// - Throws: ``ScheduleError`` when what is installed cannot be looked at.
    func change(_ records: ScheduleRecords, now: Int64) throws(ScheduleError) -> Change {
        guard try ScheduleFiles.read(records.path(name)) != nil else { return .added }
        // One that cannot be understood is written anew.
        guard let record = (try? records.find(name)) ?? nil, record.definition == definition else {
            return .changed
        }
        if definition.isPaused { return .unchanged }
        let start = try records.installation.start(name, clock, now: now)
        return try choice.backend.holds(start) ? .unchanged : .changed
    }
}
