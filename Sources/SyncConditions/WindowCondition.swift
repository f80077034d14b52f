package import SyncModel
package import SyncPlugins

/// What a clock on the wall makes of a part of every day.
package struct WindowTimes: Sendable, Equatable {
    /// When the occurrence that holds now ends, **milliseconds** since 1970; `nil` when none holds.
    package var end: Int64?
    /// When the next one begins, **milliseconds** since 1970.
    package var nextBegin: Int64

    /// See the properties.
    package init(end: Int64?, nextBegin: Int64) {
        self.end = end
        self.nextBegin = nextBegin
    }
}

/// Finds a window in time, now in **milliseconds** since 1970; `nil` for a window that makes no sense, or a time zone
/// that is not known here.
package typealias WindowClock = @Sendable (_ window: DailyWindow, _ now: Int64) -> WindowTimes?

/// At the right time of day (S49, S134).
package struct WindowCondition: Condition {
    package let name = "window"
    private let window: DailyWindow
    private let clock: WindowClock

    /// - Parameters:
    ///   - window: When it may run.
    ///   - clock: The calendar.
    package init(_ window: DailyWindow, clock: @escaping WindowClock) {
        self.window = window
        self.clock = clock
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        guard let times = clock(window, context.now) else {
            return .unknown(
                reason: "the time zone '\(escaped(window.timeZone ?? ""))' is not known on this machine"
            )
        }
        guard times.end == nil else { return .ok }
        return .blocked(reason: "outside its time of day, \(window.text)", until: times.nextBegin)
    }
}

extension DailyWindow {
    /// `22:00-06:00`, with the zone where it has one.
    package var text: String {
        let clock = { (minute: Int) in
            let (hour, rest) = (minute / 60 % 24, minute % 60)
            return (hour < 10 ? "0" : "") + "\(hour):" + (rest < 10 ? "0" : "") + "\(rest)"
        }
        return "\(clock(startMinute))-\(clock(startMinute + lengthMinutes))"
            + (timeZone.map { " " + escaped($0) } ?? "")
    }
}
