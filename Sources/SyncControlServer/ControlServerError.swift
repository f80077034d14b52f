package import SyncModel

/// Why the control API does not come up.
package enum ControlServerError: Error, Sendable, Equatable {
    /// A socket's path has at most 107 bytes, unix(7).
    case pathTooLong(String)
    /// The directory for the socket cannot be made or is not this user's.
    case badDirectory(path: String, reason: String)
    /// Something that is not a socket stands in the way.
    case inTheWay(path: String)
    case cannotListen(path: String, reason: String)

    /// What the process should exit with.
    package var status: ExitStatus {
        switch self {
        case .pathTooLong: .configuration
        case .badDirectory, .inTheWay, .cannotListen: .cannotCreate
        }
    }

    /// One line for people.
    package var message: String {
        switch self {
        case .pathTooLong(let path):
            "The socket's path is longer than 107 bytes: \(escaped(path)). Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, "
                + "to a shorter directory."
        case .badDirectory(let path, let reason):
            "Cannot use \(escaped(path)) for the socket: \(reason)."
        case .inTheWay(let path):
            "\(escaped(path)) is in the way: it is no socket. Move it elsewhere."
        case .cannotListen(let path, let reason):
            "Cannot listen on \(escaped(path)): \(reason)."
        }
    }
}
