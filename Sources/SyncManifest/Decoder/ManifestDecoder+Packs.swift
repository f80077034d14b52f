import SyncModel

extension ManifestDecoder {
    mutating func readPacks() throws(ManifestFault) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "packs", entry: packs.count)
            try check(packs.count, below: limits.packs, "packs")
            let pack = try readPack()
            // Its record, and its place in the tables of who looks packs up.
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
                    throw ManifestFault(
                        "the pack's location is given twice",
                        "write one of “url” and “urls”, once"
                    )
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
