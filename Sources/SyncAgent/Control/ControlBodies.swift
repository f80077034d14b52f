public import SyncModel

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
        (self.code, self.message, self.exitStatus) = (code, message, exitStatus)
        self.cause = cause ?? FailureCause(exitStatus)
    }

    /// The message.
    public var description: String { message }
}

/// The body of every answer that is an error: `{"error":{"code":…,"message":…,"exit_status":…}}`, and the cause where the exit
/// status does not say it.
extension ControlError: Codable {
    private enum CodingKeys: String, CodingKey { case code, message, exitStatus, cause }

    /// Reads an error; a code that a newer agent has made up is `internal` here.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        let status = ExitStatus(rawValue: try values.decode(Int32.self, forKey: .exitStatus))
        self.init(
            Code(rawValue: try values.decode(String.self, forKey: .code)) ?? .internal,
            escaped(try values.decode(String.self, forKey: .message)), exitStatus: status ?? .internalError,
            cause: try values.decodeIfPresent(FailureCause.self, forKey: .cause))
    }

    /// Writes an error.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(code, forKey: .code)
        try values.encode(message, forKey: .message)
        try values.encode(exitStatus.rawValue, forKey: .exitStatus)
        if cause != FailureCause(exitStatus) { try values.encode(cause, forKey: .cause) }
    }

    /// The error that a body tells of; `nil` where it tells of none.
    package init?(body: [UInt8]) {
        guard let error = try? ControlJSON.decode([String: ControlError].self, from: body)["error"] else { return nil }
        self = error
    }
}

/// A run to enqueue: its recipe, and nothing else. `POST /v1/runs`.
public typealias EnqueueRequest = RunRecipe

extension RunRecipe {
    /// The keys of the body of `POST /v1/runs`.
    package static let keys = ControlKeys(
        of: RunRecipe(manifest: ""), required: ["manifest", "destination"],
        nested: [
            "hooks": ControlKeys(of: RunHook(arguments: []), required: ["arguments"]),
            "settings": ControlKeys(of: TransferSettings()), "atomic": ControlKeys(of: AtomicSwitch()),
            "configuration": ControlKeys(of: RunConfiguration(file: nil, hooks: [:]), required: ["hooks"]),
            "conditions": ControlKeys(
                of: RunConditions(),
                nested: ["window": windowKeys, "rates": ControlKeys(of: rate, nested: ["window": windowKeys])]),
        ], short: (["connections", "limit_rate"], "settings"))

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
        (self.session, self.run, self.isNew) = (session, run, isNew)
        (self.superseded, self.state, self.notBefore) = (superseded, state, notBefore)
    }
}
