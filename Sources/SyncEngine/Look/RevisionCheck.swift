import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

/// Whether a manifest is older than what is here, because of a server restored from a backup, a cache, or an attacker
///.
///
/// The revision that is here is the newer of two: that of the destination's index, and that of the session's last run
/// that placed something, wherever that was. A manifest without a revision has 0.
struct RevisionCheck {
    /// What to report of a manifest that may be installed.
    enum Finding: Sendable, Equatable {
        /// It is older, and that is allowed.
        case older(than: UInt64)
        /// The same revision with other content.
        case repeated
    }

    /// - Parameters:
    ///   - manifest: What is to be installed.
    ///   - index: What the destination's index says.
    ///   - session: The session's revision; see ``SyncStore/installedRevision(of:)``.
    /// - Returns: `nil` where there is nothing to say.
    /// - Throws: ``EngineError`` with status 77 when it is older and that is not allowed.
    static func check(_ manifest: Manifest, index: StatIndex.Revision?, session: UInt64?, allowsOlder: Bool)
        throws(EngineError) -> Finding?
    {
        let known = max(index?.number ?? 0, session ?? 0)
        if manifest.revision < known {
            guard allowsOlder else {
                let own = manifest.revision == 0 ? "has no revision, and" : "has revision \(manifest.revision), which"
                throw EngineError(
                    .refused,
                    "the manifest of \(escaped(manifest.project)) \(own) is older than revision \(known), which is "
                        + "installed; nothing was changed. If that is intended, add --allow-older",
                    cause: .olderRevision)
            }
            return .older(than: known)
        }
        let isRepeated = known > 0 && index?.number == known && manifest.revision == known
        return isRepeated && index?.manifest != manifest.digest.firstWord ? .repeated : nil
    }
}

extension SyncStore {
    /// The revision of a session's last run that placed something; `nil` if none is recorded.
    func installedRevision(of session: String) throws(StoreError) -> UInt64? {
        for run in try runs(session: session) where run.result == .ok || run.result == .partial {
            if let revision = run.facts.revision { return revision }
        }
        return nil
    }
}

extension PullEngine {
    /// Checks a manifest before anything is recorded, against what can be read without locking the destination.
    func checkRevision(_ manifest: Manifest, _ recipe: RunRecipe) throws(EngineError) {
        let path = try Self.destinationPath(recipe, project: manifest.project)
        let session = try stored(environment.store.installedRevision(of: recipe.session ?? manifest.project))
        let destination = try Self.openIfPresent(path)
        _ = try RevisionCheck.check(
            manifest, index: destination.flatMap(StatIndex.revision(in:)), session: session,
            allowsOlder: recipe.allowOlder)
    }
}

extension PullRun {
    /// Refuses an older manifest, or reports that it was allowed.
    func checkRevision(_ manifest: Manifest, _ index: StatIndex) throws(EngineError) {
        let known = try stored(environment.store.installedRevision(of: session))
        let finding = try RevisionCheck.check(
            manifest, index: index.revision, session: known, allowsOlder: recipe.allowOlder)
        if let finding { journal.revision(manifest.revision, finding) }
    }
}
