import SyncModel

/// Manifests with a dictionary, version 3 of the format.
extension ManifestDecoder {
    /// `[pack index, offset, stored length, raw length, codec, raw sha256]`
    mutating func readDictionary() throws(ManifestFault) {
        let (blob, digest) = try readOwnBlob("the dictionary", refusal: "the dictionary needs itself")
        guard max(blob.rawLength, blob.storedLength) <= Manifest.SharedDictionary.longest else {
            place.part = 3
            throw ManifestFault(
                "the dictionary has \(max(blob.rawLength, blob.storedLength)) bytes, above the limit of "
                    + "\(Manifest.SharedDictionary.longest)",
                "make a shorter one"
            )
        }
        dictionary = Manifest.SharedDictionary(blob: blob, digest: digest)
    }

    /// Reads a blob that is no file's: it names its SHA-256, and is decoded without the dictionary.
    ///
    /// - Parameters:
    ///   - what: What it holds.
    ///   - refusal: What is wrong when it needs the dictionary.
    mutating func readOwnBlob(
        _ what: String,
        refusal: String
    ) throws(ManifestFault) -> (blob: Blob, digest: SHA256Digest) {
        var blob = try readBlob()
        guard blob.digestIndex != nil, let digest = files.blobDigests.popLast() else {
            throw ManifestFault("\(what) has no SHA-256", "add it as the 6th member")
        }
        guard blob.codec != .zstdDictionary else {
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
            throw ManifestFault(
                "pack \(number) does not exist; “packs” has \(packs.count)",
                "count packs from 0"
            )
        }
        guard blob.range.upperBound <= packs[number].size else {
            throw ManifestFault(
                "\(what) ends at byte \(blob.range.upperBound), and pack \(number) has "
                    + "\(packs[number].size)",
                "correct the offset, the length or the pack's size"
            )
        }
    }

    /// It stands in its version only, and lies in its pack.
    mutating func checkDictionary() throws(ManifestFault) {
        guard let dictionary else { return try checkDictionaryIsHere() }
        place = Place()
        place.enter(section: "dictionary")
        guard version >= 3 else {
            throw ManifestFault(
                "version \(version) has no “dictionary”",
                "write “\(Self.formatName)3” in “format”"
            )
        }
        try checkOwnBlob("the dictionary", dictionary.blob)
        place = Place()
    }

    /// Blobs that need one have one.
    mutating func checkDictionaryIsHere() throws(ManifestFault) {
        guard dictionary == nil, let needsDictionary else { return }
        place = needsDictionary
        throw ManifestFault(
            "the blob is “\(Codec.zstdDictionary.name)”, but there is no “dictionary”",
            "name it, and write “\(Self.formatName)3” in “format”"
        )
    }
}
