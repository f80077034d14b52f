package import SyncModel

/// A run to begin or to enqueue: everything about it that must outlive this process, in one transaction (S21, S64).
package struct RunStart: Sendable, Equatable {
    package var session: SessionRequest
    /// Unique for ever; its text order is the order of time.
    package var run: String
    /// Of the manifest's bytes. The manifest is the list of tasks: no row is written for each (S64).
    package var manifest: SHA256Digest
    /// What is asked for. Its manifest is the path or URL where it was found; each hook's group is one of ``groups``.
    package var recipe: RunRecipe
    /// What is known of the manifest.
    package var facts = ManifestFacts()
    /// Every group that will complete, `all` among them.
    package var groups: [String] = ["all"]
    /// To be finished by then, **milliseconds** since 1970 (S56).
    package var deadline: Int64?

    package init(session: SessionRequest, run: String, manifest: SHA256Digest, recipe: RunRecipe) {
        self.session = session
        self.run = run
        self.manifest = manifest
        self.recipe = recipe
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
