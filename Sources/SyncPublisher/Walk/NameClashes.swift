import SyncManifest

/// Names of one directory that some file systems consider equal.
enum NameClashes {
    enum Clash {
        /// Equal after Unicode normalisation: refused everywhere.
        case sameText(String, String)
        /// Equal if case is ignored: legal on Linux.
        case sameLetters(String, String)
    }

    /// Reports each name that clashes with one before it, in name order, with the first name that it equals.
    static func find(in listing: DirectoryListing, _ report: (Clash) -> Void) {
        guard listing.count > 1 else { return }
        let isASCII = (0..<listing.count).allSatisfy { listing.withName($0) { $0.allSatisfy { $0 < 0x80 } } }
        // String equality is canonical equivalence, which is what NFC decides. Bytes differ: one directory.
        let sameText = isASCII ? [:] : repeats(in: listing, isASCII: false) { $0 }
        let sameLetters = repeats(in: listing, isASCII: isASCII, form: caseFolded)
        guard !sameText.isEmpty || !sameLetters.isEmpty else { return }
        for index in 0..<listing.count {
            if let first = sameText[index] {
                report(.sameText(listing.withName(index, shown), listing.withName(first, shown)))
            } else if let first = sameLetters[index] {
                report(.sameLetters(listing.withName(first, shown), listing.withName(index, shown)))
            }
        }
    }

    /// The names that equal one before them in some form, each with the first of those.
    private static func repeats(in listing: DirectoryListing, isASCII: Bool, form: (String) -> String) -> [Int: Int] {
        func formed(_ index: Int) -> String { form(listing.withName(index) { String(decoding: $0, as: UTF8.self) }) }
        var hashed = (0..<listing.count).map { index in
            (hash: isASCII ? listing.withName(index, asciiHash) : formed(index).hashValue, index: index)
        }
        hashed.sort { ($0.hash, $0.index) < ($1.hash, $1.index) }
        var repeats: [Int: Int] = [:]
        var start = 0
        for (position, (hash, index)) in hashed.enumerated() {
            if hash != hashed[start].hash { start = position }
            guard start < position else { continue }
            let name = formed(index)
            repeats[index] = hashed[start..<position].first { formed($0.index) == name }?.index
        }
        return repeats
    }

    /// The same hash for names that are equal if case is ignored. FNV-1a, 64 bits.
    private static func asciiHash(_ name: UnsafeBufferPointer<UInt8>) -> Int {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name {
            let lower = byte &- 0x41 < 26 ? byte | 0x20 : byte
            hash = (hash ^ UInt64(lower)) &* 0x100_0000_01B3
        }
        return Int(truncatingIfNeeded: hash)
    }
}
