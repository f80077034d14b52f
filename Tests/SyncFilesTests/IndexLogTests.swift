import SyncFiles
import SyncManifest
import SyncSystem
import SyncTestKit
import Testing

@Suite("The log of what a run has put in place", .timeLimit(.minutes(10)))
struct IndexLogTests {
    private let fixture: FilesFixture

    init() throws { fixture = try FilesFixture() }

    private func entry(_ path: String, _ kind: FileTable.Kind = .file) throws -> IndexLog.Entry {
        IndexLog.Entry(path: Array(path.utf8), digest: try FilesFixture.digest(Array(path.utf8)), kind: kind)
    }

    private func read() -> [String] {
        IndexLog.read(fixture.destination).map { String(decoding: $0.path, as: UTF8.self) }
    }

    private func append(_ batches: [[String]]) throws {
        let log = try IndexLog(fixture.destination)
        for batch in batches { try log.append(try batch.map { try entry($0) }) }
    }

    @Test("Frames are read back in order, with digest and kind, also by a later run that appends")
    func roundTrip() throws {
        #expect(read() == [])
        try append([["a", "b/c"], ["d"]])
        let log = try IndexLog(fixture.destination)
        try log.append([try entry("link", .link)])
        try log.append([])
        #expect(read() == ["a", "b/c", "d", "link"])
        let entries = IndexLog.read(fixture.destination)
        #expect(entries.last?.kind == .link)
        let digest = try FilesFixture.digest(Array("a".utf8))
        #expect(entries.first?.digest == digest)
    }

    @Test("A file that is durable is logged with its status, which is read back")
    func withStatus() throws {
        let found = status(fixture.destination.root)
        var known = IndexRecord.Status(try #require(found))
        (known.device, known.inode, known.size, known.modified, known.changed) = (1, .max, 3, -4, .max)
        let log = try IndexLog(fixture.destination)
        var durable = try entry("b/c", .executable)
        durable.status = known
        try log.append([try entry("a"), durable, try entry("d")])
        let entries = IndexLog.read(fixture.destination)
        #expect(entries.map(\.status) == [nil, known, nil])
        #expect(entries.map(\.kind) == [.file, .executable, .file] && read() == ["a", "b/c", "d"])
        #expect(try #require(log.fileTime()) > 0)
    }

    @Test("A log cut at any byte keeps its whole frames and no more [F077]")
    func torn() throws {
        try append([["a", "b"]])
        let first = try #require(fixture.root.read(FilesFixture.state("index.log"))).count
        try append([["c"]])
        let whole = try #require(fixture.root.read(FilesFixture.state("index.log")))
        for length in 0...whole.count {
            try fixture.root.write(Array(whole[..<length]), to: FilesFixture.state("index.log"))
            let expected = length < first ? [] : length < whole.count ? ["a", "b"] : ["a", "b", "c"]
            if read() != expected { Issue.record("cut to \(length): \(read())") }
        }
    }

    @Test("What is appended behind a torn frame can be read")
    func appendBehindTorn() throws {
        try append([["a"]])
        let whole = try #require(fixture.root.read(FilesFixture.state("index.log")))
        try fixture.root.write(whole + whole.dropLast(3), to: FilesFixture.state("index.log"))
        try append([["b"]])
        #expect(read() == ["a", "b"])
    }

    @Test("A log with any byte changed never traps and never invents a path [F077]")
    func flipped() throws {
        try append([["a", "b"], ["c"]])
        let whole = try #require(fixture.root.read(FilesFixture.state("index.log")))
        for position in whole.indices {
            var bytes = whole
            bytes[position] ^= 0xFF
            try fixture.root.write(bytes, to: FilesFixture.state("index.log"))
            let found = read()
            if found != [], found != ["a", "b"] { Issue.record("byte \(position) changed: \(found)") }
        }
    }

    @Test("A removed log is an empty log")
    func removed() throws {
        try append([["a"]])
        IndexLog.remove(fixture.destination)
        #expect(read() == [])
        IndexLog.remove(fixture.destination)
    }
}
