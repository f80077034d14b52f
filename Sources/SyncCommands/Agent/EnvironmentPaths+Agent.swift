import CPosix
import Foundation
import SyncAgent
import SyncConditions
import SyncSystem

extension EnvironmentPaths {
    /// Where the agent's socket and state are.
    ///
    /// An agent that was started where there was no runtime directory, as by cron, is found where it listens.
    ///
    /// - Throws: ``CommandFailure`` with status 73 when there is no home directory.
    func agentPlace() throws(CommandFailure) -> AgentPlace {
        let place = AgentPlace(stateDirectory: try statePath(), runtimeDirectory: baseDirectories.runtime)
        let other = AgentPlace(stateDirectory: place.stateDirectory, runtimeDirectory: nil)
        guard place != other, access(place.socketPath, F_OK) != 0, Self.isListening(other.socketPath) else {
            return place
        }
        return other
    }

    /// Whether a process of this user takes connections at a Unix socket. unix(7)
    private static func isListening(_ path: String) -> Bool {
        var address = sockaddr_un()
        guard access(path, F_OK) == 0, path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            return false
        }
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        #if os(Linux)
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #else
            let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
        #endif
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
                    && peerUser(of: descriptor) == geteuid()
            }
        }
    }

    /// The run whose hook this process belongs to, if any.
    func hookRun() -> String? { lookup("SYNCAGENT_RUN_ID").flatMap { $0.isEmpty ? nil : $0 } }

    /// The group whose hook this process belongs to, if any.
    func hookGroup() -> String? { lookup("SYNCAGENT_GROUP").flatMap { $0.isEmpty ? nil : $0 } }

    /// The batch of files that this process's hook got, if any.
    func hookBatch() -> String? { lookup("SYNCAGENT_BATCH") }

    /// The destination of the run whose hook this process belongs to, if any.
    func hookDestination() -> String? { baseDirectories.path("SYNCAGENT_DESTINATION") }

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
