import Foundation
import SyncContent
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncFiles

@Suite("Files that come in ranges", .timeLimit(.minutes(10)))
struct WrittenRangesTests {
    private let root: TemporaryRoot
    private static let size = 300_000
    private let bytes = patternedBytes(size: size, seed: 11)

    init() throws { root = try TemporaryRoot() }

    private func part(_ name: String = "part") throws -> PartFile {
        let raw = open(root.path(name), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0)
        let digest = try FilesFixture.digest(bytes)
        return try PartFile(
            descriptor: Descriptor(owning: raw),
            staged: Staging.File(lane: 0, digest: digest, isPart: true), digest: digest,
            ends: [UInt64(Self.size)])
    }

    private func put(_ range: Range<Int>, to part: PartFile, of source: [UInt8]? = nil) -> PartFile.Progress {
        (source ?? bytes)[range].withUnsafeBytes { part.put($0, at: UInt64(range.lowerBound)) }
    }

    /// The file in pieces of odd lengths, in an order that the seed gives.
    private static func pieces(seed: UInt64) -> [Range<Int>] {
        var numbers = patternedBytes(size: 4_000, seed: seed).makeIterator()
        var pieces: [Range<Int>] = []
        var start = 0
        while start < size {
            let length = 1 + Int(numbers.next() ?? 0) * 100
            pieces.append(start..<min(size, start + length))
            start += length
        }
        for index in pieces.indices.reversed() {
            let other = (Int(numbers.next() ?? 0) << 8 + Int(numbers.next() ?? 0)) % (index + 1)
            pieces.swapAt(index, other)
        }
        return pieces
    }

    @Test("Ranges in any order give the file, without a record behind its end", arguments: 0..<20)
    func orders(seed: UInt64) throws {
        let part = try part()
        let progress = Self.pieces(seed: seed).map { put($0, to: part) }
        #expect(progress.dropLast().allSatisfy { $0 == .incomplete })
        #expect(progress.last == .verified && part.gaps == [])
        #expect(root.read("part") == bytes)
    }

    @Test("After a kill at any moment, every byte that was written is taken over", arguments: 0..<20)
    func kills(seed: UInt64) throws {
        let pieces = Self.pieces(seed: seed)
        var written = [Bool](repeating: false, count: Self.size)
        var part = try part()
        for (number, piece) in pieces.enumerated() {
            let progress = put(piece, to: part)
            for place in piece { written[place] = true }
            let isLast = number + 1 == pieces.count
            #expect(progress == (isLast ? .verified : .incomplete))
            guard !isLast, number % 5 == 0 else { continue }
            part = try self.part()
            #expect(part.adoptRanges() == UInt64(written.count { $0 }))
            let missing = part.gaps.reduce(into: 0) { $0 += $1.count }
            #expect(missing == written.count { !$0 })
            #expect(part.gaps.allSatisfy { gap in gap.allSatisfy { !written[Int($0)] } })
        }
        #expect(root.read("part") == bytes)
    }

    @Test("Bytes that came in order need no record: the length says how many they are")
    func prefix() throws {
        let first = try part()
        #expect(put(0..<1, to: first) == .incomplete && put(1..<131_073, to: first) == .incomplete)
        #expect(root.read("part")?.count == 131_073)
        let second = try part()
        #expect(second.adoptRanges() == 131_073 && second.gaps == [131_073..<UInt64(Self.size)])
        #expect(put(131_073..<Self.size, to: second) == .verified)
        #expect(root.read("part") == bytes)
    }

    @Test("What an earlier run left is not read after a stop, and nothing is lost [S100]")
    func stopped() throws {
        try root.write(Array(bytes[..<150_000]), to: "part")
        let part = try part()
        #expect(part.adoptRanges() == 150_000)
        let rest = bytes[150_000...].withUnsafeBytes { part.put($0, at: 150_000, isStopped: { true }) }
        #expect(rest == .incomplete && part.gaps == [])
        #expect(root.read("part") == bytes)
    }

    @Test("Threads that write ranges of one file verify it exactly once", arguments: 0..<20)
    func threads(round: Int) throws {
        let part = try part("part\(round)")
        let pieces = Self.pieces(seed: UInt64(round))
        let ends = concurrently(4, name: "part") { thread -> [PartFile.Progress] in
            pieces.indices.filter { $0 % 4 == thread }.map { put(pieces[$0], to: part) }
        }.flatMap { $0 }
        #expect(ends.count { $0 == .verified } == 1 && ends.count { $0 == .incomplete } == pieces.count - 1)
        #expect(root.read("part\(round)") == bytes)
    }

    @Test("Wrong bytes are a mismatch, and all of the file is fetched again")
    func mismatch() throws {
        var wrong = bytes
        wrong[100_000] ^= 1
        let part = try part()
        #expect(put(200_000..<Self.size, to: part, of: wrong) == .incomplete)
        #expect(put(0..<200_000, to: part, of: wrong) == .mismatch)
        part.reopen(bad: [0])
        #expect(part.gaps == [0..<UInt64(Self.size)])
        #expect(try self.part().adoptRanges() == 0, "nothing of it is taken over by a later run")
        #expect(put(0..<200_000, to: part) == .incomplete && put(200_000..<Self.size, to: part) == .verified)
        #expect(root.read("part") == bytes)
    }

    @Test("Where a power cut took the bytes, the record is not believed")
    func holes() throws {
        let raw = open(root.path("part"), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0)
        defer { close(raw) }
        let record = RangeRecord(descriptor: raw, size: UInt64(Self.size))
        #expect(record.read() == nil)
        #expect(bytes[..<65_536].withUnsafeBytes { writeAll($0, to: raw, at: 0) } == nil)
        #expect(bytes[131_072..<196_608].withUnsafeBytes { writeAll($0, to: raw, at: 131_072) } == nil)
        #expect(record.write(WrittenRanges([0..<100_000, 131_072..<150_000, 200_000..<300_000])) == nil)
        #expect(record.read()?.ranges == [0..<65_536, 131_072..<150_000])
    }

    @Test("What is no record of this file says nothing", arguments: ["size", "magic", "torn", "beyond", "backwards"])
    func foreign(how: String) throws {
        let size = UInt64(Self.size)
        let raw = open(root.path("part"), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0)
        defer { close(raw) }
        let record = RangeRecord(descriptor: raw, size: how == "size" ? size - 1 : size)
        #expect(bytes.withUnsafeBytes { writeAll($0, to: raw, at: 0) } == nil)
        #expect(record.write(WrittenRanges([0..<10])) == nil)
        let start = (size + 4_095) / 4_096 * 4_096
        func change(_ place: UInt64, _ new: [UInt8]) {
            #expect(new.withUnsafeBytes { writeAll($0, to: raw, at: start + place) } == nil)
        }
        switch how {
        case "magic": change(0, [0])
        case "torn": #expect(setLength(raw, start + 8_000) == nil)
        case "beyond": change(24, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF])
        case "backwards": change(16, [11])
        default: break
        }
        #expect(try part().adoptRanges() == 0)
    }

    // MARK: - The pure part

    @Test("The record has every range in a place of its own, whatever is inserted", arguments: 0..<50)
    func record(seed: UInt64) {
        var numbers = patternedBytes(size: 600, seed: seed).makeIterator()
        var (written, all) = (WrittenRanges(), [Bool](repeating: false, count: 512))
        var places: [Int: Range<UInt64>] = [:]
        for _ in 0..<60 {
            let low = UInt64(numbers.next() ?? 0) + UInt64(numbers.next() ?? 0)
            let high = min(512, low + UInt64(numbers.next() ?? 0) % 20)
            guard low <= high else { continue }
            for place in low..<high { all[Int(place)] = true }
            for change in written.insert(low..<high) {
                places[change.place] = change.range.isEmpty ? nil : change.range
                // Whenever a kill comes, what the record says is here.
                for range in places.values { #expect(range.allSatisfy { all[Int($0)] }) }
            }
            #expect(Set(places.values) == Set(written.ranges))
            #expect(written.byteCount == UInt64(all.count { $0 }))
            let gaps = written.gaps(in: 512)
            #expect(gaps.allSatisfy { gap in gap.allSatisfy { !all[Int($0)] } })
            #expect(gaps.reduce(0) { $0 + $1.count } == all.count { !$0 })
            for place in 0..<512 {
                let end = all[place...].firstIndex(of: false) ?? 512
                #expect(written.end(from: UInt64(place)) == UInt64(end))
            }
        }
    }
}
