/// Names of one directory that some file systems consider equal (V13).
enum NameClashes {
    enum Clash {
        /// Equal after Unicode normalisation: refused everywhere.
        case sameText(String, String)
        /// Equal if case is ignored: legal on Linux.
        case sameLetters(String, String)
    }

    /// Reports each name that clashes with one before it, in name order.
    static func find(in listing: DirectoryListing, _ report: (Clash) -> Void) {
        guard listing.count > 1 else { return }
        let ascii = (0..<listing.count).allSatisfy { listing.withName($0) { $0.allSatisfy { $0 < 0x80 } } }
        var folded: [(hash: UInt64, index: Int)] = []
        folded.reserveCapacity(listing.count)
        for index in 0..<listing.count {
            folded.append((listing.withName(index, ascii ? asciiHash : textHash), index))
        }
        folded.sort { ($0.hash, $0.index) < ($1.hash, $1.index) }
        var clashes: [(index: Int, clash: Clash)] = []
        for position in 1..<folded.count where folded[position].hash == folded[position - 1].hash {
            let a = listing.withName(folded[position - 1].index) { String(decoding: $0, as: UTF8.self) }
            let b = listing.withName(folded[position].index) { String(decoding: $0, as: UTF8.self) }
            // String equality is canonical equivalence, which is what NFC decides. Bytes differ: one directory.
            if a == b {
                clashes.append((folded[position].index, .sameText(shown(b), shown(a))))
            } else if a.lowercased() == b.lowercased() {
                clashes.append((folded[position].index, .sameLetters(shown(a), shown(b))))
            }
        }
        for (_, clash) in clashes.sorted(by: { $0.index < $1.index }) { report(clash) }
    }

    /// The same hash for names that are equal if case is ignored. FNV-1a, 64 bits.
    private static func asciiHash(_ name: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name {
            let lower = byte &- 0x41 < 26 ? byte | 0x20 : byte
            hash = (hash ^ UInt64(lower)) &* 0x100_0000_01B3
        }
        return hash
    }

    /// The same hash for names that are equal if case and normalisation are ignored: text is hashed in its normal form.
    private static func textHash(_ name: UnsafeBufferPointer<UInt8>) -> UInt64 {
        UInt64(bitPattern: Int64(String(decoding: name, as: UTF8.self).lowercased().hashValue))
    }
}
