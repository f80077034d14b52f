/// What a run, or a group of one, came to. The spelling is that of events, hooks, the store and the control API.
public enum RunResult: String, Sendable, CaseIterable, Codable {
    /// Everything is in place.
    case ok
    /// Some of it is.
    case partial
    /// Nothing could be brought, or the run could not begin.
    case failed
}

/// What a session is at, as the control API says it: the state of its open run, or `idle`.
public enum SessionState: String, Sendable, CaseIterable, Codable {
    /// No run is open.
    case idle
    /// A run may start as soon as it is eligible.
    case waiting
    /// A process works on it.
    case running
    /// Somebody stopped it.
    case paused

    /// Of a session whose open run is in this state; `idle` for none, or one that is over.
    package init(_ run: RunState?) {
        self =
            switch run {
            case .waiting: .waiting
            case .running: .running
            case .paused: .paused
            case .finished, .cancelled, .superseded, nil: .idle
            }
    }
}

/// Why a run rests: waits, is paused, or was given up. The raw value is what the store and the control API
/// have; every text has a meaning, since conditions, those of plugins too, are named by whoever wrote them.
public enum RestReason: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// A person stopped it.
    case userStop
    /// The terminal of the command that worked on it has closed. SIGHUP
    case terminalClosed
    /// A person gave it up.
    case userCancel
    /// The process that worked on it has ended, or gave it back.
    case agentRestart
    /// Its process was lost again and again.
    case quarantined
    /// A newer run of its session took its place.
    case superseded
    /// Its conditions stopped it, before it is known which.
    case policy
    /// It is not to start yet.
    case notBefore
    /// As many runs are at work as may be.
    case queue
    /// The network, a server or the manifest cannot be reached.
    case connectivity
    /// Something failed and is tried again.
    case retry
    /// Another process holds the session.
    case sessionBusy
    /// Another process works in the destination.
    case destinationBusy
    /// The destination cannot be written, or the disk is full.
    case resources
    /// The store could not be read or written.
    case state
    /// Something else went wrong.
    case error
    /// A condition does not hold, by its name: `metered`, `window`, a plugin's.
    case condition(String)

    private static let known: [RestReason] = [
        .userStop, .terminalClosed, .userCancel, .agentRestart, .quarantined, .superseded, .policy, .notBefore, .queue,
        .connectivity, .retry, .sessionBusy, .destinationBusy, .resources, .state, .error,
    ]

    /// Never fails: what has no meaning here is a condition's name.
    public init(rawValue: String) { self = Self.known.first { $0.rawValue == rawValue } ?? .condition(rawValue) }

    /// As the store and the control API have it.
    public var rawValue: String {
        switch self {
        case .userStop: "user_stop"
        case .terminalClosed: "terminal_closed"
        case .userCancel: "user_cancel"
        case .agentRestart: "agent_restart"
        case .quarantined: "quarantined"
        case .superseded: "superseded"
        case .policy: "policy"
        case .notBefore: "not_before"
        case .queue: "queue"
        case .connectivity: "connectivity"
        case .retry: "retry"
        case .sessionBusy: "session_busy"
        case .destinationBusy: "destination_busy"
        case .resources: "resources"
        case .state: "state"
        case .error: "error"
        case .condition(let name): name
        }
    }

    /// For people, in a few words that stand in parentheses; a condition's name as it is, to be escaped.
    package var words: String {
        switch self {
        case .userStop: "stopped by a person"
        case .terminalClosed: "ended when its terminal closed"
        case .userCancel: "given up by a person"
        case .agentRestart: "its process has ended"
        case .quarantined: "its process was lost repeatedly"
        case .superseded: "a newer run has taken its place"
        case .policy: "stopped by its conditions"
        case .notBefore: "not to start yet"
        case .queue: "other runs are at work"
        case .connectivity: "connectivity"
        case .retry: "to try again"
        case .sessionBusy: "another process is using the session"
        case .destinationBusy: "another process is using the destination"
        case .resources: "the destination cannot be written"
        case .state: "the state directory cannot be used"
        case .error: "after an error"
        case .condition(let name): name
        }
    }

    /// The raw value.
    public var description: String { rawValue }
}
