public import SyncModel

/// Why the agent did not carry out a command.
public struct ControlError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The code that programs can act on.
    public enum Code: String, Sendable, Codable, CaseIterable {
        case unknownSession = "unknown_session"
        case notFound = "not_found"
        /// Another process works on the session.
        case busy
        /// The life cycle does not allow the command; nothing was changed.
        case refused
        /// The request is invalid.
        case invalid
        /// The agent accepts no new work.
        case stopping
        /// No agent answers.
        case unreachable
        /// The command could not be carried out, because of the manifest, the destination or the state; see the exit
        /// status.
        case failed
        case `internal`
    }

    /// The code that programs can act on.
    public let code: Code
    /// One line for people: what, where, and what to do.
    public let message: String
    /// The exit status of a command that cannot continue.
    public let exitStatus: ExitStatus
    /// The kind of failure, which decides what to do about it.
    public let cause: FailureCause

    /// Creates an error; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    ///
    /// - Parameter cause: `nil` if it follows from the exit status.
    public init(_ code: Code, _ message: String, exitStatus: ExitStatus, cause: FailureCause? = nil) {
        (self.code, self.message, self.exitStatus) = (code, message, exitStatus)
        self.cause = cause ?? FailureCause(exitStatus)
    }

    /// The message.
    public var description: String { message }
}

/// The body of every error response: `{"error":{"code":…,"message":…,"exit_status":…}}`, with the cause if it does
/// not follow from the exit status.
extension ControlError: Codable {
    private enum CodingKeys: String, CodingKey { case code, message, exitStatus, cause }

    /// Decodes an error; the unknown code of a newer agent becomes `internal`.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        let status = ExitStatus(rawValue: try values.decode(Int32.self, forKey: .exitStatus))
        self.init(
            Code(rawValue: try values.decode(String.self, forKey: .code)) ?? .internal,
            escaped(try values.decode(String.self, forKey: .message)), exitStatus: status ?? .internalError,
            cause: try values.decodeIfPresent(FailureCause.self, forKey: .cause))
    }

    /// Encodes an error.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(code, forKey: .code)
        try values.encode(message, forKey: .message)
        try values.encode(exitStatus.rawValue, forKey: .exitStatus)
        if cause != FailureCause(exitStatus) { try values.encode(cause, forKey: .cause) }
    }

    /// The error in a response body; `nil` if the body has none.
    package init?(body: [UInt8]) {
        guard let error = try? [String: ControlError](answer: body)["error"] else { return nil }
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

/// The result of a request. The run is on disk before the reply is sent.
public struct EnqueueReply: Sendable, Equatable, Codable {
    /// The session's name. The manifest's project determines it if the request has none.
    public var session: String
    /// The run's identifier.
    public var run: String
    /// `false` if the same run was open already.
    public var isNew: Bool
    /// Open runs of the session that this one replaces.
    public var superseded: [String]
    /// As in ``RunStatus/state``.
    public var state: RunState
    /// When it may start, if not now.
    public var notBefore: WallTime?
    /// Warnings about the request, which is carried out all the same, one line each; `nil` for none.
    public var warnings: [String]?

    /// Creates a reply; see the properties.
    public init(session: String, run: String, isNew: Bool, superseded: [String], state: RunState, notBefore: WallTime?)
    {
        (self.session, self.run, self.isNew) = (session, run, isNew)
        (self.superseded, self.state, self.notBefore) = (superseded, state, notBefore)
    }
}
