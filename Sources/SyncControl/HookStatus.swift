/// One hook of one run.
public struct HookStatus: Sendable, Equatable, Codable {
    /// Names it for `hooks replay`.
    public var number: Int64
    public var session: String
    public var run: String
    public var group: String
    /// argv.
    public var arguments: [String]
    /// `waiting`, `pending`, `running`, `done`, `failed`, `skipped`.
    public var state: String
    public var attempt: Int
    /// Not to be tried earlier.
    public var due: WallTime?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …
    public var ended: String?
    /// The end of what the last attempt wrote.
    public var output: String?
    public var started: WallTime?
    public var finished: WallTime?

    public init(
        number: Int64,
        session: String,
        run: String,
        group: String,
        arguments: [String],
        state: String,
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
        self.state = state
        self.attempt = attempt
        self.due = due
        self.ended = ended
        self.output = output
        self.started = started
        self.finished = finished
    }
}
