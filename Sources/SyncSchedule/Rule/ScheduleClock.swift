import SyncModel

/// Determines what is due: the occurrences of one schedule on the clock of one machine. Pure.
package struct ScheduleClock: Sendable {
    package let timing: ScheduleTiming
    package let zone: Zone
    /// **Seconds** by which this machine begins later.
    package let delay: Int

    package init(_ timing: ScheduleTiming, zone: Zone, delay: Int) {
        (self.timing, self.zone, self.delay) = (timing, zone, delay)
    }

    /// The result of ``outlook(at:handled:started:)``.
    package struct Outlook: Sendable, Equatable {
        /// The occurrence that must start now.
        package var due: Occurrence?
        /// An occurrence that was missed and is not caught up: only logged, once.
        package var missed: Occurrence?
        /// The slot to record as handled once ``due`` has started.
        package var handled: Slot
        /// When the next one begins for this machine, in **milliseconds** since 1970; `nil` if there is none.
        package var next: Int64?
    }

    /// Longest time, in **milliseconds**, after its beginning at which an occurrence that is not caught up still
    /// starts: timers are not exact, and an agent may just be restarting.
    package static let grace: Int64 = 600_000

    /// Number of days searched in each direction: 29 February on a given weekday comes within 40 years.
    private static let horizon = Int64(14_700)

    /// Determines what is due now.
    ///
    /// An occurrence is due from its beginning on. Of several missed ones, only the last counts, and only while its
    /// window is open. A clock that was set back repeats nothing; if the recorded slot is more than a day ahead, the
    /// clock was wrong when it was recorded, and the record is ignored.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - handled: The last handled slot; `nil` for a new schedule, which catches up on nothing.
    ///   - started: A slot whose run was tried in time but could not be enqueued yet: it is not late.
    /// - Returns: What is due, and when to ask again.
    package func outlook(at now: Int64, handled: Slot?, started: Slot? = nil) -> Outlook {
        let today = day(at: now)
        let latest = latest(at: now)
        let before = latest?.slot ?? .end(of: today.adding(-1))
        var known = handled ?? before
        if !mayBePast(known, at: now) { known = before }
        var outlook = Outlook(handled: known, next: next(after: now, past: known)?.fire)
        guard let latest, latest.slot > known else { return outlook }
        if isOver(latest, at: now, started: started) {
            // Not marked as handled: a clock that was briefly wrong must not cost an occurrence.
            outlook.missed = latest
        } else {
            outlook.due = latest
            outlook.handled = latest.slot
        }
        return outlook
    }

    /// Whether an occurrence can have been handled; one more than a day ahead was recorded by a wrong clock.
    package func mayBePast(_ slot: Slot, at now: Int64) -> Bool { slot.day <= day(at: now).adding(1) }

    /// Whether it is too late to start an occurrence.
    package func isOver(_ occurrence: Occurrence, at now: Int64, started: Slot? = nil) -> Bool {
        if let end = occurrence.end, now >= end { return true }
        return !timing.catchesUp && started != occurrence.slot && now >= occurrence.fire + Self.grace
    }

    /// The last occurrence that has begun for this machine.
    package func latest(at now: Int64) -> Occurrence? {
        let today = day(at: now)
        for back in 0...Self.horizon {
            if let found = occurrences(on: today.adding(-back)).last(where: { $0.fire <= now }) { return found }
        }
        return nil
    }

    /// The first occurrence that begins for this machine after a moment and comes after `slot`.
    package func next(after now: Int64, past slot: Slot? = nil) -> Occurrence? {
        // Yesterday's occurrence may begin for this machine only now.
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
