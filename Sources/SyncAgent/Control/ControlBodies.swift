public import SyncModel

/// `GET /v1/sessions`.
package struct SessionsAnswer: Sendable, Codable {
    package var sessions: [SessionStatus]

    package init(_ sessions: [SessionStatus]) { self.sessions = sessions }
}

/// `GET /v1/hooks`.
package struct HooksAnswer: Sendable, Codable {
    package var hooks: [HookStatus]

    package init(_ hooks: [HookStatus]) { self.hooks = hooks }
}

/// `POST /v1/agent/stop`.
package struct StopCommand: Sendable, Codable, ControlRequest {
    package var mode: AgentStop

    package init(_ mode: AgentStop) { self.mode = mode }

    package static let keys = ControlKeys(of: StopCommand(.pause))
}

/// `POST /v1/sessions/{id}/prioritize`.
package struct PriorityCommand: Sendable, Codable, ControlRequest {
    package var paths: [String]

    package init(_ paths: [String]) { self.paths = paths }

    package static let keys = ControlKeys(of: PriorityCommand([]))
}

/// The body of every answer that is an error.
package struct ErrorAnswer: Sendable, Codable {
    package struct Content: Sendable, Codable {
        package var code: String
        package var message: String
        package var exitStatus: Int32
        /// `nil` where the exit status says it, and from an older agent.
        package var cause: FailureCause?
    }

    package var error: Content

    package init(_ error: ControlError) {
        self.error = Content(
            code: error.code.rawValue, message: error.message, exitStatus: error.exitStatus.rawValue,
            cause: error.cause == FailureCause(error.exitStatus) ? nil : error.cause)
    }

    /// The error it tells of; a code that a newer agent has made up is `internal` here.
    package var value: ControlError {
        ControlError(
            ControlError.Code(rawValue: error.code) ?? .internal, escaped(error.message),
            exitStatus: ExitStatus(rawValue: error.exitStatus) ?? .internalError, cause: error.cause)
    }
}

/// Why the agent did not do what it was asked.
public struct ControlError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What a program can act on.
    public enum Code: String, Sendable, Codable, CaseIterable {
        case unknownSession = "unknown_session"
        case notFound = "not_found"
        /// Somebody else works on the session.
        case busy
        /// The life cycle does not allow it; nothing was changed.
        case refused
        /// The request makes no sense.
        case invalid
        /// The agent takes no new work.
        case stopping
        /// No agent answers.
        case unreachable
        /// What was asked for could not be done: manifest, destination, state; see the exit status.
        case failed
        case `internal`
    }

    /// What a program can act on.
    public let code: Code
    /// One line for people: what, where, what to do.
    public let message: String
    /// What a command that cannot go on exits with.
    public let exitStatus: ExitStatus
    /// What matters for what to do.
    public let cause: FailureCause

    /// Makes an error; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    ///
    /// - Parameter cause: `nil` where the exit status says it.
    public init(_ code: Code, _ message: String, exitStatus: ExitStatus, cause: FailureCause? = nil) {
        self.code = code
        self.message = message
        self.exitStatus = exitStatus
        self.cause = cause ?? FailureCause(exitStatus)
    }

    /// The message.
    public var description: String { message }
}

/// One line of an event stream: an event's JSON object, with its number first where it has one.
///
/// `{"seq":12,"event":"task.installed","time":…,"path":…}`; progress and notices of the stream itself have no `seq`.
public struct EventLine: Sendable, Equatable {
    /// The event's number in its session, from 1 without a gap; `nil` for what is not recorded.
    public let sequence: Int64?
    /// The whole line, one JSON object.
    public let text: String

    /// Takes a line of a stream.
    public init(_ text: String) {
        self.text = text
        let prefix = "{\"seq\":"
        guard text.hasPrefix(prefix) else {
            sequence = nil
            return
        }
        sequence = Int64(text.dropFirst(prefix.count).prefix { $0.isASCII && $0.isNumber })
    }

    /// Takes a recorded event: its number, and its JSON object as text.
    public init(sequence: Int64, event: String) {
        self.sequence = sequence
        let rest = event.dropFirst()
        text = "{\"seq\":\(sequence)" + (rest == "}" ? "}" : ",\(rest)")
    }

    /// Says that events up to this number are no longer kept, to a reader that has not seen them.
    public static func pruned(through sequence: Int64) -> EventLine {
        EventLine(JSONLine.event(.eventsPruned) { $0.field("through", sequence) }.text)
    }
}

/// A run to enqueue: its recipe, and nothing else. `POST /v1/runs`.
public typealias EnqueueRequest = RunRecipe

extension RunRecipe: ControlRequest {
    package static let keys = ControlKeys(
        of: RunRecipe(manifest: ""), required: ["manifest", "destination"],
        nested: [
            "hooks": ControlKeys(of: RunHook(arguments: []), required: ["arguments"]),
            "settings": ControlKeys(of: TransferSettings()),
            "configuration": ControlKeys(of: RunConfiguration(file: nil, hooks: [:]), required: ["hooks"]),
            "conditions": ControlKeys(
                of: RunConditions(),
                nested: ["window": windowKeys, "rates": ControlKeys(of: rate, nested: ["window": windowKeys])]),
        ])

    package static let short = (keys: ["connections", "limit_rate"], of: "settings")

    private static let rate = RateWindow(window: DailyWindow(startMinute: 0, lengthMinutes: 1), limit: nil)
    private static let windowKeys = ControlKeys(of: rate.window)
}

/// What became of a request. The run is on the disk before this is said.
public struct EnqueueReply: Sendable, Equatable, Codable {
    /// The session's name, which the manifest's project gives where the request gives none.
    public var session: String
    /// The run's identifier.
    public var run: String
    /// `false` when the very same run was open already.
    public var isNew: Bool
    /// Open runs of the session that this one replaces.
    public var superseded: [String]
    /// As in ``RunStatus/state``.
    public var state: RunState
    /// When it may start, if not now.
    public var notBefore: WallTime?
    /// What is odd about the request and does not keep it from being worked on, one line each; `nil` for nothing.
    public var warnings: [String]?

    /// Puts a reply together; see the properties.
    public init(session: String, run: String, isNew: Bool, superseded: [String], state: RunState, notBefore: WallTime?)
    {
        self.session = session
        self.run = run
        self.isNew = isNew
        self.superseded = superseded
        self.state = state
        self.notBefore = notBefore
    }
}
