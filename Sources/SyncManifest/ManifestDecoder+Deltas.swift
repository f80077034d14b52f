import SyncModel

extension ManifestDecoder {
    private static let deltasKey = Array("x-deltas".utf8)

    /// Takes `x-deltas` of a file entry, or skips any other key that starts with `x-`.
    ///
    /// Values of such keys can be anything: one of another shape is ignored, as by a reader that does not know it.
    mutating func readExtension(
        _ key: UnsafeBufferPointer<UInt8>,
        seen: inout Set<[UInt8]>
    ) throws(ManifestFault) -> [Delta] {
        guard key.elementsEqual(Self.deltasKey), !seen.contains(Self.deltasKey) else {
            try skipForeign(key, seen: &seen)
            return []
        }
        // Where the value begins: read in our way first, then as anything.
        let start = reader
        var deltas: [Delta] = []
        do throws(ManifestFault) { deltas = try readDeltas() } catch { deltas = [] }
        let key = Self.deltasKey
        reader = start
        try key.withUnsafeBufferPointer { (key) throws(ManifestFault) in try skipForeign(key, seen: &seen) }
        return deltas
    }

    /// `{"base": sha256, "blobs": [[blob, pack, offset, stored length, base offset, base length, base sha256], …]}`
    private mutating func readDeltas() throws(ManifestFault) -> [Delta] {
        var base: SHA256Digest?
        var deltas: [Delta] = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if key.elementsEqual("base".utf8) {
                base = try readDigest()
            } else if key.elementsEqual("blobs".utf8) {
                try reader.beginArray()
                while try reader.nextElement() {
                    try check(deltas.count, below: limits.blobs, "deltas")
                    deltas.append(try readDelta())
                }
            } else {
                try reader.skipValue()
            }
        }
        guard let base else { return [] }
        for index in deltas.indices { deltas[index].baseFile = base }
        return deltas
    }

    private mutating func readDelta() throws(ManifestFault) -> Delta {
        func next() throws(ManifestFault) -> UInt64 {
            guard try reader.nextElement() else { throw ManifestFault("too few members", "") }
            return try reader.integer()
        }
        try reader.beginArray()
        let blob = try next()
        let pack = try next()
        let offset = try next()
        let stored = try next()
        let start = try next()
        let (end, overflow) = start.addingReportingOverflow(try next())
        guard try reader.nextElement() else { throw ManifestFault("too few members", "") }
        let digest = try readDigest()
        guard try !reader.nextElement(), !overflow, let blob = UInt32(exactly: blob),
            let pack = UInt32(exactly: pack)
        else { throw ManifestFault("not a delta", "") }
        return Delta(
            blob: blob,
            pack: pack,
            offset: offset,
            storedLength: stored,
            baseFile: .zero,
            base: start..<end,
            baseDigest: digest
        )
    }
}
