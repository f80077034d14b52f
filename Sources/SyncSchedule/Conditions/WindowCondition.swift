package import SyncModel
import SyncPlugins

/// The occurrences of a daily window on the wall clock: when the current one ends, `nil` if none is open, and when the
/// next one begins. **Milliseconds** since 1970.
package typealias WindowTimes = (end: Int64?, nextBegin: Int64)

/// Finds a window's occurrences, with now in **milliseconds** since 1970; `nil` for an invalid window or a time zone
/// that this machine does not know.
package typealias WindowClock = @Sendable (_ window: DailyWindow, _ now: Int64) -> WindowTimes?

/// Within the time of day.
struct WindowCondition: Condition {
    let name = "window"
    /// When the run may proceed.
    let window: DailyWindow

    func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        guard let times = wallClock(window, context.now) else {
            return .unknown(reason: "the time zone '\(escaped(window.timeZone ?? ""))' is not known on this machine")
        }
        guard times.end == nil else { return .ok }
        return .blocked(reason: "outside its time of day, \(window.text)", until: times.nextBegin)
    }
}

extension DailyWindow {
    /// `22:00-06:00`, with days and zone where it has them.
    package var text: String {
        let times = "\(ScheduleTiming.time(startMinute))-\(ScheduleTiming.time(startMinute + lengthMinutes))"
        let names = days.map { $0.map(\.rawValue).joined(separator: ",") }
        return [names, times, timeZone.map { escaped($0) }].compactMap(\.self).joined(separator: " ")
    }
}

/// Finds windows on the wall clock of their zone, or of the machine if they name none.
///
/// A window begins when the clock first shows its minute or, if a clock change skips that, when the clocks are put
/// forward. It lasts its number of minutes, whatever the clock then shows.
@Sendable package func wallClock(_ window: DailyWindow, _ now: Int64) -> WindowTimes? {
    // The only failure is a name that this machine does not know.
    guard window.isValid, let zone = try? Zone.of(window.timeZone) else { return nil }
    return times(of: window, at: now, in: zone)
}

/// The same in a given zone.
func times(of window: DailyWindow, at now: Int64, in zone: Zone) -> WindowTimes? {
    let length = Int64(window.lengthMinutes) * 60_000
    let today = zone.local(now / 1_000 - (now % 1_000 < 0 ? 1 : 0)).day
    // One that began the day before yesterday has ended: none is longer than a day. Some days do not exist.
    let last: Int64 = window.days == nil ? 3 : 15
    let wanted = (-2...last).map(today.adding).filter { window.days?.contains($0.weekday) ?? true }
    let begins = wanted.filter(zone.has).map { day in
        zone.first(Int64(window.startMinute) * 60, of: day) * 1_000
    }
    guard let next = begins.first(where: { $0 > now }) else { return nil }
    let end = begins.last { $0 <= now && now < $0 + length }.map { $0 + length }
    return (end, next)
}

/// The current limit: of the first rate whose window is open, otherwise the usual one.
///
/// - Parameters:
///   - now: **Milliseconds** since 1970.
///   - rates: By time of day; one in an unknown time zone never applies.
///   - usual: Most body **bytes** a second otherwise; `nil` for no limit.
///   - clock: Finds the windows.
package func rate(at now: Int64, of rates: [RateWindow], usual: UInt64?, clock: WindowClock) -> UInt64? {
    let open = rates.first { clock($0.window, now)?.end != nil }
    return open.map(\.limit) ?? usual
}
