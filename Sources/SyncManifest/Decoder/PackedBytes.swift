import SyncModel

extension ManifestAssembly {
    mutating func readBlobs() throws(ManifestError) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            place.part = -1
            try check(files.blobs.count, below: limits.blobs, "blobs")
            files.blobs.append(try readBlob())
            try checkMemory()
        }
    }

    /// `[pack index, offset, stored length, raw length, codec, raw sha256]`
    mutating func readBlob() throws(ManifestError) -> Blob {
        var blob = Blob(pack: 0, codec: .identity, offset: 0, storedLength: 0, rawLength: 0)
        try reader.beginArray()
        while try reader.nextElement() {
            place.part += 1
            switch place.part {
            case 0:
                guard let pack = UInt32(exactly: try reader.integer()) else {
                    throw ManifestError("the pack index is above 4294967295", "count packs from 0")
                }
                blob.pack = pack
            case 1: blob.offset = try reader.integer()
            case 2:
                blob.storedLength = try reader.integer()
                blob.rawLength = blob.storedLength
                guard blob.storedLength > 0 else { throw ManifestError("the blob is empty", "leave it out") }
            case 3:
                blob.rawLength = try reader.integer()
                guard blob.rawLength > 0 else { throw ManifestError("the blob is empty", "leave it out") }
            case 4: blob.codec = try readCodec()
            case 5: blob.digestIndex = try readBlobDigest()
            default: throw ManifestError("a blob has more than 6 members", "write pack, offset, length, …")
            }
        }
        guard place.part >= 2 else {
            place.part = -1
            throw ManifestError("a blob has fewer than 3 members", "write pack, offset and stored length")
        }
        try checkLengths(blob)
        place.part = -1
        return blob
    }

    private mutating func readCodec() throws(ManifestError) -> Codec {
        let name = try reader.string()
        guard let codec = Codec.byUse.first(where: { equals(name, $0.word) }) else {
            let known = Codec.allCases.map { "“\($0.name)”" }
            let all = known.dropLast().joined(separator: ", ") + " or " + known.suffix(1).joined()
            throw ManifestError("unknown codec \(quoted(name))", "use \(all)")
        }
        if codec.needsDictionary { needsDictionary = needsDictionary ?? (place, codec) }
        return codec
    }

    private mutating func readBlobDigest() throws(ManifestError) -> UInt32 {
        let digest = try readDigest()
        guard let index = files.appendBlobDigest(digest) else {
            throw ManifestError("more than 4294967295 blob digests", "split the set")
        }
        return index
    }

    private mutating func checkLengths(_ blob: Blob) throws(ManifestError) {
        place.part = 2
        guard !blob.offset.addingReportingOverflow(blob.storedLength).overflow,
            blob.offset + blob.storedLength <= UInt64(Int64.max)
        else { throw ManifestError("the blob ends above 2^63 bytes", "correct its offset and length") }
        place.part = 3
        if !blob.codec.isCompressed {
            guard blob.storedLength == blob.rawLength else {
                throw ManifestError(
                    "the raw length \(blob.rawLength) is not the stored length \(blob.storedLength), "
                        + "and the codec is “none”", "name the codec, or make them equal")
            }
        } else {
            guard blob.rawLength / blob.codec.highestRatio <= blob.storedLength else {
                throw ManifestError(
                    "\(blob.storedLength) bytes of \(blob.codec.name) cannot hold \(blob.rawLength)",
                    "correct the lengths")
            }
        }
    }

    /// Checks that the blobs of one file give its size, and that each can be verified by itself.
    mutating func checkBlobs(of row: FileTable.Pending) throws(ManifestError) {
        place.enter("blobs")
        let blobs = files.blobs[row.firstBlob...]
        var sum: UInt64 = 0
        for (index, blob) in blobs.enumerated() {
            let (next, overflow) = sum.addingReportingOverflow(blob.rawLength)
            guard !overflow else { throw ManifestError("the raw lengths overflow 64 bits", "correct them") }
            sum = next
            if blobs.count > 1, blob.digestIndex == nil {
                place.element = index
                throw ManifestError("one of several blobs has no SHA-256 of its own", "add it as the 6th member")
            }
        }
        guard sum == row.size else {
            throw ManifestError(
                "the blobs give \(sum) bytes, and the file has \(row.size)", "correct “size” or the raw lengths")
        }
        guard blobs.count == 1, let own = blobs.first?.digestIndex else { return }
        guard files.blobDigests.last == row.digest else {
            place.element = 0
            place.part = 5
            throw ManifestError("the SHA-256 of the only blob is not that of the file", "leave it out")
        }
        if Int(own) + 1 == files.blobDigests.count { files.blobDigests.removeLast() }
        files.blobs[row.firstBlob].digestIndex = nil
    }
}

extension ManifestAssembly {
    mutating func readPacks() throws(ManifestError) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "packs", entry: packs.count)
            try check(packs.count, below: limits.packs, "packs")
            let pack = try readPack()
            // The pack's record, and its entries in the tables by which packs are looked up.
            otherBytes += 160 + pack.urls.reduce(0) { $0 + 16 + $1.utf8.count }
            try checkMemory()
            packs.append(pack)
        }
    }

    private mutating func readPack() throws(ManifestError) -> Manifest.Pack {
        var urls: [String]?
        var size: UInt64?
        var digest: SHA256Digest?
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "url") || equals(key, "urls") {
                let isList = key.count == 4
                place.enter(isList ? "urls" : "url")
                guard urls == nil else {
                    throw ManifestError("the pack's location is given twice", "write one of “url” and “urls”, once")
                }
                urls = isList ? try readPackURLs() : [try readURL()]
            } else if equals(key, "size") {
                try enter("size", isFirst: size == nil)
                size = try reader.integer()
            } else if equals(key, "sha256") {
                try enter("sha256", isFirst: digest == nil)
                digest = try readDigest()
            } else {
                try skipForeign(key, seen: &foreign)
            }
        }
        place.leaveMember()
        guard let urls, !urls.isEmpty else { throw missing("url") }
        guard let size else { throw missing("size") }
        guard let digest else { throw missing("sha256") }
        return Manifest.Pack(urls: urls, size: size, sha256: digest)
    }

    private mutating func readPackURLs() throws(ManifestError) -> [String] {
        try readTexts(most: limits.urlsPerFile, "URLs") { (decoder: inout Self) throws(ManifestError) in
            try decoder.readURL()
        }
    }

    private mutating func readURL() throws(ManifestError) -> String {
        let url = try reader.string()
        try ManifestRules.check(url: url, limit: limits.urlBytes, schemes: limits.schemes)
        return String(decoding: url, as: UTF8.self)
    }

    /// Enters a member of an object, which may occur once.
    mutating func enter(_ member: StaticString, isFirst: Bool) throws(ManifestError) {
        place.enter(member)
        guard isFirst else { throw reader.duplicateKey("\(member)".utf8) }
    }

    mutating func missing(_ key: StaticString) -> ManifestError {
        place.enter(key)
        return ManifestError("the key is missing", "add “\(key)”")
    }
}

/// Manifests with a dictionary.
extension ManifestAssembly {
    /// `[pack index, offset, stored length, raw length, codec, raw sha256]`
    mutating func readDictionary() throws(ManifestError) {
        let own = try readOwnBlob("the dictionary", refusal: "the dictionary needs itself")
        let blob = own.blob
        guard max(blob.rawLength, blob.storedLength) <= Manifest.longestDictionary else {
            place.part = 3
            throw ManifestError(
                "the dictionary has \(max(blob.rawLength, blob.storedLength)) bytes, above the limit of "
                    + "\(Manifest.longestDictionary)", "make a shorter one")
        }
        dictionary = own
    }

    /// Reads a blob that belongs to no file: it has a SHA-256 of its own, and is decoded without the dictionary.
    mutating func readOwnBlob(_ what: String, refusal: String) throws(ManifestError) -> Manifest.OwnBlob {
        var blob = try readBlob()
        guard blob.digestIndex != nil, let digest = files.blobDigests.popLast() else {
            throw ManifestError("\(what) has no SHA-256", "add it as the 6th member")
        }
        guard !blob.codec.needsDictionary else {
            place.part = 4
            throw ManifestError(refusal, "store it with “none” or “zstd”")
        }
        blob.digestIndex = nil
        return Manifest.OwnBlob(blob: blob, digest: digest)
    }

    /// Checks that a blob lies in its pack.
    ///
    /// - Parameter what: What the blob is, for people.
    func checkOwnBlob(_ what: String, _ blob: Blob) throws(ManifestError) {
        let number = Int(blob.pack)
        guard number < packs.count else {
            throw ManifestError("pack \(number) does not exist; “packs” has \(packs.count)", "count packs from 0")
        }
        guard blob.range.upperBound <= packs[number].size else {
            throw ManifestError(
                "\(what) ends at byte \(blob.range.upperBound), and pack \(number) has " + "\(packs[number].size)",
                "correct the offset, the length or the pack's size")
        }
    }

    /// Checks that the dictionary lies in its pack; or, where there is none, that no blob needs one.
    mutating func checkDictionary() throws(ManifestError) {
        guard let dictionary else { return try checkDictionaryIsHere() }
        place.enter(section: "dictionary")
        try checkOwnBlob("the dictionary", dictionary.blob)
        place = JSONPosition()
    }

    /// Checks that there is a dictionary if a blob needs one.
    mutating func checkDictionaryIsHere() throws(ManifestError) {
        guard dictionary == nil, let needsDictionary else { return }
        place = needsDictionary.place
        throw ManifestError(
            "the blob is “\(needsDictionary.codec.name)”, but there is no “dictionary”", "name it at the top level")
    }
}
