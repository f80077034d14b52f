package import SyncModel
package import SyncPlugins
import SyncSystem

/// Where the built-in conditions get their values.
package struct MachinePlaces: Sendable {
    /// sysfs(5), power supplies.
    package var powerSupplies = "/sys/class/power_supply"
    /// proc_loadavg(5); if it does not exist, getloadavg(3) is used.
    package var loadAverage = "/proc/loadavg"
    /// proc_pid_task(5) of this process: its part in the load.
    package var ownThreads = "/proc/self/task"
    /// Processors of the machine that are online.
    package var cores = processorCount
    /// NetworkManager and logind.
    package var bus = SystemBus()

    package init() {}
}

/// The names of the built-in conditions.
package let builtInConditions = ["idle", "load", "metered", "power", "space", "window"]

/// Makes a built-in condition.
///
/// - Parameters:
///   - wanted: The conditions of the run; each condition reads its own part, and uses its default if it is unset.
///   - machine: Where it gets its values.
///   - blocked: Names of conditions that blocked at the last evaluation.
/// - Throws: ``/SyncPlugins/PluginError`` with code `unavailable` for an unknown name, with `refused` for an invalid
///   value.
package func builtInCondition(
    _ name: String, for wanted: RunConditions, on machine: MachinePlaces, blocked: Set<String> = []
) throws(PluginError) -> any Condition {
    switch name {
    case "power": return PowerCondition(root: machine.powerSupplies)
    case "metered": return MeteredCondition(budget: wanted.meteredBudget ?? 0, bus: machine.bus)
    case "load": return LoadCondition(limit: wanted.maximumLoad ?? 1, places: machine)
    case "idle": return IdleCondition(seconds: wanted.idleSeconds ?? 600, bus: machine.bus)
    case "space": return SpaceCondition(bytes: wanted.freeSpace ?? 0, wasBlocked: blocked.contains(name))
    case "window":
        let window = wanted.window ?? DailyWindow(startMinute: 0, lengthMinutes: 1_440)
        try checkWindow(window)
        return WindowCondition(window: window)
    default:
        throw PluginError(
            plugin: escaped(name), code: .unavailable,
            message: "there is no condition of this name; known: \(builtInConditions.joined(separator: ", "))")
    }
}

/// - Throws: ``/SyncPlugins/PluginError`` with code `refused` for an invalid part of the day.
func checkWindow(_ window: DailyWindow) throws(PluginError) {
    guard !window.isValid else { return }
    throw PluginError(
        plugin: "window", code: .refused, message: "a time range begins at minute 0 to 1439 and lasts 1 to 1440 minutes"
    )
}
