public import SyncModel

/// One hook of one run.
public struct HookStatus: Sendable, Equatable, Codable {
    /// Names it for `hooks replay`.
    public var number: Int64
    /// Whose it is.
    public var session: String
    /// The run whose group it waits for, or waited for.
    public var run: String
    /// The group.
    public var group: String
    /// argv.
    public var arguments: [String]
    /// Most files a call, for a hook that gets the files that changed.
    public var batch: Int?
    /// Where it is in its life.
    public var state: HookRunState
    /// Attempts begun so far.
    public var attempt: Int
    /// Not to be tried earlier.
    public var due: WallTime?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …
    public var ended: String?
    /// The end of what the last attempt wrote.
    public var output: String?
    /// When the last attempt began.
    public var started: WallTime?
    /// When the last attempt ended.
    public var finished: WallTime?

    /// Puts a status together; see the properties.
    public init(
        number: Int64,
        session: String,
        run: String,
        group: String,
        arguments: [String],
        batch: Int? = nil,
        state: HookRunState,
        attempt: Int,
        due: WallTime? = nil,
        ended: String? = nil,
        output: String? = nil,
        started: WallTime? = nil,
        finished: WallTime? = nil
    ) {
        self.number = number
        self.session = session
        self.run = run
        self.group = group
        self.arguments = arguments
        self.batch = batch
        self.state = state
        self.attempt = attempt
        self.due = due
        self.ended = ended
        self.output = output
        self.started = started
        self.finished = finished
    }
}
