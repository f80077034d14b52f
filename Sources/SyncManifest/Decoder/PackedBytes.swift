import SyncModel

extension ManifestDecoder {
    mutating func readBlobs() throws(ManifestFault) {
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
    mutating func readBlob() throws(ManifestFault) -> Blob {
        var blob = Blob(pack: 0, codec: .identity, offset: 0, storedLength: 0, rawLength: 0)
        try reader.beginArray()
        while try reader.nextElement() {
            place.part += 1
            switch place.part {
            case 0:
                guard let pack = UInt32(exactly: try reader.integer()) else {
                    throw ManifestFault("the pack index is above 4294967295", "count packs from 0")
                }
                blob.pack = pack
            case 1: blob.offset = try reader.integer()
            case 2:
                blob.storedLength = try reader.integer()
                blob.rawLength = blob.storedLength
                guard blob.storedLength > 0 else { throw ManifestFault("the blob is empty", "leave it out") }
            case 3:
                blob.rawLength = try reader.integer()
                guard blob.rawLength > 0 else { throw ManifestFault("the blob is empty", "leave it out") }
            case 4: blob.codec = try readCodec()
            case 5: blob.digestIndex = try readBlobDigest()
            default: throw ManifestFault("a blob has more than 6 members", "write pack, offset, length, …")
            }
        }
        guard place.part >= 2 else {
            place.part = -1
            throw ManifestFault("a blob has fewer than 3 members", "write pack, offset and stored length")
        }
        try checkLengths(blob)
        place.part = -1
        return blob
    }

    private mutating func readCodec() throws(ManifestFault) -> Codec {
        let name = try reader.string()
        guard let codec = Codec.byUse.first(where: { equals(name, $0.word) }) else {
            let known = Codec.allCases.map { "“\($0.name)”" }
            let all = known.dropLast().joined(separator: ", ") + " or " + known.suffix(1).joined()
            throw ManifestFault("unknown codec \(quoted(name))", "use \(all)")
        }
        if codec.needsDictionary { needsDictionary = needsDictionary ?? (place, codec) }
        return codec
    }

    private mutating func readBlobDigest() throws(ManifestFault) -> UInt32 {
        let digest = try readDigest()
        guard let index = files.appendBlobDigest(digest) else {
            throw ManifestFault("more than 4294967295 blob digests", "split the set")
        }
        return index
    }

    private mutating func checkLengths(_ blob: Blob) throws(ManifestFault) {
        place.part = 2
        guard !blob.offset.addingReportingOverflow(blob.storedLength).overflow,
            blob.offset + blob.storedLength <= UInt64(Int64.max)
        else { throw ManifestFault("the blob ends above 2^63 bytes", "correct its offset and length") }
        place.part = 3
        if !blob.codec.isCompressed {
            guard blob.storedLength == blob.rawLength else {
                throw ManifestFault(
                    "the raw length \(blob.rawLength) is not the stored length \(blob.storedLength), "
                        + "and the codec is “none”", "name the codec, or make them equal")
            }
        } else {
            guard blob.rawLength / blob.codec.highestRatio <= blob.storedLength else {
                throw ManifestFault(
                    "\(blob.storedLength) bytes of \(blob.codec.name) cannot hold \(blob.rawLength)",
                    "correct the lengths")
            }
        }
    }

    /// What the blobs of one file must be together: its size, and each provable by itself.
    mutating func checkBlobs(of row: FileTable.Pending) throws(ManifestFault) {
        place.enter("blobs")
        let blobs = files.blobs[row.firstBlob...]
        var sum: UInt64 = 0
        for (index, blob) in blobs.enumerated() {
            let (next, overflow) = sum.addingReportingOverflow(blob.rawLength)
            guard !overflow else { throw ManifestFault("the raw lengths overflow 64 bits", "correct them") }
            sum = next
            if blobs.count > 1, blob.digestIndex == nil {
                place.element = index
                throw ManifestFault("one of several blobs has no SHA-256 of its own", "add it as the 6th member")
            }
        }
        guard sum == row.size else {
            throw ManifestFault(
                "the blobs give \(sum) bytes, and the file has \(row.size)", "correct “size” or the raw lengths")
        }
        guard blobs.count == 1, let own = blobs.first?.digestIndex else { return }
        guard files.blobDigests.last == row.digest else {
            place.element = 0
            place.part = 5
            throw ManifestFault("the SHA-256 of the only blob is not that of the file", "leave it out")
        }
        if Int(own) + 1 == files.blobDigests.count { files.blobDigests.removeLast() }
        files.blobs[row.firstBlob].digestIndex = nil
    }
}

extension ManifestDecoder {
    mutating func readPacks() throws(ManifestFault) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "packs", entry: packs.count)
            try check(packs.count, below: limits.packs, "packs")
            let pack = try readPack()
            // Its record, and its entries in the tables by which packs are looked up.
            otherBytes += 160 + pack.urls.reduce(0) { $0 + 16 + $1.utf8.count }
            try checkMemory()
            packs.append(pack)
        }
    }

    private mutating func readPack() throws(ManifestFault) -> Manifest.Pack {
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
                    throw ManifestFault("the pack's location is given twice", "write one of “url” and “urls”, once")
                }
                urls = isList ? try readPackURLs() : [try readURL()]
            } else if equals(key, "size") {
                place.enter("size")
                guard size == nil else { throw reader.duplicateKey(key) }
                size = try reader.integer()
            } else if equals(key, "sha256") {
                place.enter("sha256")
                guard digest == nil else { throw reader.duplicateKey(key) }
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

    private mutating func readPackURLs() throws(ManifestFault) -> [String] {
        var urls: [String] = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            try check(urls.count, below: limits.urlsPerFile, "URLs")
            urls.append(try readURL())
        }
        return urls
    }

    private mutating func readURL() throws(ManifestFault) -> String {
        let url = try reader.string()
        try URLRules.check(url, limit: limits.urlBytes, schemes: limits.schemes)
        return String(decoding: url, as: UTF8.self)
    }

    mutating func missing(_ key: StaticString) -> ManifestFault {
        place.enter(key)
        return ManifestFault("the key is missing", "add “\(key)”")
    }
}

/// Manifests with a dictionary, version 3 of the format.
extension ManifestDecoder {
    /// `[pack index, offset, stored length, raw length, codec, raw sha256]`
    mutating func readDictionary() throws(ManifestFault) {
        let (blob, digest) = try readOwnBlob("the dictionary", refusal: "the dictionary needs itself")
        guard max(blob.rawLength, blob.storedLength) <= Manifest.SharedDictionary.longest else {
            place.part = 3
            throw ManifestFault(
                "the dictionary has \(max(blob.rawLength, blob.storedLength)) bytes, above the limit of "
                    + "\(Manifest.SharedDictionary.longest)", "make a shorter one")
        }
        dictionary = Manifest.SharedDictionary(blob: blob, digest: digest)
    }

    /// Reads a blob that is no file's: it names its SHA-256, and is decoded without the dictionary.
    mutating func readOwnBlob(_ what: String, refusal: String) throws(ManifestFault) -> (
        blob: Blob, digest: SHA256Digest
    ) {
        var blob = try readBlob()
        guard blob.digestIndex != nil, let digest = files.blobDigests.popLast() else {
            throw ManifestFault("\(what) has no SHA-256", "add it as the 6th member")
        }
        guard !blob.codec.needsDictionary else {
            place.part = 4
            throw ManifestFault(refusal, "store it with “none” or “zstd”")
        }
        blob.digestIndex = nil
        return (blob, digest)
    }

    /// It lies in its pack.
    func checkOwnBlob(_ what: String, _ blob: Blob) throws(ManifestFault) {
        let number = Int(blob.pack)
        guard number < packs.count else {
            throw ManifestFault("pack \(number) does not exist; “packs” has \(packs.count)", "count packs from 0")
        }
        guard blob.range.upperBound <= packs[number].size else {
            throw ManifestFault(
                "\(what) ends at byte \(blob.range.upperBound), and pack \(number) has " + "\(packs[number].size)",
                "correct the offset, the length or the pack's size")
        }
    }

    /// It stands in its version only, and lies in its pack.
    mutating func checkDictionary() throws(ManifestFault) {
        guard let dictionary else { return try checkDictionaryIsHere() }
        place = JSONPosition()
        place.enter(section: "dictionary")
        guard version >= 3 else {
            throw ManifestFault("version \(version) has no “dictionary”", "write “\(Self.formatName)3” in “format”")
        }
        try checkOwnBlob("the dictionary", dictionary.blob)
        place = JSONPosition()
    }

    /// Blobs that need one have one.
    mutating func checkDictionaryIsHere() throws(ManifestFault) {
        guard dictionary == nil, let needsDictionary else { return }
        place = needsDictionary.place
        throw ManifestFault(
            "the blob is “\(needsDictionary.codec.name)”, but there is no “dictionary”",
            "name it, and write “\(Self.formatName)3” in “format”")
    }
}
