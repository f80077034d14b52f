public import SyncModel

/// A session and what it is about.
public struct SessionStatus: Sendable, Equatable, Codable {
    /// The name it is known by.
    public var session: String
    /// The project that it syncs, as its manifests say.
    public var project: String
    /// Absolute.
    public var destination: String
    /// Free text, as it was given.
    public var label: String?
    /// `idle` when no run is open, else the open run's state.
    public var state: SessionState
    /// Whether the open run says `running` although no process works on it: its process was killed. `nil` from an agent of an
    /// earlier version.
    public var isInterrupted: Bool? = false
    /// Why it waits or is paused.
    public var reason: RestReason?
    /// Until when it waits, as far as that is known.
    public var until: WallTime?
    /// Since when it waits for ``reason``.
    public var since: WallTime?
    /// The process that works on it.
    public var holder: Int32?
    /// The open run, else the latest one.
    public var run: RunStatus?
    /// Revisions that were rolled back and do not come again before a newer one; `nil` for none.
    public var held: [HeldRevision]?
    /// Hooks that are owed or running.
    public var owedHooks: Int
    /// Hooks of the latest run that have failed, once it is over; `nil` for none.
    public var failedHooks: Int?
    /// How long the launch limiter holds back the next run that a hook asks for, in **seconds**.
    public var limiterDelaySeconds: Int64
    /// The number of its last event.
    public var lastSequence: Int64

    /// Puts a status together; see the properties.
    public init(
        session: String, project: String, destination: String, label: String? = nil, state: SessionState,
        reason: RestReason? = nil, until: WallTime? = nil, holder: Int32? = nil, run: RunStatus? = nil,
        owedHooks: Int = 0, limiterDelaySeconds: Int64 = 0, lastSequence: Int64 = 0
    ) {
        (self.session, self.project, self.destination) = (session, project, destination)
        (self.label, self.state, self.reason) = (label, state, reason)
        (self.until, self.holder, self.run) = (until, holder, run)
        (self.owedHooks, self.limiterDelaySeconds, self.lastSequence) = (owedHooks, limiterDelaySeconds, lastSequence)
    }
}

/// A revision that was shown and rolled back.
public struct HeldRevision: Sendable, Equatable, Codable {
    /// Of its manifest; 0 if it has none.
    public var revision: UInt64
    /// Of its manifest's bytes, 64 digits.
    public var manifestSha256: String
    /// When it was rolled back.
    public var since: WallTime

    /// See the properties.
    public init(revision: UInt64, manifestSha256: String, since: WallTime) {
        (self.revision, self.manifestSha256, self.since) = (revision, manifestSha256, since)
    }
}

/// One run of a session.
public struct RunStatus: Sendable, Equatable, Codable {
    /// How far a running run is; advisory.
    public struct Progress: Sendable, Equatable, Codable {
        /// What is counted: `looking` counts what is here already while it is hashed. `nil` from older agents.
        public var phase: PullPhase?
        /// Files in place.
        public var filesDone: Int
        /// Files wanted.
        public var filesTotal: Int
        /// Raw **bytes** written.
        public var bytesDone: UInt64
        /// Raw **bytes** to write.
        public var bytesTotal: UInt64

        /// Puts both counts together.
        public init(phase: PullPhase? = nil, filesDone: Int, filesTotal: Int, bytesDone: UInt64, bytesTotal: UInt64) {
            (self.phase, self.filesDone, self.filesTotal) = (phase, filesDone, filesTotal)
            (self.bytesDone, self.bytesTotal) = (bytesDone, bytesTotal)
        }
    }

    /// Unique for ever; its text order is the order of time.
    public var run: String
    /// A path, or a URL without query and userinfo.
    public var manifest: String
    /// Of the manifest's bytes, 64 digits.
    public var manifestSha256: String
    /// The listing that the manifest was derived from; `nil` for one that was published.
    public var source: SourceOrigin?
    /// The channel that it follows; `nil` for the default one.
    public var channel: String?
    /// The revision that was asked for; `nil` for the newest.
    public var revision: UInt64?
    /// Where it is in its life.
    public var state: RunState
    /// As in ``SessionStatus/isInterrupted``.
    public var isInterrupted: Bool? = false
    /// Why it waits, is paused or was given up.
    public var reason: RestReason?
    /// What went wrong last, for people.
    public var error: String?
    /// Once it has finished.
    public var result: RunResult?
    /// What a pull in the foreground would have exited with, once it has finished; `nil` when a program of an earlier
    /// version finished it.
    public var exitStatus: Int32?
    /// When it was asked for.
    public var created: WallTime
    /// When it was first taken up.
    public var started: WallTime?
    /// When its last group was complete.
    public var finished: WallTime?
    /// Not to start earlier.
    public var notBefore: WallTime?
    /// When it is given up.
    public var deadline: WallTime?
    /// Counted when it has finished, and while it runs as far as known.
    public var files: FileCounts
    /// As `files`.
    public var bytes: ByteCounts
    /// HTTP requests sent.
    public var requests: UInt64
    /// How far it is, while it runs.
    public var progress: Progress?
    /// What its client, or else its manifest, wants handed on.
    public var userData: JSONValue?
    /// How many **bytes** its client expects to come.
    public var expectedBytes: UInt64?
    /// What its files and directories are made without.
    public var umask: Umask?
    /// What transfers wait for at present, for people; at most ten lines.
    public var waits: [String]

    /// Puts a status together; see the properties.
    public init(
        run: String, manifest: String, manifestSha256: String, state: RunState, created: WallTime,
        files: FileCounts = FileCounts(), bytes: ByteCounts = ByteCounts(), requests: UInt64 = 0
    ) {
        (self.run, self.manifest, self.manifestSha256, self.state) = (run, manifest, manifestSha256, state)
        (self.created, self.files, self.bytes, self.requests) = (created, files, bytes, requests)
        waits = []
    }
}

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
    /// Attempts started so far.
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
        number: Int64, session: String, run: String, group: String, arguments: [String], batch: Int? = nil,
        state: HookRunState, attempt: Int, due: WallTime? = nil, ended: String? = nil, output: String? = nil,
        started: WallTime? = nil, finished: WallTime? = nil
    ) {
        (self.number, self.session, self.run, self.group) = (number, session, run, group)
        (self.arguments, self.batch, self.state, self.attempt) = (arguments, batch, state, attempt)
        (self.due, self.ended, self.output, self.started) = (due, ended, output, started)
        self.finished = finished
    }
}
