import SyncModel
import SyncSystem

/// The system's D-Bus, for single properties of its services.
///
/// Queried through `busctl` (systemd) or, if that is missing, `dbus-send` (dbus): wherever there is such a bus, there
/// is one of the two. So nothing is linked or resident (libsystemd alone brings seven libraries), and killing the
/// program enforces the deadline, whatever the bus does: `--timeout` of both does not apply while they log in. Each
/// query costs about 8 ms of CPU. D-Bus Specification 0.41.
package struct SystemBus: Sendable {
    private let address: String?
    private let directories: [String]
    private let deadline: Duration

    /// - Parameters:
    ///   - address: As in `DBUS_SYSTEM_BUS_ADDRESS`; `nil` for the default.
    ///   - directories: The directories in which the programs are searched.
    ///   - deadline: For one query.
    package init(
        address: String? = nil,
        directories: [String] = ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"],
        deadline: Duration = .seconds(2)
    ) {
        (self.address, self.directories, self.deadline) = (address, directories, deadline)
    }

    /// The value of a numeric or Boolean (1 and 0) property; blocks.
    ///
    /// With `busctl`, a service that is not running is not started for the query.
    ///
    /// - Throws: ``/SyncSystem/FileError`` whose reason is for people.
    func number(_ name: String, of interface: String, service: String, path: String) throws(FileError) -> UInt64 {
        let start = ProgramStart(
            try arguments(name, interface, service, path),
            variables: ["LC_ALL=C"] + (address.map { ["DBUS_SYSTEM_BUS_ADDRESS=\($0)"] } ?? [])
        )
        let (end, output, _) = start.run(deadline: deadline)
        switch end {
        case .exited(0): break
        case .exited: throw failure(Self.complaint(output))
        case .signalled(let number): throw failure("the query was killed by signal \(number)")
        case .timedOut, .stopped, .silent, .overflowed:
            throw failure("no answer within \(deadline.components.seconds) s")
        case .unknown: throw failure("the exit status of the query is not known")
        case .notRun(let reason): throw failure("the query cannot be run: \(reason)")
        }
        guard let value = Self.value(output) else {
            throw failure("unexpected answer: \(Self.complaint(output))")
        }
        return value
    }

    private func arguments(_ name: String, _ interface: String, _ service: String, _ path: String) throws(FileError)
        -> [String]
    {
        let get = "org.freedesktop.DBus.Properties"
        if let busctl = program("busctl") {
            return [
                busctl, "--system", "--auto-start=no", "call", service, path, get, "Get", "ss",
                interface, name,
            ]
        }
        if let send = program("dbus-send") {
            return [
                send, "--system", "--print-reply=literal", "--dest=\(service)", path, "\(get).Get",
                "string:\(interface)", "string:\(name)",
            ]
        }
        throw failure("neither busctl (systemd) nor dbus-send (dbus) is installed")
    }

    private func failure(_ reason: String) -> FileError { FileError(step: "ask", path: "D-Bus", remark: reason) }

    private func program(_ name: String) -> String? {
        directories.lazy.map { "\($0)/\(name)" }.first { isPermitted(.execute, $0) }
    }

    /// Parses `v u 4` as printed by busctl(1), or `variant uint32 4` as printed by dbus-send(1).
    static func value(_ output: String) -> UInt64? {
        let words = output.split { $0 == " " || $0 == "\n" }
        guard words.count == 3, words[0] == "v" || words[0] == "variant" else { return nil }
        switch words[1] {
        case "b", "boolean": return words[2] == "true" ? 1 : words[2] == "false" ? 0 : nil
        case "u", "uint32", "t", "uint64": return UInt64(words[2])
        default: return nil
        }
    }

    /// The first line, safe to print and not too long.
    private static func complaint(_ output: String) -> String {
        let line = output.split(separator: "\n").first ?? "no output"
        return escaped(String(line.prefix(200)))
    }
}
