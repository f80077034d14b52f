import SyncContent
import SyncModel
import SyncTestKit
import Testing

@testable import SyncServer

/// Blobs side by side, each of so many stored bytes, from an offset on.
private func blobs(_ lengths: [UInt64], from start: UInt64 = 0) -> [BlobCheck] {
    var offset = start
    return lengths.map { length in
        defer { offset += length }
        return BlobCheck(
            offset: offset, storedLength: length, rawLength: length, codec: .identity, digest: SHA256Digest.zero)
    }
}

@Suite("Slices of a pack", .timeLimit(.minutes(10)))
struct PackMapTests {
    /// Blobs of 100 to 900 KiB, together about 20 MiB.
    private static let lengths: [UInt64] = (0..<40).map { 102_400 + UInt64($0 * 7919 % 820_000) }
    private static let size = lengths.reduce(0, +)

    @Test("They begin and end with a blob, are short, and leave nothing out")
    func covering() throws {
        let all = blobs(Self.lengths)
        let map = PackMap(size: Self.size, found: all.reversed(), dictionary: nil)
        #expect(map.blobs == all)
        let starts = Set(all.map(\.offset)).union([Self.size])
        var offset: UInt64 = 0
        while offset < Self.size {
            let (range, check) = try #require(map.slice(at: offset, until: Self.size) { _ in false })
            #expect(range.contains(offset) && starts.contains(range.lowerBound) && starts.contains(range.upperBound))
            #expect(range.upperBound - range.lowerBound < PackMap.longestSlice + PackMap.step + 1_000_000)
            guard case .blobs(let proofs, _) = check else { throw Wrong() }
            #expect(proofs.first?.offset == range.lowerBound && proofs.last?.end == range.upperBound)
            #expect(map.check(of: range) != nil)
            offset = range.upperBound
        }
        // A byte is asked for: the slice is that of its MiB.
        let (one, _) = try #require(map.slice(at: 5_000_000, until: 5_000_001) { _ in false })
        #expect(one.upperBound - one.lowerBound < 2 << 20)
        // What is there is not fetched again.
        let (cut, _) = try #require(map.slice(at: 0, until: Self.size) { $0 >= 1 << 20 })
        #expect(cut.upperBound < 2 << 20)
    }

    @Test("They stay the same when a later manifest knows more blobs")
    func stable() throws {
        let all = blobs(Self.lengths)
        let (early, late) = (Array(all[..<25]), Array(all[12...]))
        let first = PackMap(size: Self.size, found: early, dictionary: nil)
        let merged = PackMap(size: Self.size, found: late, dictionary: nil).adding(first)
        #expect(merged.blobs == all)
        let (before, _) = try #require(first.slice(at: 3_000_000, until: 3_000_001) { _ in false })
        let (after, _) = try #require(merged.slice(at: 3_000_000, until: 3_000_001) { _ in false })
        #expect(before == after)
    }

    @Test("Where blobs are not known only the whole pack is proved; blobs that cannot be are left out")
    func gaps() {
        var all = blobs(Self.lengths)
        let gap = all.remove(at: 20)
        let map = PackMap(size: Self.size, found: all, dictionary: nil)
        #expect(map.slice(at: gap.offset, until: gap.end) { _ in false } == nil)
        #expect(map.slice(at: gap.offset - 1, until: gap.end) { _ in false } == nil)
        #expect(map.slice(at: gap.offset - 1, until: gap.offset) { _ in false } != nil)
        #expect(map.check(of: 0..<Self.size) == nil)
        // One over another, one past the end, one whose dictionary is not known.
        var odd = blobs([1_000, 1_000])
        odd.append(contentsOf: blobs([500], from: 700))
        odd.append(contentsOf: blobs([500], from: 1_900))
        odd.append(contentsOf: blobs([1_000], from: 9_500))
        var needy = blobs([100], from: 5_000)
        needy[0].codec = .zstdDictionary
        let checked = PackMap(size: 10_000, found: odd + needy, dictionary: nil)
        #expect(checked.blobs == blobs([1_000, 1_000]))
        #expect(PackMap(size: 0, found: [], dictionary: nil).slice(at: 0, until: 1) { _ in false } == nil)
    }

    private struct Wrong: Error {}
}

@Suite("What a slice is proved by", .timeLimit(.minutes(10)))
struct SliceVerifierTests {
    /// Stored bytes and what proves them: plain ones and frames in turns.
    private static func slice() throws -> (bytes: [UInt8], blobs: [BlobCheck]) {
        var (bytes, checks): ([UInt8], [BlobCheck]) = ([], [])
        var compressor = try BlobCompressor(level: 3)
        for number in 0..<12 {
            let raw = number % 2 == 0 ? patternedBytes(size: 70_001, seed: UInt64(number)) : text(number)
            let frame = number % 2 == 0 ? raw : try frame(of: raw, &compressor)
            checks.append(
                BlobCheck(
                    offset: UInt64(1_000 + bytes.count), storedLength: UInt64(frame.count),
                    rawLength: UInt64(raw.count),
                    codec: number % 2 == 0 ? .identity : .zstd, digest: try sha256(raw)))
            bytes += frame
        }
        return (bytes, checks)
    }

    private static func frame(of raw: [UInt8], _ compressor: inout BlobCompressor) throws -> [UInt8] {
        var room = [UInt8](repeating: 0, count: BlobCompressor.bound(raw.count))
        let count = try raw.withUnsafeBytes { raw in
            try room.withUnsafeMutableBytes { try compressor.encode(raw, into: $0) }
        }
        return Array(room[..<(count ?? 0)])
    }

    private static func text(_ number: Int) -> [UInt8] {
        Array((0..<40_000).map { "\(number) is not \($0)\n" }.joined().utf8)
    }

    /// Feeds bytes in pieces; how far they are proved, and whether all of them are right.
    private static func prove(_ bytes: [UInt8], _ check: SliceCheck, from start: UInt64, by step: Int) throws -> (
        UInt64, Bool
    ) {
        var verifier = try SliceVerifier(check, from: start)
        for first in stride(from: 0, to: bytes.count, by: step) {
            let piece = Array(bytes[first..<min(bytes.count, first + step)])
            guard piece.withUnsafeBytes({ verifier.take($0) }) else { return (verifier.proven, false) }
        }
        let isRight = verifier.end(at: start + UInt64(bytes.count))
        return (verifier.proven, isRight)
    }

    @Test("Right bytes are proved, in whatever pieces they come", arguments: [1_009, 16_384, 131_072, 10_000_000])
    func right(step: Int) throws {
        let (bytes, blobs) = try Self.slice()
        let (proven, isRight) = try Self.prove(bytes, .blobs(blobs, nil), from: 1_000, by: step)
        #expect(isRight && proven == 1_000 + UInt64(bytes.count))
        #expect(try Self.prove(bytes, .whole(sha256(bytes)), from: 0, by: step).1)
    }

    @Test("A wrong byte anywhere is found with its blob, and nothing behind the blobs before it counts as proved")
    func wrong() throws {
        let (bytes, blobs) = try Self.slice()
        for blob in blobs {
            for place in [blob.offset, blob.offset + blob.storedLength / 2, blob.end - 1] {
                var bad = bytes
                bad[Int(place - 1_000)] ^= 1
                let (proven, isRight) = try Self.prove(bad, .blobs(blobs, nil), from: 1_000, by: 16_384)
                #expect(!isRight && proven == blob.offset, "\(place)")
            }
        }
        #expect(try !Self.prove(Array(bytes.dropLast()), .blobs(blobs, nil), from: 1_000, by: 16_384).1)
        #expect(try !Self.prove(bytes + [0], .blobs(blobs, nil), from: 1_000, by: 16_384).1)
        var lies = blobs
        lies[3].rawLength -= 1
        #expect(try !Self.prove(bytes, .blobs(lies, nil), from: 1_000, by: 16_384).1)
        let rest = try #require(SliceCheck.blobs(blobs, nil).leavingOut(blobs[4].offset, keeping: blobs[7].offset))
        #expect(rest.0 == blobs[5].offset..<(1_000 + UInt64(bytes.count)))
        #expect(SliceCheck.blobs(blobs, nil).leavingOut(blobs[4].offset, keeping: blobs[4].offset) == nil)
    }
}
