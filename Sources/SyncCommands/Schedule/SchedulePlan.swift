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
    func change(
        _ records: ScheduleRecords,
        _ installation: ScheduleInstallation,
        now: Int64
    ) throws(ScheduleError) -> Change {
        guard try ScheduleFiles.read(records.path(name)) != nil else { return .added }
        // One that cannot be understood is written anew.
        guard let record = (try? records.find(name)) ?? nil, record.definition == definition else {
            return .changed
        }
        if definition.isPaused { return .unchanged }
        let start = try installation.start(name, clock, now: now)
        return try installation.backend(definition.backend).holds(start) ? .unchanged : .changed
    }
}

extension BackendChoice.Wish {
    /// Whether what starts a schedule now is what is wished, so that nobody has to be asked what else there is.
    func accepts(_ kind: BackendKind, isForMachine: Bool, hasZone: Bool) -> Bool {
        if hasZone, !kind.knowsZones { return false }
        if isForMachine, !kind.isForMachine { return false }
        switch self {
        case .auto: return true
        case .systemd: return kind == .systemdUser || kind == .systemdSystem
        case .cron: return kind == .cron && !isForMachine || kind == .cronSystem
        case .agent: return kind == .agent
        }
    }
}
