public import SyncModel

/// The state of a session.
public struct SessionStatus: Sendable, Equatable, Codable {
    /// The session's name.
    public var session: String
    /// The project that the session syncs, as its manifests name it.
    public var project: String
    /// The destination, absolute.
    public var destination: String
    /// The client's own text.
    public var label: String?
    /// The open run's state, or `idle` if no run is open.
    public var state: SessionState
    /// Whether the open run is recorded as `running` although its process was killed.
    public var isInterrupted: Bool? = false
    /// Why the session waits or is paused.
    public var reason: RestReason?
    /// The end of the wait, if it is known.
    public var until: WallTime?
    /// When the wait for ``reason`` began.
    public var since: WallTime?
    /// The process that works on the session.
    public var holder: Int32?
    /// The open run, or else the latest one.
    public var run: RunStatus?
    /// Revisions that were rolled back and are not installed again before a newer one; `nil` for none.
    public var held: [HeldRevision]?
    /// Hooks that are owed or running.
    public var owedHooks: Int
    /// Failed hooks of the latest run, once the run has ended; `nil` for none.
    public var failedHooks: Int?
    /// How long the launch limiter delays the next run that a hook enqueues, in **seconds**.
    public var limiterDelaySeconds: Int64
    /// The number of the session's last event.
    public var lastSequence: Int64

    /// Creates a status; see the properties.
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

/// A revision that was installed and rolled back.
public struct HeldRevision: Sendable, Equatable, Codable {
    /// The revision of its manifest; 0 if it has none.
    public var revision: UInt64
    /// SHA-256 of its manifest, 64 hexadecimal digits.
    public var manifestSha256: String
    /// When it was rolled back.
    public var since: WallTime

    /// Creates a held revision; see the properties.
    public init(revision: UInt64, manifestSha256: String, since: WallTime) {
        (self.revision, self.manifestSha256, self.since) = (revision, manifestSha256, since)
    }
}

/// One run of a session.
public struct RunStatus: Sendable, Equatable, Codable {
    /// The progress of a running run; advisory.
    public struct Progress: Sendable, Equatable, Codable {
        /// The phase that the counts are of: in `looking`, existing data is hashed and counted. `nil` if unknown.
        public var phase: PullPhase?
        /// Files in place.
        public var filesDone: Int
        /// Files wanted.
        public var filesTotal: Int
        /// Raw **bytes** written.
        public var bytesDone: UInt64
        /// Raw **bytes** to write.
        public var bytesTotal: UInt64

        /// Creates a progress; see the properties.
        public init(phase: PullPhase? = nil, filesDone: Int, filesTotal: Int, bytesDone: UInt64, bytesTotal: UInt64) {
            (self.phase, self.filesDone, self.filesTotal) = (phase, filesDone, filesTotal)
            (self.bytesDone, self.bytesTotal) = (bytesDone, bytesTotal)
        }
    }

    /// The run's identifier, unique for ever; its text order is the order of time.
    public var run: String
    /// The manifest's path, or its URL without query and user.
    public var manifest: String
    /// SHA-256 of the manifest, 64 hexadecimal digits.
    public var manifestSha256: String
    /// The listing that the manifest was derived from; `nil` for a published manifest.
    public var source: SourceOrigin?
    /// The channel that the run follows; `nil` for the default one.
    public var channel: String?
    /// The requested revision; `nil` for the newest.
    public var revision: UInt64?
    /// The run's state.
    public var state: RunState
    /// As in ``SessionStatus/isInterrupted``.
    public var isInterrupted: Bool? = false
    /// Why the run waits, is paused or was given up.
    public var reason: RestReason?
    /// The last error, for people.
    public var error: String?
    /// The result, once the run has finished.
    public var result: RunResult?
    /// The exit status that a pull in the foreground would have had, once the run has finished.
    public var exitStatus: Int32?
    /// When the run was enqueued.
    public var created: WallTime
    /// When the run was first started.
    public var started: WallTime?
    /// When the run finished.
    public var finished: WallTime?
    /// The earliest start.
    public var notBefore: WallTime?
    /// When the run is given up.
    public var deadline: WallTime?
    /// Files by outcome, once the run has finished; while it runs, as far as known.
    public var files: FileCounts
    /// Bytes, as `files`.
    public var bytes: ByteCounts
    /// HTTP requests sent.
    public var requests: UInt64
    /// The progress, while the run is running.
    public var progress: Progress?
    /// Data that the client, or else the manifest, wants passed on.
    public var userData: JSONValue?
    /// How many **bytes** the client expects to be received.
    public var expectedBytes: UInt64?
    /// The umask for the run's files and directories.
    public var umask: Umask?
    /// The reasons why transfers wait at present, for people; at most ten lines.
    public var waits: [String]

    /// Creates a status; see the properties.
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
    /// The hook's number, for `hooks replay`.
    public var number: Int64
    /// The session of the hook.
    public var session: String
    /// The run whose group it waits for, or waited for.
    public var run: String
    /// The group.
    public var group: String
    /// argv.
    public var arguments: [String]
    /// Most files per call, for a hook that gets the changed files.
    public var batch: Int?
    /// The hook's state.
    public var state: HookRunState
    /// Attempts started so far.
    public var attempt: Int
    /// The earliest time of the next attempt.
    public var due: WallTime?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …
    public var ended: String?
    /// The end of the last attempt's output.
    public var output: String?
    /// When the last attempt began.
    public var started: WallTime?
    /// When the last attempt ended.
    public var finished: WallTime?

    /// Creates a status; see the properties.
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
