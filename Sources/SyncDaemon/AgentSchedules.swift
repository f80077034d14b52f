package import SyncControl
package import SyncSchedule

/// The schedules that the agent's own clock fires: where neither systemd nor cron runs.
package struct AgentSchedules: Sendable {
    /// One of them, as it is kept at the moment.
    package struct Entry: Sendable {
        package let name: String
        package let clock: ScheduleClock
        /// The last occurrence that was dealt with; `nil` for none.
        package let handled: Slot?

        /// See the properties.
        package init(name: String, clock: ScheduleClock, handled: Slot?) {
            self.name = name
            self.clock = clock
            self.handled = handled
        }
    }

    /// Reads them; asked again and again, since people add and remove them.
    package var load: @Sendable () -> [Entry]
    /// What is to be enqueued for an occurrence, and a word on why it starts when it does.
    package var request:
        @Sendable (_ name: String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>
    /// Keeps that an occurrence was dealt with, and by which run.
    ///
    /// - Returns: Whether that is on the disk.
    package var remember: @Sendable (_ name: String, Occurrence, EnqueueReply) -> Bool
    /// Told of each time that a run could not be begun.
    package var failed: @Sendable (_ name: String, ControlError) -> Void

    /// See the properties.
    package init(
        load: @escaping @Sendable () -> [Entry],
        request: @escaping @Sendable (String, Occurrence) -> Result<(EnqueueRequest, String?), ControlError>,
        remember: @escaping @Sendable (String, Occurrence, EnqueueReply) -> Bool,
        failed: @escaping @Sendable (String, ControlError) -> Void = { _, _ in }
    ) {
        self.load = load
        self.request = request
        self.remember = remember
        self.failed = failed
    }
}
