import SyncPlugins
import SyncSystem

/// Nobody has used the machine for a while.
///
/// systemd-logind's `IdleHint` and `IdleSinceHint` (**microseconds** since 1970), org.freedesktop.login1(5): true when
/// every session is idle and no program inhibits idleness, also if there is no session. Desktops report idleness as
/// configured; a terminal counts as idle after logind's `IdleActionSec`, 30 minutes by default.
struct IdleCondition: Condition {
    let name = "idle"
    /// How long nobody must have used the machine, in **seconds**.
    let seconds: Int
    /// The bus of logind.
    let bus: SystemBus

    private func number(_ name: String) throws(FileError) -> UInt64 {
        try bus.number(
            name, of: "org.freedesktop.login1.Manager", service: "org.freedesktop.login1",
            path: "/org/freedesktop/login1")
    }

    func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        do throws(FileError) {
            let isIdle = try number("IdleHint") != 0
            let since = isIdle ? try number("IdleSinceHint") : 0
            return Self.judge(isIdle: isIdle, since: since, seconds: seconds, now: context.now)
        } catch { return .unknown(reason: "cannot tell whether somebody is using the machine: \(error.reason)") }
    }

    /// The rule, independent of the source of the values: `since` in **microseconds**, `now` in **milliseconds**.
    static func judge(isIdle: Bool, since: UInt64, seconds: Int, now: Int64) -> ConditionState {
        guard isIdle else { return .blocked(reason: "somebody is using the machine") }
        let begin = Int64(clamping: since / 1_000)
        let (length, isTooLong) = Int64(clamping: seconds).multipliedReportingOverflow(by: 1_000)
        let (due, overflow) = begin.addingReportingOverflow(isTooLong ? .max : length)
        guard !overflow, now < due else { return overflow ? .unknown(reason: "logind's clock is wrong") : .ok }
        let idle = max(0, now - begin) / 1_000
        return .blocked(reason: "somebody used the machine \(idle) s ago, and \(seconds) s are required", until: due)
    }
}
