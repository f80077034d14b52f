package import SyncModel

/// One occurrence of a schedule. Instants are **milliseconds** since 1970.
package struct Night: Sendable, Equatable {
    /// The day on which it begins, by the clock on the wall: what makes it the same night, whatever clocks do.
    package let day: CivilDay
    /// When it begins for the fleet.
    package let begin: Int64
    /// When it begins for this machine: ``begin`` and the machine's own delay.
    package let fire: Int64
    /// When nothing is transferred any more; `nil` without window.
    package let end: Int64?
    /// When everything is to be in place; `nil` if nobody said.
    package let readyBy: Int64?
}

extension ScheduleTiming {
    /// The night that begins on a day.
    ///
    /// - Parameters:
    ///   - day: The day.
    ///   - zone: Whose clocks count.
    ///   - delay: **Seconds** on the clock that this machine begins later, see ``Jitter``.
    /// - Returns: `nil` on a day that is not wanted, or that the place does not have.
    package func night(of day: CivilDay, in zone: Zone, delay: Int) -> Night? {
        guard days.isEmpty || days.contains(day.weekday), zone.has(day) else { return nil }
        let start = Int64(nightly) * 60
        let begin = zone.first(start, of: day)
        let end = window.map { begin + Int64($0) * 60 }
        var fire = zone.first(start + Int64(delay), of: day)
        // Clocks are put back between the two: the delay is not to take the window away.
        if let end, fire >= end { fire = begin }
        let ready = readyBy.map { zone.first(start + Int64(untilReady($0)) * 60, of: day) * 1_000 }
        return Night(
            day: day,
            begin: begin * 1_000,
            fire: fire * 1_000,
            end: end.map { $0 * 1_000 },
            // After the window nothing comes any more.
            readyBy: ready.map { min($0, end.map { $0 * 1_000 } ?? .max) }
        )
    }
}
