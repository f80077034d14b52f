import Foundation
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@Suite("The index of what is here", .timeLimit(.minutes(10)))
struct StatIndexTests {
    private let fixture: FilesFixture
    private let paths = ["a", "a/x", "a/y", "b", "zz"]

    init() throws { fixture = try FilesFixture() }

    private func record(_ number: Int, kind: FileTable.Kind = .file, installed: Bool = true) throws -> IndexRecord {
        let found = SyncSystem.status(fixture.destination.root)
        let status = try #require(found)
        var record = IndexRecord(
            status: status, digest: try FilesFixture.digest([UInt8(number)]), kind: kind, installed: installed)
        record.status.size = UInt64(number)
        record.status.modified = 1_000 + Int64(number)
        record.status.changed = 2_000 + Int64(number)
        return record
    }

    private func writeIndex(completion: StatIndex.Completion? = nil, revision: StatIndex.Revision? = nil) throws
        -> [IndexRecord]
    {
        var writer = StatIndexWriter(in: fixture.destination)
        var records: [IndexRecord] = []
        for (number, path) in paths.enumerated() {
            let kind: FileTable.Kind = number == 1 ? .executable : number == 2 ? .link : .file
            let record = try record(number, kind: kind, installed: number != 3)
            records.append(record)
            writer.append(record, path: path)
        }
        try writer.write(owner: "com.example\ngroup", completion: completion, revision: revision, durable: false)
        return records
    }

    @Test("The revision that was pulled last is told by the head alone; an older program's index has none")
    func revision() throws {
        #expect(StatIndex.revision(in: fixture.destination) == nil)
        _ = try writeIndex()
        #expect(StatIndex.revision(in: fixture.destination) == nil)
        #expect(StatIndex.read(from: fixture.destination).revision == nil)
        let revision = StatIndex.Revision(number: .max, manifest: 7)
        _ = try writeIndex(revision: revision)
        #expect(StatIndex.revision(in: fixture.destination) == revision)
        let index = StatIndex.read(from: fixture.destination)
        #expect(index.revision == revision && index.completion == nil && index.count == paths.count)
    }

    @Test("What is written is read back: records, paths, owner, completion")
    func roundTrip() throws {
        let completion = StatIndex.Completion(
            manifest: try FilesFixture.digest([9]), selection: 7, totalBytes: .max, files: 5)
        let records = try writeIndex(completion: completion)
        let index = StatIndex.read(from: fixture.destination)
        #expect(index.count == paths.count)
        #expect((0..<index.count).map { index.withPath($0) { String(decoding: $0, as: UTF8.self) } } == paths)
        #expect((0..<index.count).map { index.record($0) } == records)
        #expect(index.owner == "com.example\ngroup")
        #expect(index.completion == completion)
        #expect(index.withPath(1) { $0.baseAddress.map { $0[3] } } == 0, "a NUL stands behind a path")
    }

    @Test("Of an index, what is known of some paths is read without the rest; of a damaged one, nothing")
    func somePaths() throws {
        let destination = fixture.destination
        #expect(try StatIndex.load(from: destination, nil, to: nil).count == 0)
        let completion = StatIndex.Completion(
            manifest: try FilesFixture.digest([9]), selection: 7, totalBytes: 9, files: 5)
        let records = try writeIndex(completion: completion, revision: StatIndex.Revision(number: 4, manifest: 7))
        let whole = try StatIndex.load(from: destination)
        let bounds = [nil, "", "a", "a/x", "a/w", "b", "zz", "zzz"].map { $0.map { Array($0.utf8) } }
        for first in bounds {
            for last in bounds {
                let some = try StatIndex.load(from: destination, first, to: last)
                let start = first.map { $0.withUnsafeBufferPointer(whole.lowerBound) } ?? 0
                let end = max(start, last.map { $0.withUnsafeBufferPointer(whole.lowerBound) } ?? whole.count)
                #expect((0..<some.count).map { some.record($0) } == Array(records[start..<end]))
                #expect(
                    (0..<some.count).map { some.withPath($0) { String(decoding: $0, as: UTF8.self) } }
                        == Array(paths[start..<end]))
                #expect(some.owner == whole.owner && some.stamp == whole.stamp && some.revision == whole.revision)
                #expect(some.completion == nil)
            }
        }
        let path = "\(destination.statePath)/index"
        let bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
        for place in stride(from: 0, to: bytes.count, by: 37) {
            var damaged = bytes
            damaged[place] ^= 1
            try Data(damaged).write(to: URL(filePath: path))
            #expect(try StatIndex.load(from: destination, nil, to: nil).count == 0, "\(place)")
        }
        try Data(bytes.dropLast(5)).write(to: URL(filePath: path))
        #expect(try StatIndex.load(from: destination, Array("a".utf8), to: nil).count == 0)
    }

    @Test("An index larger than the buffers it goes through is read back as it was")
    func large() throws {
        var writer = StatIndexWriter(in: fixture.destination)
        let names = (0..<5_000).map { "directory/a-name-of-some-length-\(10_000 + $0)" }
        for (number, name) in names.enumerated() { writer.append(try record(number % 200), path: name) }
        try writer.write(owner: "p", completion: nil, durable: false)
        let index = StatIndex.read(from: fixture.destination)
        #expect(index.count == names.count)
        #expect((0..<index.count).map { index.withPath($0) { String(decoding: $0, as: UTF8.self) } } == names)
        #expect(index.record(4_999) == (try record(4_999 % 200)))
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: fixture.root.path("dest/.syncagent")).contains(
                "index.paths") == false)
    }

    @Test("What went wrong while records came is told at the end, and the index that was there stays")
    func cannotWrite() throws {
        let before = try writeIndex()
        try fixture.root.write("", to: "dest/.syncagent/index.new/in-the-way")
        var writer = StatIndexWriter(in: fixture.destination)
        for number in 0..<5_000 { writer.append(try record(1), path: "\(10_000 + number)") }
        do throws(FileError) {
            try writer.write(owner: "p", completion: nil, durable: false)
            Issue.record("it was written")
        } catch { #expect(error.step == "create" && error.path.hasSuffix(".syncagent/index.new")) }
        #expect(StatIndex.read(from: fixture.destination).count == before.count)
    }

    @Test("An index without files and without completion is an index")
    func emptyIndex() throws {
        let writer = StatIndexWriter(in: fixture.destination)
        try writer.write(owner: "p", completion: nil, durable: true)
        let index = StatIndex.read(from: fixture.destination)
        #expect(index.count == 0 && index.owner == "p" && index.completion == nil)
    }

    @Test(
        "A path is found by its order, present or not",
        arguments: [("", 0), ("a", 0), ("a/w", 1), ("a/x", 1), ("a/z", 3), ("b", 3), ("c", 4), ("zz", 4), ("zzz", 5)])
    func lowerBound(path: String, position: Int) throws {
        _ = try writeIndex()
        let index = StatIndex.read(from: fixture.destination)
        #expect(Array(path.utf8).withUnsafeBufferPointer { index.lowerBound($0) } == position)
    }

    @Test("An index cut at any byte reads as empty [F077]")
    func truncated() throws {
        _ = try writeIndex()
        let whole = try #require(fixture.root.read(FilesFixture.state("index")))
        for length in 0..<whole.count {
            try fixture.root.write(Array(whole[..<length]), to: FilesFixture.state("index"))
            let count = StatIndex.read(from: fixture.destination).count
            if count != 0 { Issue.record("cut to \(length) bytes it still has \(count) records") }
        }
        try fixture.root.write(whole + [0], to: FilesFixture.state("index"))
        #expect(StatIndex.read(from: fixture.destination).count == 0, "a byte too many")
    }

    @Test("An index with any byte changed reads as empty [F077]", arguments: [UInt8(0x01), 0x80, 0xFF])
    func flipped(mask: UInt8) throws {
        _ = try writeIndex()
        let whole = try #require(fixture.root.read(FilesFixture.state("index")))
        for position in whole.indices {
            var bytes = whole
            bytes[position] ^= mask
            try fixture.root.write(bytes, to: FilesFixture.state("index"))
            let count = StatIndex.read(from: fixture.destination).count
            if count != 0 { Issue.record("byte \(position) changed, \(count) records") }
        }
    }

    @Test("Numbers that a right checksum covers are checked all the same", arguments: [16, 24, 32, 128 + 72, 128 + 76])
    func hostileNumbers(offset: Int) throws {
        _ = try writeIndex()
        var bytes = try #require(fixture.root.read(FilesFixture.state("index")))
        for value in [UInt8(0xFF), 0x7F, 0x80] {
            for index in offset..<(offset + (offset > 128 ? 2 : 8)) { bytes[index] = value }
            let body = Array(bytes.dropLast(32))
            let digest = try FilesFixture.digest(body)
            try fixture.root.write(body + (0..<32).map { digest[byte: $0] }, to: FilesFixture.state("index"))
            #expect(StatIndex.read(from: fixture.destination).count == 0)
        }
    }

    @Test("An absent index, or a directory in its place, reads as empty")
    func absent() throws {
        #expect(StatIndex.read(from: fixture.destination).count == 0)
        try fixture.root.write("x", to: FilesFixture.state("index/file"))
        #expect(StatIndex.read(from: fixture.destination).count == 0)
        #expect(throws: FileError.self) { _ = try writeIndex() }
    }

    @Test("An index or a log that cannot be read is no empty one for whom would forget what is installed [F065]")
    func unreadable() throws {
        _ = try writeIndex()
        for (name, length) in [("index", StatIndex.limit + 1), ("index.log", StatIndex.limit + 1)] {
            _ = try IndexLog(fixture.destination)
            #expect(truncate(fixture.root.path(FilesFixture.state(name)), off_t(length)) == 0)
            let error = #expect(throws: FileError.self) {
                _ = try StatIndex.load(from: fixture.destination)
                _ = try IndexLog.load(fixture.destination)
            }
            #expect(error?.code == .fileTooLarge && error?.path.hasSuffix(".syncagent/\(name)") == true)
            #expect(unlink(fixture.root.path(FilesFixture.state(name))) == 0)
        }
        #expect(try StatIndex.load(from: fixture.destination).count == 0)
        #expect(try IndexLog.load(fixture.destination).isEmpty)
    }

    @Test("A link in the index's place is not followed [V5]")
    func link() throws {
        _ = try writeIndex()
        let whole = try #require(fixture.root.read(FilesFixture.state("index")))
        try fixture.root.write(whole, to: "outside")
        #expect(unlink(fixture.root.path(FilesFixture.state("index"))) == 0)
        try fixture.root.link(FilesFixture.state("index"), to: "../../outside")
        #expect(StatIndex.read(from: fixture.destination).count == 0)
        #expect(fixture.root.read("outside") == whole)
    }

    @Test("A record of a file touched in or after the tick of the index is not trusted [F104 S109 S157]")
    func racilyClean() throws {
        _ = try writeIndex()
        let index = StatIndex.read(from: fixture.destination)
        var record = try record(1)
        #expect(index.trusts(record))
        record.status.modified = index.stamp
        #expect(!index.trusts(record))
        record.status.modified = index.stamp - 1
        #expect(index.trusts(record))
        record.status.changed = index.stamp
        #expect(!index.trusts(record))
    }

    @Test("The index is stamped later than everything it has")
    func stamp() throws {
        try fixture.root.write("new", to: "dest/new")
        let status = try #require(fixture.status("new"))
        let record = IndexRecord(status: status, digest: .zero, kind: .file, installed: true)
        var writer = StatIndexWriter(in: fixture.destination)
        writer.append(record, path: "new")
        try writer.write(owner: "p", completion: nil, durable: false)
        let index = StatIndex.read(from: fixture.destination)
        #expect(index.trusts(record))
        #expect(record.matches(status))
    }

    @Test("A record matches only the file that was verified")
    func matches() throws {
        try fixture.root.write("data", to: "dest/file")
        let status = try #require(fixture.status("file"))
        let record = IndexRecord(status: status, digest: .zero, kind: .file, installed: true)
        #expect(record.matches(status))
        var other = status
        other.inode += 1
        #expect(!record.matches(other))
        other = status
        other.modified += 1
        #expect(!record.matches(other))
        other = status
        other.changed += 1
        #expect(!record.matches(other))
        other = status
        // Not every file system keeps it: it is looked at by itself.
        other.isExecutable = true
        #expect(record.matches(other))
        other = status
        other.kind = .link
        #expect(!record.matches(other))
    }
}
