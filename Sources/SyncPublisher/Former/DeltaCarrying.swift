import SyncManifest
import SyncModel

/// The base's deltas, when every file is as the base has it: publishing again what is published changes nothing.
///
/// Otherwise deltas are made anew, from the base to this revision; older ones would let the manifest grow.
struct DeltaCarrying {
    /// By index in the tree, their packs counted as in the base.
    private(set) var deltas: [Int: [Delta]] = [:]

    init(_ tree: SourceTree, _ ledger: Ledger, _ places: [Catalogue.Place], _ base: BaseSet?) {
        guard let base, base.manifest.files.count == tree.count else { return }
        let files = base.manifest.files
        var found: [Int: [Delta]] = [:]
        // Both stand in path order.
        for index in tree.entries.indices {
            let isSame = tree.withPath(index) { path in files.withPath(index) { $0.elementsEqual(path) } }
            guard isSame, (files.kind(index) == .link) == (tree.entries[index].kind == .link) else { return }
            guard files.kind(index) != .link else { continue }
            let blobs = ledger.blobs(index)
            let digest =
                ledger.digests[index] ?? blobs.first.map { places[Int($0)].digest }
                ?? ManifestEntries.digestOfNothing
            guard digest == files.digest(index) else { return }
            let kept = files.deltas(index).filter { base.usable[Int($0.pack)] && Int($0.blob) < blobs.count }
            if !kept.isEmpty { found[index] = Array(kept) }
        }
        deltas = found
    }
}
