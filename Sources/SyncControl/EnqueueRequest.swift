public import SyncModel

/// A run to enqueue: its recipe, and nothing else. `POST /v1/runs`.
public typealias EnqueueRequest = RunRecipe

extension RunRecipe: ControlRequest {
    package static let keys = ControlKeys(
        of: RunRecipe(manifest: ""),
        required: ["manifest", "destination"],
        nested: [
            "hooks": ControlKeys(of: RunHook(arguments: []), required: ["arguments"]),
            "conditions": ControlKeys(
                of: RunConditions(),
                nested: [
                    "window": windowKeys, "rates": ControlKeys(of: rate, nested: ["window": windowKeys]),
                ]
            ),
        ]
    )

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
    public init(
        session: String,
        run: String,
        isNew: Bool,
        superseded: [String],
        state: RunState,
        notBefore: WallTime?
    ) {
        self.session = session
        self.run = run
        self.isNew = isNew
        self.superseded = superseded
        self.state = state
        self.notBefore = notBefore
    }
}
