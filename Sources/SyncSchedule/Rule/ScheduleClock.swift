import SyncModel

/// Finds out what is due: occurrences of one schedule on the clock of one machine. Pure.
package struct ScheduleClock: Sendable {
    package let timing: ScheduleTiming
    package let zone: Zone
    /// **Seconds** that this machine begins later.
    package let delay: Int

    package init(_ timing: ScheduleTiming, zone: Zone, delay: Int) {
        (self.timing, self.zone, self.delay) = (timing, zone, delay)
    }

    package struct Outlook: Sendable, Equatable {
        /// The occurrence that is to start now.
        package var due: Occurrence?
        /// One that was missed and is not caught up: nothing but a word in the log, once.
        package var missed: Occurrence?
        /// What is to be remembered as the last one that was dealt with once ``due`` has started.
        package var handled: Slot
        /// When the next one begins for this machine, **milliseconds** since 1970; `nil` if never again.
        package var next: Int64?
    }

    /// Longest time in **milliseconds** after its beginning at which an occurrence that is not to be caught up still
    /// starts: timers are not exact, and an agent that is started anew is not asleep.
    package static let grace: Int64 = 600_000

    /// Days looked at on both sides of now: 29 February on a given weekday comes within 40 years.
    private static let horizon = Int64(14_700)

    /// Looks at the clock.
    ///
    /// An occurrence is due from its beginning on. Of several that were missed, the last counts, and only as long as
    /// its window is open. A clock that was set back repeats nothing; when what is remembered lies more than a
    /// day ahead, the clock was wrong at that time, and the memory is dropped.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - handled: The last one that was dealt with; `nil` for a schedule that is new, for which nothing of the past
    ///     is made up.
    ///   - started: A slot whose run was tried in time but could not be enqueued yet: it is not late.
    /// - Returns: What is due, and when to look again.
    package func outlook(at now: Int64, handled: Slot?, started: Slot? = nil) -> Outlook {
        let today = day(at: now)
        let latest = latest(at: now)
        let before = latest?.slot ?? .end(of: today.adding(-1))
        var known = handled ?? before
        if !mayBePast(known, at: now) { known = before }
        var outlook = Outlook(handled: known, next: next(after: now, past: known)?.fire)
        guard let latest, latest.slot > known else { return outlook }
        if isOver(latest, at: now, started: started) {
            // Not dealt with: a clock that was wrong for a moment must not cost an occurrence.
            outlook.missed = latest
        } else {
            outlook.due = latest
            outlook.handled = latest.slot
        }
        return outlook
    }

    /// Whether an occurrence can have been dealt with; one more than a day ahead was by a clock that was wrong.
    package func mayBePast(_ slot: Slot, at now: Int64) -> Bool { slot.day <= day(at: now).adding(1) }

    /// Whether it is too late to start an occurrence.
    package func isOver(_ occurrence: Occurrence, at now: Int64, started: Slot? = nil) -> Bool {
        if let end = occurrence.end, now >= end { return true }
        return !timing.catchesUp && started != occurrence.slot && now >= occurrence.fire + Self.grace
    }

    /// The last occurrence whose time has come for this machine.
    package func latest(at now: Int64) -> Occurrence? {
        let today = day(at: now)
        for back in 0...Self.horizon {
            if let found = occurrences(on: today.adding(-back)).last(where: { $0.fire <= now }) { return found }
        }
        return nil
    }

    /// The first occurrence that begins for this machine after a moment, and that comes after `slot`.
    package func next(after now: Int64, past slot: Slot? = nil) -> Occurrence? {
        // One of yesterday may begin for this machine only now.
        var first = day(at: now).adding(-1)
        if let slot, slot.day > first { first = slot.day }
        for ahead in 0...Self.horizon {
            let found = occurrences(on: first.adding(ahead)).first { occurrence in
                occurrence.fire > now && slot.map { occurrence.slot > $0 } ?? true
            }
            if let found { return found }
        }
        return nil
    }

    private func day(at now: Int64) -> CivilDay { zone.local(floorDivision(now, 1_000).quotient).day }

    private func occurrences(on day: CivilDay) -> [Occurrence] { timing.occurrences(on: day, in: zone, delay: delay) }
}
