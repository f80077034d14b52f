package import SyncModel
import SyncSchedule

/// Finds windows on the wall clock of their zone, or of the machine where they name none.
///
/// A window begins when the clock first shows its minute, or where summer time leaves that out, when the clocks are put
/// forward; and lasts so many minutes, whatever the clock shows then.
@Sendable
package func wallClock(_ window: DailyWindow, _ now: Int64) -> WindowTimes? {
    // The only failure is a name that this machine does not know.
    guard window.isValid, let zone = try? Zone.of(window.timeZone) else { return nil }
    return times(of: window, at: now, in: zone)
}

/// The same in a zone that is given.
func times(of window: DailyWindow, at now: Int64, in zone: Zone) -> WindowTimes? {
    let length = Int64(window.lengthMinutes) * 60_000
    let today = zone.local(now / 1_000 - (now % 1_000 < 0 ? 1 : 0)).day
    // One that began the day before yesterday has ended: none is longer than a day. Some days do not exist.
    let begins = (Int64(-2)...3).map(today.adding).filter(zone.has).map { day in
        zone.first(Int64(window.startMinute) * 60, of: day) * 1_000
    }
    guard let next = begins.first(where: { $0 > now }) else { return nil }
    let end = begins.last { $0 <= now && now < $0 + length }.map { $0 + length }
    return WindowTimes(end: end, nextBegin: next)
}
