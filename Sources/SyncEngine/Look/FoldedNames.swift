import SyncFiles
import SyncManifest
import SyncModel

extension EngineEnvironment {
    /// Refuses a manifest with entries that would meet in a destination which takes `README` and `Readme` for one name:
    /// one of them would be lost, and each run would put the other in its place (F073, V13). Paths that are one after
    /// Unicode normalisation alone are in no manifest.
    ///
    /// The destination is asked first, since looking for such entries takes longer.
    ///
    /// - Throws: ``EngineError`` with status 73, which names some of them.
    func refuseMeetingNames(of manifest: Manifest, in destination: Destination) throws(EngineError) {
        guard foldsCase(destination) else { return }
        let collisions = manifest.caseCollisions()
        guard !collisions.isEmpty else { return }
        let files = manifest.files
        let shown = collisions.prefix(3).map {
            "\(escaped(files.path($0.first))) and \(escaped(files.path($0.second)))"
        }
        let more = collisions.count > shown.count ? ", and \(collisions.count - shown.count) more" : ""
        throw EngineError(
            .cannotCreate,
            "\(escaped(destination.path)) does not tell upper from lower case, and the manifest has names that would meet "
                + "there: \(shown.joined(separator: "; "))\(more). Nothing was changed; choose another filesystem with "
                + "--into, or have the set renamed"
        )
    }
}
