import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncFiles

@Suite("Indexes made of others")
struct IndexDraftTests {
    private func record(_ number: UInt8, changed: Int64 = 5, kind: FileTable.Kind = .file) throws -> IndexRecord {
        let status = IndexRecord.Status(device: 1, inode: UInt64(number), size: 3, modified: 4, changed: changed)
        let digest = kind == .directory ? SHA256Digest.zero : try FilesFixture.digest([number])
        return IndexRecord(status, digest: digest, kind: kind, installed: false)
    }

    private func made(like index: StatIndex, _ fill: (inout IndexDraft) -> Void) throws -> StatIndex {
        var draft = IndexDraft(like: index)
        fill(&draft)
        let made = draft.index()
        return try #require(made)
    }

    private func index(_ records: [(String, IndexRecord)]) throws -> StatIndex {
        try made(like: .empty) { draft in
            for (path, record) in records {
                Array(path.utf8).withUnsafeBufferPointer { draft.append(record, $0) }
            }
        }
    }

    private func paths(_ index: StatIndex) -> [String] {
        (0..<index.count).map { index.withPath($0) { String(decoding: $0, as: UTF8.self) } }
    }

    @Test("What two indexes have in common is counted, and what is different ends it")
    func shared() throws {
        let one = try index([
            ("a", record(1)), ("b", record(2)), ("c", record(3)), ("d", record(4)), ("e", record(5)),
        ])
        let other = try index([("b", record(2)), ("c", record(3)), ("d", record(7)), ("f", record(5))])
        #expect(one.countShared(from: 0, with: other, from: 0, most: .max) == 0)
        #expect(one.countShared(from: 1, with: other, from: 0, most: .max) == 2, "d has another content")
        #expect(one.countShared(from: 1, with: other, from: 0, most: 1) == 1)
        #expect(one.countShared(from: 1, with: other, from: 0, most: 0) == 0)
        #expect(one.countShared(from: 4, with: other, from: 3, most: .max) == 0, "another path")
        #expect(one.countShared(from: 5, with: other, from: 4, most: .max) == 0, "both are over")
        #expect(one.countShared(from: 0, with: one, from: 0, most: .max) == 5)
        let link = try index([("b", record(2, kind: .link))])
        #expect(one.countShared(from: 1, with: link, from: 0, most: .max) == 0, "of another kind")
    }

    @Test("Records are taken over as those of files that were installed, with the later status of the very same file")
    func appended() throws {
        let one = try index([("a", record(1)), ("b", record(2)), ("c", record(3)), ("d", record(4, kind: .directory))])
        var elsewhere = try record(3, changed: 9)
        elsewhere.status.inode = 77
        let other = try index([
            ("0", record(9)), ("a", record(1, changed: 8)), ("b", record(2, changed: 3)), ("c", elsewhere),
            ("d", record(4, changed: 9, kind: .directory)),
        ])
        let all = try made(like: one) { $0.append(installed: 0..<4, of: one, or: (other, 1)) }
        #expect(paths(all) == ["a", "b", "c", "d"])
        let records = (0..<4).compactMap(all.record)
        #expect(records.map(\.status.changed) == [8, 5, 5, 5])
        #expect(records.map(\.installed) == [true, true, true, true])
        #expect(records.map(\.digest) == (0..<4).compactMap { one.record($0)?.digest })
        #expect(all.stamp == 9, "later than every record")
        let part = try made(like: one) { $0.append(installed: 1..<3, of: one, or: (one, 1)) }
        #expect(paths(part) == ["b", "c"])
    }

    @Test("Each directory is listed once, after those that it is in")
    func directories() throws {
        let files = [
            "a/b/c/1", "a/b/c/2", "a/b/d", "a/e", "a/f/1", "a-b", "b/named", "b/named/x", "b/z", "c", "d/e/f", "d-e/f",
        ]
        var records: [(String, IndexRecord)] = []
        for path in files { records.append((path, try record(1, kind: path == "b/named" ? .directory : .file))) }
        let made = try index(records)
        #expect(paths(made) == files)
        #expect(
            made.directories.map { String(decoding: $0, as: UTF8.self) } == [
                "a", "a/b", "a/b/c", "a/f", "b", "b/named", "d", "d/e", "d-e",
            ])
        #expect(StatIndex.empty.directories == [])
    }
}
