package import SyncModel

/// A minute of a day on the wall clock; it identifies an occurrence, whatever the clocks do.
package struct Slot: Sendable, Hashable, Comparable {
    package let day: CivilDay
    /// **Minutes** after midnight, 0...1439.
    package let minute: Int

    package init(day: CivilDay, minute: Int) { (self.day, self.minute) = (day, minute) }

    /// The last slot of a day: everything on that day has been handled.
    package static func end(of day: CivilDay) -> Slot { Slot(day: day, minute: 1_439) }

    package static func < (a: Slot, b: Slot) -> Bool { (a.day, a.minute) < (b.day, b.minute) }
}

extension Slot: CustomStringConvertible {
    /// `2026-11-21 02:00`.
    package var description: String { "\(day) \(ScheduleTiming.time(minute))" }
}

/// One time at which a schedule runs. Instants are **milliseconds** since 1970.
package struct Occurrence: Sendable, Equatable {
    package let slot: Slot
    /// When it begins for all machines.
    package let begin: Int64
    /// When it begins for this machine: ``begin`` plus the machine's delay.
    package let fire: Int64
    /// When transfers stop; `nil` without a window.
    package let end: Int64?
    /// When everything should be in place; `nil` if there is no such time.
    package let readyBy: Int64?
    /// When readers may see it at the earliest; `nil` for as soon as it is complete.
    package var switchAt: Int64?
}

extension ScheduleTiming {
    /// The occurrences of a day, in order, no two at the same instant.
    ///
    /// - Parameters:
    ///   - day: The day.
    ///   - zone: The zone of the clock.
    ///   - delay: **Seconds** on the clock by which this machine begins later, see ``delay(machine:schedule:)``.
    /// - Returns: None on a day that the rule excludes, or that the zone does not have.
    package func occurrences(on day: CivilDay, in zone: Zone, delay: Int) -> [Occurrence] {
        guard recurrence.days.includes(day) else { return [] }
        let slots = recurrence.times.map { Slot(day: day, minute: $0) }
        // On nearly every day, the clocks do not change.
        if let offset = zone.steadyOffset(around: day) {
            return slots.map { slot in occurrence(slot, delay: delay) { $0 - offset } }
        }
        guard zone.has(day) else { return [] }
        var found: [Occurrence] = []
        for slot in slots {
            let next = occurrence(slot, in: zone, delay: delay)
            // Several times that a clock change skips, and the first one after it, are one occurrence.
            if found.last?.begin == next.begin { found.removeLast() }
            found.append(next)
        }
        return found
    }

    /// The occurrence of a slot, whether the rule includes it or not.
    package func occurrence(_ slot: Slot, in zone: Zone, delay: Int) -> Occurrence {
        occurrence(slot, delay: delay) { zone.first($0 - slot.day.number * 86_400, of: slot.day) }
    }

    /// - Parameter instant: The instant at which the clock shows so many **seconds** since 1970.
    private func occurrence(_ slot: Slot, delay: Int, _ instant: (Int64) -> Int64) -> Occurrence {
        let start = slot.day.number * 86_400 + Int64(slot.minute) * 60
        let begin = instant(start)
        let end = window.map { begin + Int64($0) * 60 }
        var fire = instant(start + Int64(delay))
        // If clocks are put back between the two, the delay must not exceed the window.
        if let end, fire >= end { fire = begin }
        let ready = readyBy.map { instant(start + Int64(untilReady($0)) * 60) * 1_000 }
        let shown = switchAt.map { instant(start + Int64(untilReady($0)) * 60) * 1_000 }
        return Occurrence(
            slot: slot, begin: begin * 1_000, fire: fire * 1_000, end: end.map { $0 * 1_000 },
            // After the window, nothing more is transferred.
            readyBy: ready.map { min($0, end.map { $0 * 1_000 } ?? .max) }, switchAt: shown)
    }
}
