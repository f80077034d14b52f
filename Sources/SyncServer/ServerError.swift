package import SyncModel

/// Why a server does not come up.
package enum ServerError: Error, Sendable, Equatable {
    /// The directory to serve cannot be opened.
    case cannotOpen(directory: String, reason: String)
    /// The address cannot be listened on.
    case cannotListen(address: String, port: Int, reason: String)

    /// What the process should exit with.
    package var status: ExitStatus {
        switch self {
        case .cannotOpen: .noInput
        case .cannotListen: .unavailable
        }
    }

    /// One line for people.
    package var message: String {
        switch self {
        case .cannotOpen(let directory, let reason):
            "Cannot serve \(escaped(directory)): \(reason)."
        case .cannotListen(let address, let port, let reason):
            "Cannot listen on \(escaped(address)) port \(port): \(reason). Choose another with --port or --bind; "
                + "--port 0 takes any that is free."
        }
    }
}
