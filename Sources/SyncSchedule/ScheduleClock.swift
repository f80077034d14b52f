package import SyncModel

/// Finds out what is due: nights of one schedule on the clock of one machine. Pure.
package struct ScheduleClock: Sendable {
    package let timing: ScheduleTiming
    package let zone: Zone
    /// **Seconds** that this machine begins later.
    package let delay: Int

    /// See the properties.
    package init(_ timing: ScheduleTiming, zone: Zone, delay: Int) {
        self.timing = timing
        self.zone = zone
        self.delay = delay
    }

    /// What there is to do at a moment.
    package struct Outlook: Sendable, Equatable {
        /// The night that is to start now.
        package var due: Night?
        /// A night that was missed and whose window is over: nothing but a word in the log, once.
        package var missed: Night?
        /// What is to be remembered as the last night that was dealt with once ``due`` has started.
        package var handled: CivilDay
        /// When the next night begins for this machine, **milliseconds** since 1970; `nil` if never again.
        package var next: Int64?
    }

    /// Looks at the clock.
    ///
    /// A night is due from its beginning on. Of several that were missed, the last counts, and only as long as its
    /// window is open (S132). A clock that was set back repeats no night; when what is remembered lies more than a
    /// day ahead, the clock was wrong at that time, and the memory is dropped.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - handled: The last night that was dealt with; `nil` for a schedule that is new, for which no night of the
    ///     past is made up.
    /// - Returns: What is due, and when to look again.
    package func outlook(at now: Int64, handled: CivilDay?) -> Outlook {
        let today = zone.local(floorDivision(now, 1_000).quotient).day
        let latest = latest(at: now)
        var known = handled ?? latest?.day ?? today.adding(-1)
        if known > today.adding(1) { known = latest?.day ?? today.adding(-1) }
        var outlook = Outlook(handled: known, next: next(after: now, notBefore: known.adding(1))?.fire)
        guard let latest, latest.day > known else { return outlook }
        if let end = latest.end, now >= end {
            // Not dealt with: a clock that was wrong for a moment must not cost a night.
            outlook.missed = latest
        } else {
            outlook.due = latest
            outlook.handled = latest.day
        }
        return outlook
    }

    /// The last night that has begun for this machine; of the last nine days, so that each weekday is among them.
    package func latest(at now: Int64) -> Night? {
        let today = zone.local(floorDivision(now, 1_000).quotient).day
        for back in Int64(0)...9 {
            if let night = night(of: today.adding(-back)), night.fire <= now { return night }
        }
        return nil
    }

    /// The first night that begins for this machine after a moment, on `day` or later.
    package func next(after now: Int64, notBefore day: CivilDay? = nil) -> Night? {
        // The night of yesterday may begin for this machine only now.
        var first = zone.local(floorDivision(now, 1_000).quotient).day.adding(-1)
        if let day, day > first { first = day }
        for ahead in Int64(0)...16 {
            if let night = night(of: first.adding(ahead)), night.fire > now { return night }
        }
        return nil
    }

    private func night(of day: CivilDay) -> Night? { timing.night(of: day, in: zone, delay: delay) }
}
