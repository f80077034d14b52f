import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

@Suite(.timeLimit(.minutes(10)))
struct ChunkTests {
    static let small = ChunkParameters(minimum: 2 << 10, average: 8 << 10, maximum: 32 << 10)

    static func bytes(_ size: Int, seed: UInt64 = 1) -> [UInt8] {
        var tree = AssetTree()
        tree.addFile("x", size: size, seed: seed)
        return tree.bytes("x") ?? []
    }

    /// Lengths of all chunks.
    static func cut(_ bytes: [UInt8], _ parameters: ChunkParameters = small) -> [Int] {
        let cutter = ChunkCutter(parameters)
        return bytes.withUnsafeBytes { all in
            var lengths: [Int] = []
            var start = 0
            while start < all.count {
                let length = cutter.firstChunk(of: UnsafeRawBufferPointer(rebasing: all[start...]))
                lengths.append(length)
                start += length
            }
            return lengths
        }
    }

    @Test("The gear table is what it always was")
    func gearTable() {
        let table = ChunkCutter.gearTable()
        #expect(table.count == 256)
        #expect(Set(table).count == 256)
        #expect(table.first == 3_220_344_897_584_144_929)
        #expect(table.reduce(0, ^) == 12_180_341_123_849_491_821)
    }

    @Test("Chunks keep their limits and give the whole", arguments: [0, 1, 2_048, 2_049, 32_768, 1_000_000])
    func limits(size: Int) {
        let lengths = Self.cut(Self.bytes(size))
        #expect(lengths.reduce(0, +) == size)
        #expect(lengths.allSatisfy { $0 <= 32 << 10 })
        #expect(lengths.dropLast().allSatisfy { $0 >= 2 << 10 })
    }

    @Test("Chunks are about as long as asked for")
    func average() {
        let lengths = Self.cut(Self.bytes(4 << 20))
        let average = (4 << 20) / lengths.count
        #expect((6 << 10...12 << 10).contains(average), "\(average)")
    }

    @Test("Equal bytes without end give the longest chunks")
    func zeros() {
        let lengths = Self.cut([UInt8](repeating: 0, count: 100_000))
        #expect(lengths == [32_768, 32_768, 32_768, 1_696])
    }

    @Test("Bytes inserted or removed move only the chunks around them", arguments: [1, 100, 4_096, 200_000])
    func stableUnderInsertion(position: Int) {
        let before = Self.bytes(1 << 20)
        func chunks(_ bytes: [UInt8]) -> Set<ArraySlice<UInt8>> {
            var start = 0
            var all: Set<ArraySlice<UInt8>> = []
            for length in Self.cut(bytes) {
                all.insert(bytes[start..<(start + length)])
                start += length
            }
            return all
        }
        let old = chunks(before)
        var inserted = before
        inserted.insert(contentsOf: Self.bytes(4_096, seed: 9), at: position)
        #expect(chunks(inserted).subtracting(old).count <= 8)
        var removed = before
        removed.removeSubrange(position..<(position + 4_096))
        #expect(chunks(removed).subtracting(old).count <= 8)
    }

    @Test("An update of a large file writes the changed chunks only, of a moved one nothing")
    func updateOfLargeFile() throws {
        let set = try PublishedSet()
        var content = Self.bytes(1 << 20)
        try set.root.write(content, to: "in/model.ifc")
        try set.publish()
        content.insert(contentsOf: Self.bytes(4_096, seed: 9), at: 5_000)
        try set.root.write(content, to: "in/model.ifc")
        let edited = try set.publish()
        #expect(edited.newBytes > 4_096 && edited.newBytes < 100_000)
        try set.root.write(content, to: "in/deep/copy.ifc")
        #expect(try set.publish().newBytes == 0)
        #expect(try set.unpacked().bytes("deep/copy.ifc") == content)
    }

    @Test("A file with holes is published as one that has zeros there", arguments: [0, 3 << 20])
    func holes(position: Int) throws {
        let data = Self.bytes(100_000)
        var content = [UInt8](repeating: 0, count: 9 << 20)
        content.replaceSubrange(position..<(position + data.count), with: data)
        let written = try PublishedSet()
        try written.root.write(content, to: "in/disk.img")
        try written.publish()
        let sparse = try PublishedSet()
        let file = open(sparse.root.path("in/disk.img"), O_RDWR | O_CREAT, 0o644)
        defer { close(file) }
        try #require(file >= 0 && ftruncate(file, off_t(content.count)) == 0)
        #expect(data.withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, off_t(position)) } == data.count)
        try sparse.publish()
        #expect(try sparse.bytes(below: "out") == written.bytes(below: "out"))
        #expect(try sparse.unpacked().bytes("disk.img") == content)
    }

    @Test(
        "Parameters that make no sense are a usage error",
        arguments: [(10, 100, 1_000), (200, 100, 1_000), (100, 2_000, 1_000), (64, 1 << 20, 32 << 20)])
    func badParameters(minimum: Int, average: Int, maximum: Int) throws {
        let set = try PublishedSet()
        let error = set.failure { $0.chunks = ChunkParameters(minimum: minimum, average: average, maximum: maximum) }
        #expect(error?.exitStatus == .usage)
    }
}
