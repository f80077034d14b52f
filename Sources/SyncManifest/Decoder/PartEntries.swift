import SyncModel

/// Manifests in parts: the root names texts that hold the entries.
extension ManifestAssembly {
    /// Leaves out parts: what is assembled has the entries of these, and nothing is said about the others.
    package mutating func narrow(to range: Range<Int>) throws(ManifestError) {
        guard partStarts.isEmpty, range.lowerBound >= 0, range.upperBound <= parts.count else {
            throw ManifestError(at: "$.parts", "parts that are not there", "report this as a bug")
        }
        parts = Array(parts[range])
        isNarrowed = true
    }

    /// The path of a part's first entry.
    package func firstPath(ofPart index: Int, _ text: UnsafeRawBufferPointer) throws(ManifestError) -> [UInt8] {
        var one = self
        try one.narrow(to: index..<(index + 1))
        try one.add(text)
        return one.files.withPath(0) { Array($0) }
    }

    mutating func readParts() throws(ManifestError) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "parts", entry: parts.count)
            try check(parts.count, below: limits.parts, "parts")
            otherBytes += 512
            try checkMemory()
            parts.append(try readReference())
        }
    }

    /// `{"blob": [pack index, offset, stored length, raw length, codec, raw sha256], "files": n}`
    private mutating func readReference() throws(ManifestError) -> Manifest.Part {
        var part: Manifest.Part?
        var files: Int?
        var delta: Manifest.PartDelta?
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "x-delta"), delta == nil {
                delta = try readOrSkip(Array(key), &foreign) { (decoder: inout Self) throws(ManifestError) in
                    try decoder.readPartDelta()
                }
            } else if equals(key, "blob") {
                try enter("blob", isFirst: part == nil)
                let refusal = "a part is made without the dictionary"
                let (blob, digest) = try readOwnBlob("the part", refusal: refusal)
                part = Manifest.Part(blob: blob, digest: digest, files: 0)
            } else if equals(key, "files") {
                try enter("files", isFirst: files == nil)
                files = try readCount()
            } else {
                try skipForeign(key, seen: &foreign)
            }
        }
        place.leaveMember()
        guard var part else { throw missing("blob") }
        guard let files else { throw missing("files") }
        part.files = files
        part.delta = delta
        return part
    }

    /// `[pack index, offset, stored length, sha256 of the former text]`
    private mutating func readPartDelta() throws(ManifestError) -> Manifest.PartDelta {
        try reader.beginArray()
        let (pack, offset, stored) = (try nextNumber(), try nextNumber(), try nextNumber())
        guard try reader.nextElement() else { throw ManifestError("too few members", "") }
        let base = try readDigest()
        guard try !reader.nextElement(), let pack = UInt32(exactly: pack) else {
            throw ManifestError("not a delta", "")
        }
        return Manifest.PartDelta(pack: pack, offset: offset, storedLength: stored, base: base)
    }

    /// Whether a part's delta can be used: it lies in its pack, and is shorter than the part.
    private func isUseful(_ delta: Manifest.PartDelta, _ part: Manifest.Part) -> Bool {
        guard Int(delta.pack) < packs.count, delta.base != part.digest, delta.storedLength > 0,
            delta.storedLength <= part.blob.storedLength
        else { return false }
        let size = packs[Int(delta.pack)].size
        return delta.offset <= size && delta.storedLength <= size - delta.offset
    }

    private mutating func readCount() throws(ManifestError) -> Int {
        let count = try reader.integer()
        guard count > 0 else { throw ManifestError("the part has no entries", "leave the part out") }
        guard count <= UInt64(limits.entries) else {
            throw ManifestError("more than \(limits.entries) entries", "split the set, or raise the limit")
        }
        return Int(count)
    }

    /// What the root alone must be: its parts in its packs, and together within the limits.
    mutating func checkParts() throws(ManifestError) {
        var (entries, bytes) = (0, UInt64(reader.bytes.count))
        for (index, part) in parts.enumerated() {
            place.enter(section: "parts", entry: index)
            entries += part.files
            guard entries <= limits.entries else {
                throw ManifestError(
                    "more than \(limits.entries) entries in all parts", "split the set, or raise the limit")
            }
            // Both forms of a text are held in memory, and nothing else says how long the stored one may be.
            let (sum, overflow) = bytes.addingReportingOverflow(max(part.blob.rawLength, part.blob.storedLength))
            guard !overflow, sum <= UInt64(limits.manifestBytes) else {
                throw ManifestError(
                    "the texts together have more than \(limits.manifestBytes) bytes",
                    "split the set, or raise the limit")
            }
            bytes = sum
            place.enter("blob")
            let longest = max(part.blob.rawLength, part.blob.storedLength)
            guard longest <= UInt64(limits.partBytes) else {
                throw ManifestError(
                    "the part has \(longest) bytes, above the limit of \(limits.partBytes)",
                    "publish the set again, or raise the limit with --max-manifest")
            }
            try checkOwnBlob("the part", part.blob)
            if let delta = part.delta, !isUseful(delta, part) { parts[index].delta = nil }
        }
        place = JSONPosition()
        // The root's word for it, which is not believed beyond a million: room grows with what comes.
        let expected = min(entries, 1 << 20)
        files.reserve(count: expected, pathBytes: expected * 40)
    }

    /// Reads the next part's text: `{"packs": ["sha256", …], "files": […]}`.
    ///
    /// - Returns: The numbers that the part's own packs have in the root, for ``renumberPacks(_:from:)``.
    mutating func readPart(_ bytes: UnsafeBufferPointer<UInt8>, _ numbers: [SHA256Digest: UInt32]) throws(ManifestError)
        -> [UInt32]
    {
        place = JSONPosition()
        place.document = partStarts.count
        reader = JSONReader(bytes, limits: limits)
        partStarts.append(files.count)
        var packs: [UInt32]?
        var hasFiles = false
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "packs") {
                place.enter(section: "packs")
                guard packs == nil else { throw reader.duplicateKey(key) }
                packs = try readPartPacks(numbers)
            } else if equals(key, "files") {
                place.enter(section: "files")
                guard !hasFiles else { throw reader.duplicateKey(key) }
                hasFiles = true
                try readFiles()
            } else {
                place.leaveSection()
                try skipForeign(key, seen: &foreign)
            }
        }
        place.leaveSection()
        try reader.end()
        guard let packs else { throw missing("packs") }
        guard hasFiles else { throw missing("files") }
        try checkPartIsFull()
        try checkDictionaryIsHere()
        return packs
    }

    private mutating func readPartPacks(_ numbers: [SHA256Digest: UInt32]) throws(ManifestError) -> [UInt32] {
        var packs: [UInt32] = []
        var seen: Set<UInt32> = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "packs", entry: packs.count)
            try check(packs.count, below: limits.packs, "packs")
            guard let number = numbers[try readDigest()] else {
                throw ManifestError("“packs” of the manifest has no such pack", "publish the set again")
            }
            guard seen.insert(number).inserted else {
                throw ManifestError("the pack is listed here twice", "keep one of them")
            }
            packs.append(number)
        }
        return packs
    }

    private var entriesHere: Int { files.count - (partStarts.last ?? 0) }

    /// Entries that the root promises for the part that is read.
    private var entriesPromised: Int {
        parts.indices.contains(partStarts.count - 1) ? parts[partStarts.count - 1].files : 0
    }

    func checkPartHasRoom() throws(ManifestError) {
        guard entriesHere < entriesPromised else {
            throw ManifestError(
                "the part has more entries than the \(entriesPromised) that the manifest says", "publish the set again")
        }
    }

    private mutating func checkPartIsFull() throws(ManifestError) {
        guard entriesHere == entriesPromised else {
            place.enter(section: "files")
            throw ManifestError(
                "the part has \(entriesHere) of the \(entriesPromised) entries that the manifest says",
                "publish the set again")
        }
    }

    /// In parts, entries stand in path order: nobody sorts a million of them.
    mutating func checkOrder(_ row: FileTable.Pending) throws(ManifestError) {
        guard files.count > 0 else { return }
        let isOrdered = files.arena.withUnsafeBufferPointer { arena in
            PathOrder.compare(files.path(files.count - 1, in: arena), row.path.bytes(in: arena)) <= 0
        }
        guard isOrdered else {
            place.enter("path")
            throw ManifestError(
                "the path sorts before that of the previous entry", "write the entries of all parts in path order")
        }
    }

    /// Blobs of a part count in its own packs; from here on in the manifest's.
    ///
    /// - Parameter first: How many blobs and deltas there were before the part.
    mutating func renumberPacks(_ packs: [UInt32], from first: (blob: Int, delta: Int)) throws(ManifestError) {
        files.deltaColumn.renumberPacks(from: first.delta, packs)
        let wrong = files.blobs.withUnsafeMutableBufferPointer { blobs -> Int? in
            for index in first.blob..<max(first.blob, blobs.count) {
                let pack = Int(blobs[index].pack)
                guard pack < packs.count else { return index }
                blobs[index].pack = packs[pack]
            }
            return nil
        }
        guard let wrong else { return }
        let rows = (partStarts.last ?? 0)..<files.count
        let row = rows.first { files.blobs($0).endIndex > wrong } ?? rows.lowerBound
        place.enter(section: "files", entry: row - rows.lowerBound)
        place.enter("blobs")
        place.element = wrong - files.blobs(row).startIndex
        place.part = 0
        throw ManifestError(
            "pack \(files.blobs[wrong].pack) does not exist; “packs” of the part has \(packs.count)",
            "count packs of the part from 0")
    }
}
