import SyncSystem

/// Where an agent's socket and state are, by the rules of the XDG Base Directory Specification 0.8.
public struct AgentPlace: Sendable, Equatable {
    /// The socket of the control API, absolute.
    public let socketPath: String
    /// Sessions, events and cached manifests, absolute.
    public let stateDirectory: String

    /// Reads the place from environment variables: `XDG_RUNTIME_DIR`, `XDG_STATE_HOME`, `HOME`.
    ///
    /// - Parameter environment: The variables, such as `ProcessInfo.processInfo.environment`.
    /// - Returns: `nil` when there is neither a home nor a state directory.
    public init?(environment: [String: String]) {
        let directories = BaseDirectories { environment[$0] }
        guard let state = directories.state else { return nil }
        self.init(stateDirectory: state + "/syncagent", runtimeDirectory: directories.runtime)
    }

    /// Takes directories; without a runtime directory the socket is in the state directory.
    public init(stateDirectory: String, runtimeDirectory: String?) {
        self.stateDirectory = stateDirectory
        socketPath = (runtimeDirectory.map { $0 + "/syncagent" } ?? stateDirectory) + "/agent.sock"
    }
}
