import SyncModel

extension ManifestAssembly {
    private static let deltasKey = Array("x-deltas".utf8)
    private static let chunkingKey = Array("x-chunking".utf8)

    /// Reads `x-deltas` or `x-user-data` of a file entry, or skips any other key that starts with `x-`.
    ///
    /// The value of such a key can be anything: a value of another shape is ignored, as by a reader that does not know
    /// the key.
    mutating func readExtension(_ key: UnsafeBufferPointer<UInt8>, seen: inout Set<[UInt8]>) throws(ManifestError)
        -> [Delta]
    {
        guard key.elementsEqual(Self.deltasKey), !seen.contains(Self.deltasKey) else {
            if let text = try readUserData(key, isOfFile: true, seen: &seen) { files.userData[files.count] = text }
            return []
        }
        return try readOrSkip(Self.deltasKey, &seen) { (decoder: inout Self) throws(ManifestError) in
            try decoder.readDeltas()
        } ?? []
    }

    /// Reads `x-directories`, `x-chunking` or `x-user-data` of the top level, or skips any other key that starts with
    /// `x-`.
    mutating func readTopExtension(_ key: UnsafeBufferPointer<UInt8>, seen: inout Set<[UInt8]>) throws(ManifestError) {
        if key.elementsEqual(Self.directoriesKey) {
            try reader.insert(key, into: &seen)
            return try readDirectories()
        }
        guard key.elementsEqual(Self.chunkingKey), !seen.contains(Self.chunkingKey) else {
            if let text = try readUserData(key, seen: &seen) { userData = text }
            return
        }
        chunking =
            try readOrSkip(Self.chunkingKey, &seen) { (decoder: inout Self) throws(ManifestError) in
                try decoder.readChunking()
            } ?? nil
    }

    /// Tries to read a value with `read`, and then skips it as a value of any kind; `nil` if `read` has failed.
    mutating func readOrSkip<Value>(
        _ key: [UInt8], _ seen: inout Set<[UInt8]>, _ read: (inout Self) throws(ManifestError) -> Value
    ) throws(ManifestError) -> Value? {
        let start = reader
        var value: Value?
        do throws(ManifestError) { value = try read(&self) } catch { value = nil }
        reader = start
        try key.withUnsafeBufferPointer { (key) throws(ManifestError) in try skipForeign(key, seen: &seen) }
        return value
    }

    /// `{"method": "fastcdc-gear64-1", "minimum": n, "average": n, "maximum": n}`
    private mutating func readChunking() throws(ManifestError) -> ChunkParameters? {
        var numbers: [String: UInt64] = [:]
        var isOurs = false
        try reader.beginObject()
        while let key = try reader.nextKey() {
            let name = String(decoding: key, as: UTF8.self)
            if name == "method" {
                isOurs = try reader.string().elementsEqual(ChunkCutter.method.utf8)
            } else if ["minimum", "average", "maximum"].contains(name) {
                numbers[name] = try reader.integer()
            } else {
                try reader.skipValue()
            }
        }
        guard isOurs, let minimum = numbers["minimum"].flatMap({ Int(exactly: $0) }),
            let average = numbers["average"].flatMap({ Int(exactly: $0) }),
            let maximum = numbers["maximum"].flatMap({ Int(exactly: $0) })
        else { return nil }
        let parameters = ChunkParameters(minimum: minimum, average: average, maximum: maximum)
        return parameters.isValid ? parameters : nil
    }

    /// `{"base": sha256, "blobs": [[blob, pack, offset, stored length, base offset, base length, base sha256], …]}`
    private mutating func readDeltas() throws(ManifestError) -> [Delta] {
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
                    try checkMemory(adding: deltas.count * FileTable.deltaBytes)
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

    /// Reads the next number of an array.
    mutating func nextNumber() throws(ManifestError) -> UInt64 {
        guard try reader.nextElement() else { throw ManifestError("too few members", "") }
        return try reader.integer()
    }

    private mutating func readDelta() throws(ManifestError) -> Delta {
        try reader.beginArray()
        let (blob, pack) = (try nextNumber(), try nextNumber())
        let (offset, stored) = (try nextNumber(), try nextNumber())
        let start = try nextNumber()
        let (end, overflow) = start.addingReportingOverflow(try nextNumber())
        guard try reader.nextElement() else { throw ManifestError("too few members", "") }
        let digest = try readDigest()
        guard try !reader.nextElement(), !overflow, let blob = UInt32(exactly: blob), let pack = UInt32(exactly: pack)
        else { throw ManifestError("not a delta", "") }
        return Delta(
            blob: blob, pack: pack, offset: offset, storedLength: stored, baseFile: .zero, base: start..<end,
            baseDigest: digest)
    }
}
