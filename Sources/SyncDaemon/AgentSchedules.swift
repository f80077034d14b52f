package import SyncControl
package import SyncModel
package import SyncSchedule

/// The schedules that the agent's own clock fires: where neither systemd nor cron runs.
package struct AgentSchedules: Sendable {
    /// One of them, as it is kept at the moment.
    package struct Entry: Sendable {
        package let name: String
        package let clock: ScheduleClock
        /// The last night that was dealt with; `nil` for none.
        package let handled: CivilDay?

        /// See the properties.
        package init(name: String, clock: ScheduleClock, handled: CivilDay?) {
            self.name = name
            self.clock = clock
            self.handled = handled
        }
    }

    /// Reads them; asked again and again, since people add and remove them.
    package var load: @Sendable () -> [Entry]
    /// What is to be enqueued for a night, and a word on why it starts when it does.
    package var request: @Sendable (_ name: String, Night) -> Result<(EnqueueRequest, String?), ControlError>
    /// Keeps that a night was dealt with, and by which run.
    ///
    /// - Returns: Whether that is on the disk.
    package var remember: @Sendable (_ name: String, Night, EnqueueReply) -> Bool
    /// Told of each time that a night could not be begun.
    package var failed: @Sendable (_ name: String, ControlError) -> Void

    /// See the properties.
    package init(
        load: @escaping @Sendable () -> [Entry],
        request: @escaping @Sendable (String, Night) -> Result<(EnqueueRequest, String?), ControlError>,
        remember: @escaping @Sendable (String, Night, EnqueueReply) -> Bool,
        failed: @escaping @Sendable (String, ControlError) -> Void = { _, _ in }
    ) {
        self.load = load
        self.request = request
        self.remember = remember
        self.failed = failed
    }
}
