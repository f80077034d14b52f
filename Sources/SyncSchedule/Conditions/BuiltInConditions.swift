package import SyncModel
package import SyncPlugins
import SyncSystem

/// Where built-in conditions look.
package struct MachinePlaces: Sendable {
    /// sysfs(5), power supplies.
    package var powerSupplies = "/sys/class/power_supply"
    /// proc_loadavg(5); where it does not exist, getloadavg(3) is asked.
    package var loadAverage = "/proc/loadavg"
    /// proc_pid_task(5) of this process: our part in the load.
    package var ownThreads = "/proc/self/task"
    /// Processors of the machine that are on.
    package var cores = processorCount
    /// NetworkManager and logind.
    package var bus = SystemBus()
    package var clock: WindowClock = wallClock

    package init() {}
}

package struct ConditionSettings: Sendable {
    /// What must hold; each condition takes its own part, and its usual value where that says nothing.
    package var wanted: RunConditions
    package var machine: MachinePlaces
    /// Names of conditions that blocked when they were looked at last.
    package var blocked: Set<String>

    package init(_ wanted: RunConditions, on machine: MachinePlaces, blocked: Set<String> = []) {
        (self.wanted, self.machine, self.blocked) = (wanted, machine, blocked)
    }
}

package let builtInConditions: PluginRegistry<any Condition, ConditionSettings> = {
    var registry = PluginRegistry<any Condition, ConditionSettings>(.condition)
    registry.register("power") { .success(PowerCondition(root: $0.machine.powerSupplies)) }
    registry.register("metered") {
        .success(MeteredCondition(budget: $0.wanted.meteredBudget ?? 0, bus: $0.machine.bus))
    }
    registry.register("load") { .success(LoadCondition(limit: $0.wanted.maximumLoad ?? 1, places: $0.machine)) }
    registry.register("idle") { .success(IdleCondition(seconds: $0.wanted.idleSeconds ?? 600, bus: $0.machine.bus)) }
    registry.register("space") {
        .success(SpaceCondition(bytes: $0.wanted.freeSpace ?? 0, wasBlocked: $0.blocked.contains("space")))
    }
    registry.register("window") { settings in
        let window = settings.wanted.window ?? DailyWindow(startMinute: 0, lengthMinutes: 1_440)
        return Result { () throws(PluginError) in
            try checkWindow(window)
            return WindowCondition(window: window, clock: settings.machine.clock)
        }
    }
    return registry
}()

/// - Throws: ``/SyncPlugins/PluginError`` with code `refused` for a part of the day that is none.
func checkWindow(_ window: DailyWindow) throws(PluginError) {
    guard !window.isValid else { return }
    throw PluginError(
        plugin: "window", code: .refused, message: "a time range begins at minute 0 to 1439 and lasts 1 to 1440 minutes"
    )
}

/// The built-in conditions that a run asks for; those that say until when they block come first.
///
/// - Throws: ``/SyncPlugins/PluginError`` of one that cannot be made.
package func builtInConditions(for wanted: RunConditions, on machine: MachinePlaces, blocked: Set<String> = [])
    throws(PluginError) -> [any Condition]
{
    let names = [
        ("window", wanted.window != nil), ("space", wanted.freeSpace != nil), ("power", wanted.power),
        ("metered", wanted.meteredBudget != nil), ("idle", wanted.idleSeconds != nil),
        ("load", wanted.maximumLoad != nil),
    ]
    var conditions: [any Condition] = []
    let settings = ConditionSettings(wanted, on: machine, blocked: blocked)
    for (name, isWanted) in names where isWanted { conditions.append(try builtInConditions.make(name, settings)) }
    return conditions
}
