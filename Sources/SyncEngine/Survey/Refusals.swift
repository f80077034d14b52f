import SyncFiles
import SyncManifest
import SyncModel
import SyncStore
import SyncSystem

/// Refuses a manifest that is older than the installed one, because of a server restored from a backup, a cache, or an
/// attacker.
///
/// The installed revision is the newer of two: that of the destination's index, and that of the session's last run that
/// placed something, wherever that was. A manifest without a revision has 0.
///
/// - Parameters:
///   - manifest: The manifest to install.
///   - index: The revision in the destination's index.
///   - session: The session's revision; see ``SyncStore/installedRevision(of:)``.
/// - Returns: The installed revision, if it is newer and that is allowed, or if it is the same with other content;
///   otherwise `nil`.
/// - Throws: ``EngineError`` with status 77 when it is older and that is not allowed.
func refuseOlder(_ manifest: Manifest, _ recipe: RunRecipe, index: StatIndex.Revision?, session: UInt64?)
    throws(EngineError) -> UInt64?
{
    let known = max(index?.number ?? 0, session ?? 0)
    if manifest.revision < known {
        guard recipe.allowOlder else {
            let own = manifest.revision == 0 ? "has no revision, and" : "has revision \(manifest.revision), which"
            // After a rollback, or in another destination, another revision is installed.
            let state = index?.number == known ? "is installed" : "was installed last"
            throw EngineError(
                .refused,
                "the manifest of \(escaped(manifest.project)) \(own) is older than revision \(known), which "
                    + "\(state); nothing was changed. If that is intended, add --allow-older", cause: .olderRevision)
        }
        return known
    }
    let isRepeated = known > 0 && index?.number == known && manifest.revision == known
    return isRepeated && index?.manifest != manifest.digest.firstWord ? known : nil
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
        _ = try refuseOlder(manifest, recipe, index: destination.flatMap(StatIndex.revision(in:)), session: session)
    }
}

extension EngineEnvironment {
    /// Refuses a manifest with entries that would collide in a destination that does not distinguish `README` from
    /// `Readme`: one would be lost, and each run would replace one by the other. Manifests contain no paths
    /// that are equal after Unicode normalisation alone.
    ///
    /// The destination is asked first, since searching for such entries takes longer.
    ///
    /// - Parameter folding: Directories below it that fold case, where the destination as a whole may not: ext4 has
    ///   this for each directory.
    /// - Throws: ``EngineError`` with status 73, which names some of them.
    func refuseMeetingNames(of manifest: Manifest, in destination: Destination, folding: [[UInt8]]? = nil)
        throws(EngineError)
    {
        let files = manifest.allPaths
        var collisions: [PathCollision]
        if let folding {
            guard !folding.isEmpty else { return }
            collisions = manifest.caseCollisions().filter { pair in
                [pair.first, pair.second].contains { row in
                    files.withPath(row) { path in folding.contains { isDirectory($0, above: path) } }
                }
            }
        } else {
            guard foldsCase(destination) else { return }
            collisions = manifest.caseCollisions()
        }
        guard !collisions.isEmpty else { return }
        let place = folding == nil ? escaped(destination.path) : "A directory in \(escaped(destination.path))"
        let shown = collisions.prefix(3).map {
            "\(escaped(files.path($0.first))) and \(escaped(files.path($0.second)))"
        }
        let more = collisions.count > shown.count ? ", and \(collisions.count - shown.count) more" : ""
        throw EngineError(
            .cannotCreate,
            "\(place) ignores case, and names in the manifest would collide "
                + "there: \(shown.joined(separator: "; "))\(more). Nothing was changed; choose a case-sensitive file system with "
                + "--into, or have the files renamed")
    }
}

extension Inventory {
    /// Adds directories that fold case, in ``PathOrder``, without those below a known one. More than 64 count as the
    /// whole destination.
    mutating func addFolding(_ found: [[UInt8]]) {
        for path in found where folding != [[]] {
            let isKnown = path.withUnsafeBufferPointer { path in
                folding.contains { isDirectory($0, above: path) || $0.elementsEqual(path) }
            }
            if !isKnown { folding = folding.count < 64 ? folding + [path] : [[]] }
        }
    }
}

/// - Parameter directory: Empty for the destination itself.
private func isDirectory(_ directory: [UInt8], above path: UnsafeBufferPointer<UInt8>) -> Bool {
    directory.isEmpty || path.count > directory.count && path[directory.count] == 0x2F && path.starts(with: directory)
}

// A manifest that places files in our own configuration or state would choose the hooks that run and the keys that
// count.
extension EngineEnvironment {
    /// The entries of the state directory that pulls depend on.
    private static let stateNames = ["syncagent.sqlite", "trust", "manifests"]

    /// Refuses a manifest that would place files in this program's configuration or state, or in the way to them.
    ///
    /// - Throws: ``EngineError`` with status 77.
    func refuseOwnPlaces(in manifest: Manifest, _ destination: Destination) throws(EngineError) {
        guard let root = realPath(destination.path) else { return }
        let state = realPath(stateDirectory) ?? stateDirectory
        let configuration = configurationDirectory.map { realPath($0) ?? $0 }
        for place in Self.stateNames.map({ "\(state)/\($0)" }) + [configuration].compactMap(\.self) {
            let prefix = root == "/" ? root : root + "/"
            let isInside = root == place || root.hasPrefix(place + "/")
            guard isInside || place.hasPrefix(prefix) && names(place.dropFirst(prefix.count), manifest.files) else {
                continue
            }
            throw EngineError(
                .refused,
                "\(escaped(place)) belongs to syncagent itself, and no manifest may put files there; choose another "
                    + "directory with --into")
        }
    }

    /// Whether a file is at a path or below it, or something that is no directory is above it.
    private func names(_ path: Substring, _ files: FileTable) -> Bool {
        let path = Array(path.utf8)
        return files.indices.contains { row in
            files.withPath(row) { file in
                if file.count < path.count {
                    return files.kind(row) != .directory && path[file.count] == 0x2F && path.starts(with: file)
                }
                return file.starts(with: path) && (file.count == path.count || file[path.count] == 0x2F)
            }
        }
    }
}
