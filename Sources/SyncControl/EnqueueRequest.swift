public import SyncModel

/// A run to enqueue: everything that must outlive whoever asks for it. `POST /v1/runs`.
public struct EnqueueRequest: Sendable, Equatable, Codable {
    /// A program to run when a group is complete.
    public struct Hook: Sendable, Equatable, Codable {
        /// The group whose completion starts it.
        public var group: String
        /// argv, an absolute path first; never a shell string.
        public var arguments: [String]
        /// Most **seconds** it may run.
        public var timeout: Int
        /// The results it is wanted for (S39).
        public var results: [RunResult]
        /// Most files a call, 1...10,000, for a hook that gets the files that changed; `nil` for one call a group
        /// (S131).
        public var batch: Int?

        /// Makes a hook; by default it runs however the group ends.
        public init(
            group: String = "all",
            arguments: [String],
            timeout: Int = 600,
            results: [RunResult] = RunResult.allCases,
            batch: Int? = nil
        ) {
            self.group = group
            self.arguments = arguments
            self.timeout = timeout
            self.results = results
            self.batch = batch
        }
    }

    /// Who asks: work that a hook asks for is held back by the launch limiter (S50, S59).
    public enum Origin: String, Sendable, Codable {
        case interactive
        case hook
        case schedule
    }

    /// An absolute path, or an http(s) URL.
    public var manifest: String
    /// Where files go, absolute.
    public var destination: String
    /// The session's name; `nil` for the manifest's project.
    public var session: String?
    /// Only these groups; empty for all.
    public var groups: [String] = []
    /// Programs to run when groups are complete.
    public var hooks: [Hook] = []
    /// Most connections at a time; `nil` to adapt.
    public var connections: Int?
    /// Most body **bytes** a second; `nil` without limit.
    public var limitRate: UInt64?
    /// Remove files that an earlier pull installed and this manifest no longer has.
    public var prune: Bool = false
    /// Prune even if more than half of the installed files go.
    public var force: Bool = false
    /// Refuse to prune more files than this; `nil` without such a limit.
    public var maxDelete: Int?
    /// Where what is removed or replaced is kept, absolute; `nil` for nowhere.
    public var backupDir: String?
    /// Install a manifest whose revision is older than what is installed (V35); `nil` for no.
    public var allowOlder: Bool?
    /// Not to start earlier (S46).
    public var notBefore: WallTime?
    /// Longest time in **seconds** from the moment the run may start to its end; `nil` for 7 days (S56).
    public var deadlineSeconds: Int64?
    /// Enqueue only; `resume` starts it (S43).
    public var paused: Bool = false
    /// Who asks.
    public var origin: Origin = .interactive
    /// The run whose hook asks, where one does: its session's hooks are held back, too (S59).
    public var originRun: String?
    /// How transfers are made: the client's transfer settings as JSON text. Paths of files with secrets, never secrets.
    public var settings: String?
    /// Free text for people, at most 4 KiB (S67).
    public var label: String?
    /// Handed on to hooks, observers and reports as it is; at most 64 KiB as text.
    public var userData: JSONValue?
    /// How many **bytes** the client expects to come, to be shown.
    public var expectedBytes: UInt64?
    /// What must hold for it to be worked on (S49).
    public var conditions = RunConditions()

    /// Asks for all files of a manifest; see the properties.
    public init(manifest: String, destination: String) {
        self.manifest = manifest
        self.destination = destination
    }
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
