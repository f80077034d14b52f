import Foundation
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("What is known of rows", .timeLimit(.minutes(10)))
struct RecordColumnTests {
    private static func record(_ inode: UInt64) throws -> IndexRecord {
        let root = open("/", O_RDONLY)
        defer { close(root) }
        let found = SyncSystem.status(root)
        var record = IndexRecord(status: try #require(found), digest: .zero, kind: .file, installed: true)
        record.status.inode = inode
        return record
    }

    @Test("Records come back by row, and the later one counts")
    func later() throws {
        var column = RecordColumn(try Manifest.ofRows(5).files)
        #expect(column.count == 0 && column[0] == nil)
        column.take([(1, try Self.record(11)), (3, try Self.record(13))])
        column.take([(3, try Self.record(33)), (0, try Self.record(10))])
        #expect((0..<5).map { column[$0]?.status.inode } == [10, 11, nil, 33, nil])
        #expect((0..<5).map { column.has($0) } == [true, true, false, true, false])
        #expect(column.count == 3)
    }

    @Test("What the index knows is not kept twice, and what was looked at later counts")
    func old() throws {
        let place = try TemporaryRoot()
        let destination = try Destination.open(path: place.path("dest"), create: true)
        var writer = StatIndexWriter(in: destination)
        for (number, path) in ["a", "b", "c"].enumerated() {
            let record = try Self.record(UInt64(20 + number))
            Array(path.utf8).withUnsafeBufferPointer { _ = writer.append(record, path: $0) }
        }
        try writer.write(owner: "p", completion: nil, durable: false)
        var column = RecordColumn(try Manifest.ofRows(4).files, old: StatIndex.read(from: destination))
        column.take(old: [(0, 2), (3, 0)])
        column.take([(1, try Self.record(11)), (3, try Self.record(13))])
        #expect((0..<4).map { column[$0]?.status.inode } == [22, 11, nil, 13])
        #expect(column.count == 3 && !column.has(2))
    }
}
