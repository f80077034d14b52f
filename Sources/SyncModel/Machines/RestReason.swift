/// The result of a run or of one of its groups, with the spelling of events, hooks, the store and the control API.
public enum RunResult: String, Sendable, CaseIterable, Codable {
    /// Everything is in place.
    case ok
    /// Some of it is in place.
    case partial
    /// Nothing could be fetched, or the run could not begin.
    case failed
}

/// The state of a session in the control API: the state of its open run, or `idle`.
public enum SessionState: String, Sendable, CaseIterable, Codable {
    /// No run is open.
    case idle
    /// A run may start as soon as it is eligible.
    case waiting
    /// A process works on it.
    case running
    /// A person stopped it.
    case paused

    /// The state of a session whose latest run is in this state; `idle` if there is none, or it has ended.
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

/// Why a run rests: it waits, is paused, or was cancelled. The raw value is used in the store and the control API;
/// every text is valid, because conditions, including those of plugins, have names of their own.
public enum RestReason: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// A person stopped it.
    case userStop
    /// The terminal of the command that worked on it has closed. SIGHUP
    case terminalClosed
    /// A person cancelled it.
    case userCancel
    /// The process that worked on it has ended, or released it.
    case agentRestart
    /// Its process was lost repeatedly.
    case quarantined
    /// A newer run of its session superseded it.
    case superseded
    /// Its conditions stopped it; which one is not known yet.
    case policy
    /// It must not start yet.
    case notBefore
    /// The limit of concurrent runs is reached.
    case queue
    /// The network, a server or the manifest cannot be reached.
    case connectivity
    /// Something failed and will be retried.
    case retry
    /// Another process holds the session.
    case sessionBusy
    /// Another process works in the destination.
    case destinationBusy
    /// The destination cannot be written, or the disk is full.
    case resources
    /// The store could not be read or written.
    case state
    /// Another error occurred.
    case error
    /// A condition that does not hold, by its name: `metered`, `window`, a plugin's.
    case condition(String)

    private static let known: [RestReason] = [
        .userStop, .terminalClosed, .userCancel, .agentRestart, .quarantined, .superseded, .policy, .notBefore, .queue,
        .connectivity, .retry, .sessionBusy, .destinationBusy, .resources, .state, .error,
    ]

    /// Never fails: an unknown value is a condition's name.
    public init(rawValue: String) { self = Self.known.first { $0.rawValue == rawValue } ?? .condition(rawValue) }

    /// The value in the store and the control API.
    public var rawValue: String { texts.value }

    /// A short text for people, in parentheses; a condition's name is unchanged and must be escaped.
    package var words: String { texts.words }

    private var texts: (value: String, words: String) {
        switch self {
        case .userStop: ("user_stop", "stopped by a person")
        case .terminalClosed: ("terminal_closed", "ended when its terminal closed")
        case .userCancel: ("user_cancel", "given up by a person")
        case .agentRestart: ("agent_restart", "its process has ended")
        case .quarantined: ("quarantined", "its process was lost repeatedly")
        case .superseded: ("superseded", "a newer run has taken its place")
        case .policy: ("policy", "stopped by its conditions")
        case .notBefore: ("not_before", "not to start yet")
        case .queue: ("queue", "other runs are at work")
        case .connectivity: ("connectivity", "connectivity")
        case .retry: ("retry", "to try again")
        case .sessionBusy: ("session_busy", "another process is using the session")
        case .destinationBusy: ("destination_busy", "another process is using the destination")
        case .resources: ("resources", "the destination cannot be written")
        case .state: ("state", "the state directory cannot be used")
        case .error: ("error", "after an error")
        case .condition(let name): (name, name)
        }
    }

    /// The raw value.
    public var description: String { rawValue }
}
