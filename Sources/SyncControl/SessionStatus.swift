/// A session and what it is about.
public struct SessionStatus: Sendable, Equatable, Codable {
    public var session: String
    public var project: String
    /// Absolute.
    public var destination: String
    public var label: String?
    /// `idle` when no run is open, else the open run's state: `waiting`, `running`, `paused`.
    public var state: String
    /// Why it waits or is paused, for people: `user_stop`, `connectivity`, `not_before` … (S27, S53).
    public var reason: String?
    /// Until when it waits, as far as that is known (S53).
    public var until: WallTime?
    /// The process that works on it.
    public var holder: Int32?
    /// The open run, else the latest one.
    public var run: RunStatus?
    /// Hooks that are owed or running.
    public var owedHooks: Int
    /// How long the launch limiter holds back the next run that a hook asks for, in **seconds** (S59).
    public var limiterDelaySeconds: Int64
    /// The number of its last event.
    public var lastSequence: Int64

    public init(
        session: String,
        project: String,
        destination: String,
        label: String? = nil,
        state: String,
        reason: String? = nil,
        until: WallTime? = nil,
        holder: Int32? = nil,
        run: RunStatus? = nil,
        owedHooks: Int = 0,
        limiterDelaySeconds: Int64 = 0,
        lastSequence: Int64 = 0
    ) {
        self.session = session
        self.project = project
        self.destination = destination
        self.label = label
        self.state = state
        self.reason = reason
        self.until = until
        self.holder = holder
        self.run = run
        self.owedHooks = owedHooks
        self.limiterDelaySeconds = limiterDelaySeconds
        self.lastSequence = lastSequence
    }
}

/// One run of a session.
public struct RunStatus: Sendable, Equatable, Codable {
    /// The numbers of the contract's last line.
    public struct Files: Sendable, Equatable, Codable {
        public var total = 0
        public var installed = 0
        public var unchanged = 0
        public var reused = 0
        public var removed = 0
        public var failed = 0

        public init() {}
    }

    /// **Bytes**.
    public struct Bytes: Sendable, Equatable, Codable {
        public var total: UInt64 = 0
        public var received: UInt64 = 0
        public var reused: UInt64 = 0

        public init() {}
    }

    /// How far a running run is; advisory (S116).
    public struct Progress: Sendable, Equatable, Codable {
        public var filesDone: Int
        public var filesTotal: Int
        public var bytesDone: UInt64
        public var bytesTotal: UInt64

        public init(filesDone: Int, filesTotal: Int, bytesDone: UInt64, bytesTotal: UInt64) {
            self.filesDone = filesDone
            self.filesTotal = filesTotal
            self.bytesDone = bytesDone
            self.bytesTotal = bytesTotal
        }
    }

    public var run: String
    /// A path, or a URL without query and userinfo.
    public var manifest: String
    public var manifestSha256: String
    /// `waiting`, `running`, `paused`, `finished`, `cancelled`, `superseded`.
    public var state: String
    public var reason: String?
    /// What went wrong last, for people.
    public var error: String?
    /// `ok`, `partial` or `failed`, once it has finished.
    public var result: String?
    public var created: WallTime
    public var started: WallTime?
    public var finished: WallTime?
    public var notBefore: WallTime?
    /// When it is given up (S56).
    public var deadline: WallTime?
    public var files: Files
    public var bytes: Bytes
    public var requests: UInt64
    public var progress: Progress?
    /// What transfers wait for at present, for people; at most ten lines.
    public var waits: [String]

    public init(
        run: String,
        manifest: String,
        manifestSha256: String,
        state: String,
        created: WallTime,
        files: Files = Files(),
        bytes: Bytes = Bytes(),
        requests: UInt64 = 0
    ) {
        self.run = run
        self.manifest = manifest
        self.manifestSha256 = manifestSha256
        self.state = state
        self.created = created
        self.files = files
        self.bytes = bytes
        self.requests = requests
        waits = []
    }
}
