package import SyncModel

/// What one pull is asked to do. Everything is decided before it starts; nothing is read from the environment.
package struct PullOptions: Sendable {
    /// A path, or an http(s) URL.
    package var manifest: String
    /// Whether the manifest of a recorded run came from a public address; `nil` when nobody knows.
    package var manifestIsPublic: Bool?
    /// Where files go; `nil` for `./<project>`.
    package var destination: String?
    /// The session's identifier; `nil` for the manifest's project.
    package var session: String?
    /// Only these groups; empty for all.
    package var groups: [String] = []
    /// Programs to run when groups are complete, argv each: absolute path first.
    package var hooks: [HookSpecification] = []
    /// What the names of hooks in a manifest stand for here; their `group` is ignored.
    package var namedHooks: [String: HookSpecification] = [:]
    /// Connections that somebody asks for, 1...64; `nil` when they adapt. The transport has limits of its own.
    package var connections: Int?
    /// Connections that the plan counts with. Four where they adapt: spans long enough that 512 MiB take few requests,
    /// also after tails were split.
    package var plannedConnections: Int { connections ?? 4 }
    /// Most body **bytes** a second; `nil` without limit.
    package var rateLimit: UInt64?
    /// Remove files that an earlier pull installed and this manifest no longer has.
    package var prune = false
    /// Prune even if more than half of the installed files go.
    package var force = false
    /// Refuse to prune more files than this, ``force`` or not; `nil` without such a limit.
    package var maximumRemovals: Int?
    /// Where what is removed or replaced is kept, absolute; `nil` for nowhere.
    package var backupDirectory: String?
    /// Install a manifest that is older than what is installed.
    package var allowOlder = false
    /// Whether those who are believed have signed the manifest, once it has been found.
    var isSigned = false
    /// What whoever asks wants handed on to hooks, observers and reports: JSON text on one line, at most
    /// ``longestUserData`` **bytes**.
    package var userData: String?
    /// How many **bytes** whoever asks expects to come, to be shown; `nil` for what the plan says.
    package var expectedBytes: UInt64?

    /// What ``userData`` may have.
    package static let longestUserData = 64 << 10
    /// The manifest's revision, once it has been read; 0 when it has none.
    var revision: UInt64?
    /// Plan and print, fetch nothing, create nothing.
    package var dryRun = false
    /// What only matters to a run that is enqueued.
    package var terms = RunTerms()
    /// Paths that are wanted before all others.
    package var firstPaths: [String] = []
    /// Where sessions, events and cached manifests are kept, absolute.
    package var stateDirectory: String

    package init(manifest: String, stateDirectory: String) {
        self.manifest = manifest
        self.stateDirectory = stateDirectory
    }

    /// Takes over what is known of a manifest that was found.
    mutating func note(_ found: FoundManifest) {
        guard let release = found.release else { return }
        isSigned = true
        // Who signs now says which numbers count; a thief's were higher.
        allowOlder = allowOlder || release.mayBeOlder
    }
}

/// A program to run when a group is complete.
package struct HookSpecification: Sendable, Hashable {
    /// The group whose completion starts it.
    package var group: String
    /// argv: an absolute path first.
    package var arguments: [String]
    /// Most **seconds** it may run.
    package var timeout: Int
    /// The results it is wanted for: `ok`, `partial`, `failed` (S39).
    package var results: Set<RunResult>
    /// Most files a call, for a hook that gets the files that changed; `nil` for one call a group (S131).
    package var batch: Int?

    /// What ``batch`` may be.
    package static let batches = 1...10_000

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

/// When and how an enqueued run is worked on.
package struct RunTerms: Sendable, Equatable {
    /// Not to start earlier, **milliseconds** since 1970 (S46).
    package var notBefore: Int64?
    /// Longest time from the moment it may start to its end (S56).
    package var deadline: Duration = .seconds(7 * 86_400)
    /// Who asks: `interactive`, `hook` or `schedule` (S50).
    package var origin = "interactive"
    /// How transfers are made, JSON, for whoever works on it.
    package var settings: String?
    /// Free text for people (S67).
    package var label: String?
    /// What must hold for it to be worked on, JSON (S49); `nil` for nothing.
    package var conditions: String?
    /// Whether it begins paused (S43).
    package var isPaused = false

    package init() {}
}
