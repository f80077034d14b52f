import SyncAgent
import SyncConditions

extension EnvironmentPaths {
    /// `$XDG_RUNTIME_DIR`; `nil` without one, and for a relative one, as the XDG specification says.
    func runtimeDirectory() -> String? { lookup("XDG_RUNTIME_DIR").flatMap { $0.hasPrefix("/") ? $0 : nil } }

    /// Where the agent's socket and state are.
    ///
    /// - Throws: ``CommandFailure`` with status 73 when there is no home directory.
    func agentPlace() throws(CommandFailure) -> AgentPlace {
        AgentPlace(stateDirectory: try stateDirectory(), runtimeDirectory: runtimeDirectory())
    }

    /// The run whose hook this process belongs to, if any.
    func hookRun() -> String? { lookup("SYNCAGENT_RUN_ID").flatMap { $0.isEmpty ? nil : $0 } }

    /// The group whose hook this process belongs to, if any.
    func hookGroup() -> String? { lookup("SYNCAGENT_GROUP").flatMap { $0.isEmpty ? nil : $0 } }

    /// The destination of the run whose hook this process belongs to, if any.
    func hookDestination() -> String? {
        lookup("SYNCAGENT_DESTINATION").flatMap { $0.hasPrefix("/") ? $0 : nil }
    }

    /// Where conditions look: the system's bus is elsewhere where `DBUS_SYSTEM_BUS_ADDRESS` says so.
    var machinePlaces: MachinePlaces {
        var places = MachinePlaces()
        places.bus = SystemBus(address: lookup("DBUS_SYSTEM_BUS_ADDRESS"))
        return places
    }

    /// Where systemd listens. sd_notify(3)
    func notifySocket() -> String? { lookup("NOTIFY_SOCKET") }

    /// How often systemd's watchdog wants to hear from `process`, in **microseconds**. sd_watchdog_enabled(3)
    func watchdogMicroseconds(process: Int32) -> Int64? {
        if let owner = lookup("WATCHDOG_PID"), owner != String(process) { return nil }
        return lookup("WATCHDOG_USEC").flatMap { Int64($0) }.flatMap { $0 >= 2 ? $0 : nil }
    }
}
