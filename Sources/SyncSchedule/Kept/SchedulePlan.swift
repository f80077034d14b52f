/// A schedule that is to be, compared with what there is.
package struct SchedulePlan: Sendable {
    package let name: String
    package var definition: ScheduleDefinition
    package let clock: ScheduleClock
    package let choice: BackendChoice

    package init(name: String, definition: ScheduleDefinition, clock: ScheduleClock, choice: BackendChoice) {
        self.name = name
        self.definition = definition
        self.clock = clock
        self.choice = choice
    }

    /// What becomes of a schedule.
    package enum Change: String, Sendable { case added, changed, unchanged, removed }

    /// What there is to do. Reads, and asks nobody but crontab(1).
    ///
    /// - Throws: ``ScheduleError`` when what is installed cannot be looked at.
    package func change(_ records: ScheduleRecords, now: Int64) throws(ScheduleError) -> Change {
        guard try ScheduleFiles.read(records.path(name)) != nil else { return .added }
        // One that cannot be understood is written anew.
        guard let record = (try? records.find(name)) ?? nil, record.definition == definition else { return .changed }
        if definition.isPaused { return .unchanged }
        let start = try records.installation.start(name, clock, now: now)
        return try choice.backend.holds(start) ? .unchanged : .changed
    }
}
