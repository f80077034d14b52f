import SyncModel

extension ManifestDecoder {
    /// The most raw bytes a stored byte of zstd can give: the smallest block has 4 bytes, the largest gives
    /// 128 KiB. RFC 8878 sections 3.1.1.2 and 3.1.1.2.4. More than that is a bomb, or a mistake (V46).
    static let zstdRatio: UInt64 = (128 << 10) / 4

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
        var blob = Blob(pack: 0, codec: .identity, digestIndex: nil, offset: 0, storedLength: 0, rawLength: 0)
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
        if equals(name, "zstd") { return .zstd }
        if equals(name, "none") { return .identity }
        if equals(name, "zstd-dictionary") {
            needsDictionary = needsDictionary ?? place
            return .zstdDictionary
        }
        throw ManifestFault("unknown codec \(quoted(name))", "use “none”, “zstd” or “zstd-dictionary”")
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
        switch blob.codec {
        case .identity:
            guard blob.storedLength == blob.rawLength else {
                throw ManifestFault(
                    "the raw length \(blob.rawLength) is not the stored length \(blob.storedLength), "
                        + "and the codec is “none”",
                    "name the codec, or make them equal"
                )
            }
        case .zstd, .zstdDictionary:
            guard blob.rawLength / Self.zstdRatio <= blob.storedLength else {
                throw ManifestFault(
                    "\(blob.storedLength) bytes of zstd cannot hold \(blob.rawLength)",
                    "correct the lengths"
                )
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
                throw ManifestFault(
                    "one of several blobs has no SHA-256 of its own",
                    "add it as the 6th member"
                )
            }
        }
        guard sum == row.size else {
            throw ManifestFault(
                "the blobs give \(sum) bytes, and the file has \(row.size)",
                "correct “size” or the raw lengths"
            )
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
