public import SyncModel

/// The agent itself. `GET /v1/agent`.
public struct AgentStatus: Sendable, Equatable, Codable {
    /// The program's version, Semantic Versioning 2.0.0.
    public var version: String
    /// Its process id.
    public var process: Int32
    /// When it started.
    public var started: WallTime
    /// Whether the agent accepts new work.
    public var state: AgentState
    /// The state directory, absolute.
    public var stateDirectory: String
    /// Runs in progress at present, without those that only call hooks.
    public var running: Int
    /// Most runs at a time.
    public var maximumRuns: Int
    /// Sessions in its state directory.
    public var sessions: Int
    /// Whether a client started the agent, so that it ends by itself when there is nothing left to do.
    public var onDemand: Bool

    /// Creates a status; see the properties.
    public init(
        version: String, process: Int32, started: WallTime, state: AgentState, stateDirectory: String, running: Int,
        maximumRuns: Int, sessions: Int, onDemand: Bool
    ) {
        (self.version, self.process, self.started) = (version, process, started)
        (self.state, self.stateDirectory, self.running) = (state, stateDirectory, running)
        (self.maximumRuns, self.sessions, self.onDemand) = (maximumRuns, sessions, onDemand)
    }
}

/// Whether an agent accepts new work.
public enum AgentState: String, Sendable, Codable {
    case running
    /// The agent ends as soon as its runs are at rest.
    case stopping
}

/// The treatment of unfinished runs by a stopping agent.
public enum AgentStop: String, Sendable, Codable, CaseIterable {
    /// A person stops the agent: the runs stay paused, `user_stop`, until somebody resumes them.
    case pause
    /// The system stops the agent: the runs continue when the next agent starts.
    case release
    /// Another agent takes over: like `release`, and new work is refused from here on.
    case handover
}
