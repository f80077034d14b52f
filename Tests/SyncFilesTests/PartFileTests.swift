import Foundation
import SyncContent
import SyncFiles
import SyncSystem
import SyncTestKit
import Testing

import struct Synchronization.Atomic

@Suite("Large files put together from blobs", .timeLimit(.minutes(10)))
struct PartFileTests {
    private let root: TemporaryRoot
    private let bytes = patternedBytes(size: 200_000, seed: 11)
    private let ends: [UInt64] = [30_000, 30_001, 90_000, 160_000, 200_000]

    init() throws { root = try TemporaryRoot() }

    private func part(_ name: String = "part", ends: [UInt64]? = nil) throws -> PartFile {
        let raw = open(root.path(name), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0)
        let digest = try FilesFixture.digest(bytes)
        return try PartFile(
            descriptor: Descriptor(owning: raw),
            staged: Staging.File(lane: 0, digest: digest, isPart: true), digest: digest,
            ends: ends ?? self.ends)
    }

    private func write(_ blob: Int, of part: PartFile, _ bytes: [UInt8]? = nil) -> PartFile.Progress {
        let range = part.range(blob: blob)
        let source = bytes ?? self.bytes
        let error = source[Int(range.lowerBound)..<Int(range.upperBound)].withUnsafeBytes {
            part.write($0, at: range.lowerBound)
        }
        if let error { return .failed(error) }
        return part.complete(blob: blob)
    }

    @Test("Blobs in any order give the file", arguments: 0..<24)
    func orders(seed: UInt64) throws {
        var order = Array(ends.indices)
        for index in order.indices.reversed() {
            order.swapAt(index, Int(patternedBytes(size: 1, seed: seed &* 31 &+ UInt64(index))[0]) % (index + 1))
        }
        let part = try part()
        let progress = order.map { write($0, of: part) }
        #expect(progress.dropLast().allSatisfy { $0 == .incomplete })
        #expect(progress.last == .verified)
        #expect(root.read("part") == bytes)
    }

    @Test("Two threads that write blobs of one file verify it exactly once", arguments: 0..<20)
    func threads(round: Int) throws {
        let ends = (1...40).map { UInt64($0) * 5_000 }
        let part = try part("part\(round)", ends: ends)
        let next = Atomic(0)
        let verified = concurrently(2, name: "part") { [bytes] thread -> Int in
            var verified = 0
            while true {
                let ticket = next.wrappingAdd(1, ordering: .sequentiallyConsistent).oldValue
                guard ticket < 40 else { return verified }
                let blob = (ticket * 7 + round) % 40
                let range = part.range(blob: blob)
                // In pieces, as a stream of decoded bytes comes.
                for start in stride(from: range.lowerBound, to: range.upperBound, by: 1_700) {
                    let end = min(start + 1_700, range.upperBound)
                    let error = bytes[Int(start)..<Int(end)].withUnsafeBytes { part.write($0, at: start) }
                    if error != nil { return -1_000 }
                }
                if part.complete(blob: blob) == .verified { verified += 1 }
            }
        }
        #expect(verified.reduce(0, +) == 1)
        #expect(root.read("part\(round)") == bytes)
    }

    @Test("Wrong bytes are a mismatch, the blob at fault is found, and a second attempt mends it", arguments: 0..<5)
    func mismatch(bad: Int) throws {
        let part = try part()
        var wrong = bytes
        wrong[Int(part.range(blob: bad).lowerBound)] ^= 1
        var last = PartFile.Progress.incomplete
        for blob in ends.indices { last = write(blob, of: part, wrong) }
        #expect(last == .mismatch)
        var hasher = try SHA256Hasher()
        let whole = part.wholeDigest(hasher: &hasher)
        #expect(try whole == FilesFixture.digest(wrong))
        var found: [Int] = []
        for blob in ends.indices {
            let range = part.range(blob: blob)
            let digest = try FilesFixture.digest(Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]))
            if !part.check(blob: blob, digest: digest, hasher: &hasher) { found.append(blob) }
        }
        #expect(found == [bad])
        part.reopen(bad: found)
        #expect(!part.isDone(blob: bad))
        #expect(write(bad, of: part) == .verified)
        #expect(root.read("part") == bytes)
    }

    @Test("Bytes that were hashed and then replaced are right on a second look")
    func replaced() throws {
        let part = try part(ends: [200_000])
        let wrong = [UInt8](repeating: 9, count: 1_000)
        #expect(wrong.withUnsafeBytes { part.write($0, at: 0) } == nil)
        #expect(write(0, of: part) == .mismatch)
        var hasher = try SHA256Hasher()
        let whole = part.wholeDigest(hasher: &hasher)
        #expect(try whole == FilesFixture.digest(bytes))
        #expect(part.endsWhereItMust)
    }

    @Test("Bytes that replace hashed ones are never taken for them, whoever wrote right ones first [V42 R10]")
    func secondDelivery() throws {
        let part = try part(ends: [200_000])
        let wrong = [UInt8](repeating: 9, count: 1_000)
        #expect(bytes[..<1_000].withUnsafeBytes { part.write($0, at: 0) } == nil)
        #expect(wrong.withUnsafeBytes { part.write($0, at: 0) } == nil)
        #expect(bytes[1_000...].withUnsafeBytes { part.write($0, at: 1_000) } == nil)
        #expect(part.complete(blob: 0) == .mismatch)
        part.reopen(bad: [0])
        #expect(bytes.withUnsafeBytes { part.write($0, at: 0) } == nil)
        #expect(part.complete(blob: 0) == .verified)
    }

    @Test("Zeros of a sparse file stay holes and count when it is hashed, whatever comes first", arguments: [0, 1, 2])
    func holes(first: Int) throws {
        let ends: [UInt64] = [4 << 20, 5 << 20, 30 << 20]
        let data = patternedBytes(size: 1 << 20, seed: 3)
        let whole = [UInt8](repeating: 0, count: 4 << 20) + data + [UInt8](repeating: 0, count: 25 << 20)
        let digest = try FilesFixture.digest(whole)
        let raw = open(root.path("sparse"), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0 && ftruncate(raw, 30 << 20) == 0)
        let part = try PartFile(
            descriptor: Descriptor(owning: raw),
            staged: Staging.File(lane: 0, digest: digest, isPart: true), digest: digest, ends: ends,
            isSparse: true)
        let progress = (0..<3).map { step in
            let blob = (first + step) % 3
            let range = part.range(blob: blob)
            let error = whole[Int(range.lowerBound)..<Int(range.upperBound)].withUnsafeBytes {
                part.write($0, blob: blob)
            }
            return error == nil ? part.complete(blob: blob) : .mismatch
        }
        #expect(progress == [.incomplete, .incomplete, .verified])
        var status = stat()
        #expect(fstat(raw, &status) == 0 && status.st_size == 30 << 20 && status.st_blocks * 512 < 2 << 20)
    }

    @Test("Blobs of an earlier run are taken over, and what stands behind the end is cut off [F076]")
    func adopted() throws {
        try root.write(bytes + [1, 2, 3], to: "part")
        let part = try part()
        for blob in [0, 1, 2, 3] { part.adopt(blob: blob) }
        #expect(part.doneBytes == 160_000)
        #expect(write(4, of: part) == .verified)
        #expect(root.read("part") == bytes)
    }

    @Test("A part that somebody shortens is a named error [F076]")
    func shortened() throws {
        let part = try part()
        #expect(write(1, of: part) == .incomplete)
        #expect(truncate(root.path("part"), 100) == 0)
        guard case .failed(let error) = write(0, of: part) else {
            // Blob 0 is written anew; blob 1 behind it is gone.
            Issue.record("a missing blob went unnoticed")
            return
        }
        #expect("\(error)".contains("shrank"))
    }

    @Test("Everything is written and read at its offset, also across a hole")
    func readWrite() throws {
        let raw = open(root.path("file"), O_RDWR | O_CREAT, 0o600)
        try #require(raw >= 0)
        let file = Descriptor(owning: raw)
        #expect(bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 10) } == nil)
        var back = [UInt8](repeating: 1, count: bytes.count + 20)
        let count = back.withUnsafeMutableBytes { readFully(file.raw, into: $0, at: 0) }
        #expect(count == bytes.count + 10)
        #expect(back[..<10].allSatisfy { $0 == 0 } && Array(back[10..<count]) == bytes)
        #expect([1].withUnsafeBytes { writeAll($0, to: file.raw, at: .max) } == .fileTooLarge)
        #expect([1].withUnsafeBytes { writeAll($0, to: -1, at: 0) } != nil)
        #expect(back.withUnsafeMutableBytes { readFully(-1, into: $0, at: 0) } == -1)
        #expect(back.withUnsafeMutableBytes { readFully(file.raw, into: $0, at: 1 << 40) } == 0)
    }
}
