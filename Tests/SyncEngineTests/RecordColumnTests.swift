import Foundation
import SyncFiles
import SyncModel
import Testing

@testable import SyncEngine

@Suite("What is known of rows", .timeLimit(.minutes(1)))
struct RecordColumnTests {
    private static func record(_ inode: UInt64) throws -> IndexRecord {
        let root = open("/", O_RDONLY)
        defer { close(root) }
        let found = SyncFiles.status(root)
        var record = IndexRecord(status: try #require(found), digest: .zero, kind: .file, installed: true)
        record.inode = inode
        return record
    }

    @Test("Records come back by row, and the later one counts")
    func later() throws {
        var column = RecordColumn(count: 5)
        #expect(column.count == 0 && column[0] == nil)
        column.take([(1, try Self.record(11)), (3, try Self.record(13))])
        column.take([(3, try Self.record(33)), (0, try Self.record(10))])
        column[4] = try Self.record(14)
        column[1] = nil
        #expect((0..<5).map { column[$0]?.inode } == [10, nil, nil, 33, 14])
        #expect((0..<5).map { column.has($0) } == [true, false, false, true, true])
        #expect(column.count == 3)
    }
}
