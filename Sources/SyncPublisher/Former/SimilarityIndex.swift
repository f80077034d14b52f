import SyncManifest

/// Finds where a region of a file's former version has bytes in common with a blob of the new one.
///
/// Fingerprints of 64 bytes are sampled by content, so both versions sample the same ones wherever they are: U. Manber,
/// "Finding Similar Files in a Large File System", USENIX Winter 1994. Takes at most **16 MiB**, whatever the region's
/// length.
package struct SimilarityIndex: Sendable {
    /// Most fingerprints expected; a longer region is sampled more sparsely.
    private static let mostSamples: UInt64 = 1 << 20
    /// One position in this many **bytes** is sampled, or fewer.
    private static let density: UInt64 = 64
    /// The low bits of a slot are where a fingerprint ends, 0 for none; the high bits identify the fingerprint.
    private static let positionBits: UInt64 = 40
    private static let positions: UInt64 = 1 << positionBits - 1
    /// Position of a fingerprint that occurs more than once, and is of no use.
    private static let ambiguous = positions

    /// The gear hash of the last 64 bytes, and whether the position is sampled.
    private struct Sampler {
        private static let gear = ChunkCutter.gearTable()
        private let gear = Sampler.gear
        private let limit: UInt64
        private(set) var hash: UInt64 = 0
        private var count = 0

        /// Samples one position in `distance` **bytes**.
        init(distance: UInt64) { limit = UInt64.max / distance }

        /// Takes the next byte.
        mutating func isSampled(behind byte: UInt8) -> Bool {
            hash = (hash << 1) &+ gear[Int(byte)]
            count &+= 1
            return hash <= limit && count >= ChunkCutter.window
        }
    }

    private let distance: UInt64
    private var slots: [UInt64]
    private var sampler: Sampler
    private var length: UInt64 = 0

    /// **Bytes** of memory for the index of a region of `length` bytes.
    package static func size(length: UInt64) -> Int { slotCount(length) * MemoryLayout<UInt64>.size }

    private static func slotCount(_ length: UInt64) -> Int {
        let samples = min(mostSamples, max(16, length / density))
        return 1 << (UInt64.bitWidth - (samples * 2 - 1).leadingZeroBitCount)
    }

    /// An empty index.
    ///
    /// - Parameter length: **Bytes** that will be added.
    package init(length: UInt64) {
        distance = max(Self.density, length / Self.mostSamples)
        sampler = Sampler(distance: distance)
        slots = [UInt64](repeating: 0, count: Self.slotCount(length))
    }

    /// Adds the next bytes of the region.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            length += 1
            guard sampler.isSampled(behind: byte) else { continue }
            let (slot, tag) = place(sampler.hash)
            let known = slots[slot]
            if known == 0 {
                slots[slot] = tag | min(length, Self.ambiguous)
            } else if known & ~Self.positions == tag {
                slots[slot] = tag | Self.ambiguous
            }
        }
    }

    /// Skips unknown bytes.
    package mutating func skip(_ count: UInt64) {
        sampler = Sampler(distance: distance)
        length += count
    }

    private func place(_ hash: UInt64) -> (slot: Int, tag: UInt64) {
        let mixed = hash &* 0x9E37_79B9_7F4A_7C15
        return (Int(mixed >> 32) & (slots.count - 1), mixed << Self.positionBits)
    }

    /// The `width` **bytes** of the region that share the most fingerprints with `raw`; `nil` if none is shared.
    package func likest(_ raw: UnsafeRawBufferPointer, width: UInt64) -> Range<UInt64>? {
        var hits: [UInt64] = []
        var sampler = Sampler(distance: distance)
        for byte in raw where sampler.isSampled(behind: byte) {
            let (slot, tag) = place(sampler.hash)
            let position = slots[slot] & Self.positions
            if position != 0, position != Self.ambiguous, slots[slot] & ~Self.positions == tag { hits.append(position) }
        }
        hits.sort()
        var best = (first: 0, count: 0)
        var last = 0
        for first in hits.indices {
            while last < hits.count, hits[last] - hits[first] < width { last += 1 }
            if last - first > best.count { best = (first, last - first) }
        }
        guard best.count > 0 else { return nil }
        let (low, high) = (hits[best.first], hits[best.first + best.count - 1])
        let start = (low + (high - low) / 2).subtractingReportingOverflow(width / 2)
        let from = start.overflow ? 0 : min(start.partialValue, length - min(length, width))
        return from..<min(length, from + width)
    }
}
