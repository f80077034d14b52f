/// Decides where the parts of a manifest end: by paths and weights of entries, so that entries that come or go move
/// only the borders around them. `Manifests/FORMAT.md` describes it; readers need not know.
package struct PartCutter: Sendable {
    /// Fewest entries of a part, but for the last.
    package static let minimum = 256
    /// Entries after the fewest until a border comes, on average. Measured: with parts of about a thousand entries an
    /// update of a few directories costs the least, root included, at a million entries.
    package static let distance = 768
    /// Most entries of a part.
    package static let maximum = 4_096
    /// Most **bytes** of a part's text, about, unless one entry alone is longer.
    package static let weight = 4 << 20

    private var entries = 0
    private var weight = 0

    package init() {}

    /// Whether the next entry begins a new part; the first one does not.
    ///
    /// - Parameter own: The **bytes** of its text, about; must depend on nothing but its path and its content.
    package mutating func isBorder(before path: UnsafeBufferPointer<UInt8>, weight own: Int) -> Bool {
        let isBorder =
            entries >= Self.maximum || entries > 0 && weight + own > Self.weight
            || entries >= Self.minimum && Self.hash(path) < UInt64.max / UInt64(Self.distance)
        if isBorder { (entries, weight) = (0, 0) }
        entries += 1
        weight += own
        return isBorder
    }

    /// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo; draft-eastlake-fnv) of 64 bits, finished as in SplitMix64: the high
    /// bits of FNV alone say little about the last bytes.
    package static func hash(_ path: UnsafeBufferPointer<UInt8>) -> UInt64 {
        var value: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in path { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
