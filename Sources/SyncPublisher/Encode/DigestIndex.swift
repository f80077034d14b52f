import SyncModel

/// Maps digests, which are kept elsewhere, to numbers in **8 to 16 bytes** each; a Dictionary takes 50 to 100.
///
/// Open addressing with linear probing, at most half full. D. Knuth, "The Art of Computer Programming", volume 3,
/// section 6.4, algorithm L.
struct DigestIndex {
    /// A number plus one; 0 is free.
    private var slots: [UInt32] = Array(repeating: 0, count: 64)
    private(set) var count = 0

    /// The number with this digest, if any; `digestOf` returns the digest of each number. Where only the head of one of
    /// the two is known, heads are compared.
    func find(_ digest: SHA256Digest, _ digestOf: (UInt32) -> SHA256Digest) -> UInt32? {
        var slot = start(digest)
        while slots[slot] != 0 {
            let number = slots[slot] - 1
            if digestOf(number).agrees(with: digest) { return number }
            slot = (slot + 1) & (slots.count - 1)
        }
        return nil
    }

    /// Adds a number, below 2³²-1, whose digest is not in the index yet.
    mutating func insert(_ number: UInt32, _ digestOf: (UInt32) -> SHA256Digest) {
        if (count + 1) * 2 > slots.count { grow(digestOf) }
        put(number, digestOf(number))
        count += 1
    }

    private mutating func grow(_ digestOf: (UInt32) -> SHA256Digest) {
        let old = slots
        slots = Array(repeating: 0, count: old.count * 2)
        for slot in old where slot != 0 { put(slot - 1, digestOf(slot - 1)) }
    }

    private mutating func put(_ number: UInt32, _ digest: SHA256Digest) {
        var slot = start(digest)
        while slots[slot] != 0 { slot = (slot + 1) & (slots.count - 1) }
        slots[slot] = number + 1
    }

    /// Seeded per process, so that nobody can construct files that collide.
    private func start(_ digest: SHA256Digest) -> Int { digest.head.hashValue & (slots.count - 1) }
}
