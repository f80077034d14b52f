import SyncModel

/// Manifests in parts: the root names texts that hold the entries.
extension ManifestAssembly {
    /// Leaves out the other parts: the assembled manifest has the entries of these, and the whole is not checked.
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
            // The part's record, which is copied as the array grows.
            otherBytes += 272
            try checkMemory()
            parts.append(try readReference())
        }
    }

    /// `{"blob": [pack index, offset, stored length, raw length, codec, raw sha256], "files": n, "from": [blobs],
    /// "outline": [blobs]}`
    private mutating func readReference() throws(ManifestError) -> Manifest.Part {
        var text: Manifest.OwnBlob?
        var files: Int?
        var from: [Manifest.OwnBlob]?
        var outline: [Manifest.OwnBlob]?
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "blob") {
                try enter("blob", isFirst: text == nil)
                text = try readText("the part")
            } else if equals(key, "from") {
                try enter("from", isFirst: from == nil)
                from = try readChain("from", "the former text", most: Manifest.Part.mostFormer)
            } else if equals(key, "outline") {
                try enter("outline", isFirst: outline == nil)
                outline = try readChain("outline", "the outline", most: Manifest.Part.mostOutlines)
            } else if equals(key, "files") {
                try enter("files", isFirst: files == nil)
                files = try readCount()
            } else {
                try skipForeign(key, seen: &foreign)
            }
        }
        place.leaveMember()
        guard let text else { throw missing("blob") }
        guard let files else { throw missing("files") }
        return Manifest.Part(text: text, files: files, from: from ?? [], outline: outline ?? [])
    }

    private mutating func readText(_ what: String) throws(ManifestError) -> Manifest.OwnBlob {
        try readOwnBlob(what, refusal: "a part is made without the dictionary")
    }

    private mutating func readChain(_ key: StaticString, _ what: String, most: Int) throws(ManifestError)
        -> [Manifest.OwnBlob]
    {
        var texts: [Manifest.OwnBlob] = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(key)
            place.element = texts.count
            guard texts.count < most else {
                throw ManifestError("“\(key)” has more than \(most) texts", "store the part whole")
            }
            otherBytes += 128
            texts.append(try readText(what))
        }
        guard !texts.isEmpty else {
            throw ManifestError("“\(key)” is empty", "leave it out")
        }
        try checkMemory()
        return texts
    }

    /// Checks that each text but the last lies in its pack, and that each but the first is a frame with the one before
    /// it as prefix.
    private mutating func checkChain(_ texts: [Manifest.OwnBlob], _ key: StaticString, _ what: String)
        throws(ManifestError)
    {
        for (index, (former, text)) in zip(texts, texts.dropFirst()).enumerated() {
            place.enter(key)
            place.element = index
            try checkOwnBlob(what, former.blob)
            // Nothing else says how long the stored form may be.
            let stored = max(former.blob.storedLength, text.blob.storedLength)
            guard stored <= Manifest.Part.longestTexts else {
                throw ManifestError(
                    "the text has \(stored) stored bytes, above the limit of \(Manifest.Part.longestTexts)",
                    "store the part whole")
            }
            guard text.blob.codec.isCompressed else {
                throw ManifestError(
                    "a text made from a former one is stored with “\(text.blob.codec.name)”", "store it with “zstd”")
            }
            let both = former.blob.rawLength.saturatingAdd(text.blob.rawLength)
            guard both <= Manifest.Part.longestTexts else {
                throw ManifestError(
                    "a text and the one that it is made from have \(both) bytes, above the limit of "
                        + "\(Manifest.Part.longestTexts)", "store the part whole")
            }
        }
    }

    private mutating func readCount() throws(ManifestError) -> Int {
        let count = try reader.integer()
        guard count > 0 else { throw ManifestError("the part has no entries", "leave the part out") }
        guard count <= UInt64(limits.entries) else {
            throw ManifestError("more than \(limits.entries) entries in one part", "publish the set again")
        }
        return Int(count)
    }

    /// Checks that each part lies in its packs, and is no longer than a part may be.
    mutating func checkParts() throws(ManifestError) {
        for (index, part) in parts.enumerated() {
            place.enter(section: "parts", entry: index)
            place.enter("blob")
            try checkLength("the part", part.text.blob)
            try checkChain(part.chain, "from", "the former text")
            place.enter("blob")
            try checkOwnBlob("the part", part.text.blob)
            try checkChain(part.outline, "outline", "the outline")
            guard let outline = part.outline.last?.blob else { continue }
            place.enter("outline")
            place.element = part.outline.count - 1
            try checkLength("the outline", outline)
            try checkOwnBlob("the outline", outline)
        }
        place = JSONPosition()
    }

    /// Both forms of a text are held in memory, and nothing else says how long the stored one may be.
    private func checkLength(_ what: String, _ text: Blob) throws(ManifestError) {
        let longest = max(text.rawLength, text.storedLength)
        guard longest <= UInt64(limits.partBytes) else {
            throw ManifestError(
                "\(what) has \(longest) bytes, above the limit of \(limits.partBytes)",
                "publish the set again, or raise the limit with --max-manifest")
        }
    }

    /// Checks that the parts that are read are within the limits together, however many others there are.
    package func checkTotals() throws(ManifestError) {
        var (entries, bytes, formerBytes) = (0, UInt64(ownBytes), UInt64(0))
        for (index, part) in parts.enumerated() {
            func refusal(_ reason: String, of key: StaticString? = nil, _ remedy: String) -> ManifestError {
                var place = JSONPosition()
                place.enter(section: "parts", entry: index)
                if let key { place.enter(key) }
                return ManifestError(reason, remedy).placed(place.text)
            }
            entries += part.files
            guard entries <= limits.entries else {
                throw refusal(
                    "more than \(limits.entries) entries in \(isNarrowed ? "the parts of one shard" : "all parts")",
                    isNarrowed
                        ? "use more shards"
                        : "work on it in shards, with --shard: each reads what is its own, or raise the limit with "
                            + "--max-manifest")
            }
            bytes = bytes.saturatingAdd(max(part.text.blob.rawLength, part.text.blob.storedLength))
            guard bytes <= UInt64(limits.manifestBytes) else {
                throw refusal(
                    "the texts together have more than \(limits.manifestBytes) bytes",
                    isNarrowed
                        ? "use more shards, or raise the limit with --max-manifest"
                        : "work on it in shards, with --shard, split the set, or raise the limit with --max-manifest")
            }
            for text in part.from {
                formerBytes = formerBytes.saturatingAdd(max(text.blob.rawLength, text.blob.storedLength))
            }
            guard formerBytes / UInt64(Manifest.Part.mostFormer) <= UInt64(limits.manifestBytes) else {
                throw refusal(
                    "the former texts together have more than \(Manifest.Part.mostFormer) times "
                        + "\(limits.manifestBytes) bytes", of: "from", "store parts whole, or split the set")
            }
        }
    }

    /// Prepares for reading the first part.
    mutating func prepareParts() throws(ManifestError) {
        try checkTotals()
        // The root states the number, which is not trusted beyond a million: from there on room grows with the entries.
        let expected = min(parts.reduce(0) { $0 + $1.files }, 1 << 20)
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

    /// The number of entries that the root states for the part that is read.
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

    /// Checks that the entries of parts are in path order: a million of them are not sorted.
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

    /// Translates the pack numbers of a part's blobs and deltas, which count in the part's own packs, to the
    /// manifest's.
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
