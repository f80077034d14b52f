package import SyncModel

/// A run to begin or to enqueue: everything about it that must outlive this process, in one transaction (S21, S64).
package struct RunStart: Sendable, Equatable {
    package var session: SessionRequest
    /// Unique for ever; its text order is the order of time.
    package var run: String
    /// Of the manifest's bytes. The manifest is the list of tasks: no row is written for each (S64).
    package var manifest: SHA256Digest
    /// The path or URL the manifest came from.
    package var location: String
    /// The groups asked for; empty for all.
    package var selection: [String] = []
    /// The other settings of the run, JSON, for whoever continues it.
    package var options = "{}"
    /// Every group that will complete, `all` among them.
    package var groups: [String] = ["all"]
    package var hooks: [PlannedHook] = []
    /// Not to start earlier, **milliseconds** since 1970 (S46).
    package var notBefore: Int64?
    /// To be finished by then, **milliseconds** since 1970 (S56).
    package var deadline: Int64?
    /// Who asks: `interactive`, `hook` or `schedule` (S50).
    package var origin = "interactive"
    /// How transfers are made, JSON, for whoever works on it later.
    package var settings: String?
    /// What must hold for it to be worked on, JSON; `nil` for nothing (S49).
    package var conditions: String?
    /// Whether it begins `paused`: it starts when somebody resumes it (S43).
    package var isPaused = false

    package init(session: SessionRequest, run: String, manifest: SHA256Digest, location: String) {
        self.session = session
        self.run = run
        self.manifest = manifest
        self.location = location
    }
}

/// A hook of a run, as it was decided when the run was enqueued (S21).
package struct PlannedHook: Sendable, Equatable {
    /// The group whose completion starts it; one of ``RunStart/groups``.
    package var group: String
    /// argv, an absolute path first.
    package var arguments: [String]
    /// Most **seconds** it may run.
    package var timeout: Int
    /// The results it is wanted for (S39).
    package var results: Set<RunResult>
    /// Most files a call, for a hook that gets the files that changed; `nil` for one call a group (S131).
    package var batch: Int?

    package init(
        group: String,
        arguments: [String],
        timeout: Int = 600,
        results: Set<RunResult> = Set(RunResult.allCases),
        batch: Int? = nil
    ) {
        self.group = group
        self.arguments = arguments
        self.timeout = timeout
        self.results = results
        self.batch = batch
    }
}

/// What beginning a run did.
package struct BegunRun: Sendable, Equatable {
    package let session: StoredSession
    package let arrival: SessionArrival
    /// Earlier runs of the session that this one replaces. Their hooks whose group is complete are still owed.
    package let superseded: [String]
    /// The run to work on: the one that was asked for, or the open one that was the same already.
    package let run: StoredRun
    /// Whether an open run was the same already and goes on.
    package let isContinued: Bool
}
