import SyncManifest
import SyncModel

/// Writes the entries of a tree, for a manifest or its parts.
struct ManifestEntries {
    let tree: SourceTree
    let ledger: Ledger
    let places: [Catalogue.Entry]
    /// By index in the tree; packs counted as in the catalogue.
    let deltas: [Int: [Delta]]
    /// The URLs of loose files, best first: each ends in `/`, and a file's path is appended. A relative one resolves
    /// against the manifest's own, and the empty one is the manifest's directory.
    let prefixes: [String]

    /// The digest of a file; `nil` for a link.
    func digest(of index: Int) -> SHA256Digest? {
        guard tree.entries[index].kind != .link else { return nil }
        if let digest = ledger.digests[index] { return digest }
        return ledger.blobs(index).first.map { places[Int($0)].digest } ?? .ofNothing
    }

    /// Writes one entry.
    ///
    /// - Parameter number: The number that the text gives to a pack of the catalogue.
    func write(_ index: Int, to writer: inout ManifestWriter, number: (UInt32) -> UInt32?) throws(PublishError) {
        let entry = tree.entries[index]
        if let target = tree.linkTargets[index] {
            target.withUnsafeBufferPointer { target in
                tree.withPath(index) { writer.link(path: $0, target: target, traits: tree.traits(index)) }
            }
            return
        }
        var blobs: [(blob: Blob, digest: SHA256Digest)] = []
        for blob in ledger.blobs(index) {
            let place = places[Int(blob)]
            guard let pack = number(place.pack) else { throw .bug("a file needs a dropped pack") }
            let blob = Blob(
                pack: pack, codec: place.codec, offset: place.offset, storedLength: UInt64(place.storedLength),
                rawLength: UInt64(place.rawLength))
            blobs.append((blob, place.digest))
        }
        let deltas = (deltas[index] ?? []).compactMap { delta -> Delta? in
            var delta = delta
            guard let pack = number(delta.pack) else { return nil }
            delta.pack = pack
            return delta
        }
        let digest = digest(of: index) ?? .zero
        guard !digest.isHead, !blobs.contains(where: { $0.digest.isHead }),
            !deltas.contains(where: { $0.baseFile.isHead || $0.baseDigest.isHead })
        else { throw .bug("a digest is known in part only") }
        try tree.withPath(index) { path throws(PublishError) in
            writer.file(
                path: path, size: entry.stamp.size, digest: digest, executable: entry.kind == .executable, blobs: blobs,
                // Empty files need no URL.
                urls: entry.stamp.size > 0 ? try urls(of: path) : [], traits: tree.traits(index), deltas: deltas)
        }
    }

    /// The URLs of a loose file, one for each prefix.
    ///
    /// - Throws: ``PublishError`` when a manifest may not contain one of them.
    private func urls(of path: UnsafeBufferPointer<UInt8>) throws(PublishError) -> [String] {
        guard !prefixes.isEmpty else { return [] }
        let urls = prefixes.map { [encoded = percentEncoded(bytes: path)] in $0 + encoded }
        guard let reason = urls.lazy.compactMap({ ManifestRules.objection(url: $0) }).first else { return urls }
        throw .invalid(
            "\(shown(Array(path))) cannot be reached by a URL: \(reason)",
            "shorten its name, or publish without file URLs")
    }

    /// The packs that some entries need, by the catalogue's numbers, in the order of first use.
    func packs(of rows: Range<Int>) -> [UInt32] {
        var order: [UInt32] = []
        var seen: Set<UInt32> = []
        for row in rows {
            for blob in ledger.blobs(row) {
                let pack = places[Int(blob)].pack
                if order.last != pack, seen.insert(pack).inserted { order.append(pack) }
            }
            for delta in deltas[row] ?? [] where seen.insert(delta.pack).inserted { order.append(delta.pack) }
        }
        return order
    }
}
