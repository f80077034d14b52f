import SyncPublisher
import SyncTestKit
import Testing

@Suite("Looking for the bytes a blob was made of")
struct SimilarityIndexTests {
    private static let width: UInt64 = 192 << 10

    private func likest(_ raw: [UInt8], in region: [UInt8], gap: Range<Int>? = nil) -> Range<UInt64>? {
        var index = SimilarityIndex(length: UInt64(region.count))
        for start in stride(from: 0, to: region.count, by: 100_000) {
            let piece = start..<min(region.count, start + 100_000)
            if let gap, gap.overlaps(piece) {
                index.skip(UInt64(piece.count))
            } else {
                region[piece].withUnsafeBytes { index.add($0) }
            }
        }
        return raw.withUnsafeBytes { index.likest($0, width: Self.width) }
    }

    private func edited(_ bytes: ArraySlice<UInt8>, every distance: Int) -> [UInt8] {
        var bytes = Array(bytes)
        for position in stride(from: distance / 2, to: bytes.count, by: distance) { bytes[position] ^= 0x5A }
        return bytes
    }

    @Test("Bytes are found where they stand, although one in some hundreds changed", arguments: [200, 1_000, 30_000])
    func found(distance: Int) throws {
        let region = patternedBytes(size: 4_000_000, seed: 21)
        for start in [0, 1_234_567, 3_930_000] {
            let raw = edited(region[start..<(start + 70_000)], every: distance)
            let found = try #require(likest(raw, in: region))
            #expect(found.lowerBound <= start && found.upperBound >= start + 70_000, "\(found)")
            #expect(found.upperBound <= region.count && UInt64(found.count) <= Self.width)
        }
    }

    @Test("Where nothing is alike nothing is found, nor in bytes that stand everywhere")
    func nothing() {
        let region = patternedBytes(size: 1_000_000, seed: 22)
        #expect(likest(patternedBytes(size: 70_000, seed: 23), in: region) == nil)
        let block = patternedBytes(size: 50_000, seed: 24)
        #expect(likest(block, in: Array(repeating: block, count: 20).flatMap { $0 }) == nil)
        #expect(likest([UInt8](repeating: 0, count: 70_000), in: region) == nil)
        #expect(likest([], in: region) == nil)
        #expect(likest(block, in: []) == nil)
    }

    @Test("What could not be read moves nothing behind it")
    func gap() throws {
        let region = patternedBytes(size: 2_000_000, seed: 25)
        let found = try #require(likest(Array(region[1_500_000..<1_570_000]), in: region, gap: 300_000..<500_000))
        #expect(found.contains(1_535_000))
        #expect(likest(Array(region[320_000..<390_000]), in: region, gap: 300_000..<500_000) == nil)
    }

    @Test("Memory is bounded however long the region is", arguments: [0, 1_000, 1 << 30, 1 << 45] as [UInt64])
    func bounded(length: UInt64) { #expect((1...(16 << 20)).contains(SimilarityIndex.size(length: length))) }
}
