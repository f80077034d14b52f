import Foundation
import GRDB
import SyncModel
import Synchronization
import Testing

@testable import SyncStore

@Suite("Opening the store", .timeLimit(.minutes(10)))
struct OpeningTests {
    @Test("What was recorded is there after reopening, with or without a clean end [S69]")
    func reopening() throws {
        let state = StateDirectory()
        let first = try state.open()
        #expect(first.opening == .created)
        try first.begin(towerRun("r1"), now: 1)
        let store = try state.open()
        #expect(store.opening == .opened)
        #expect(try store.run("r1").state == .running)
        #expect(try store.findings() == [])
    }

    @Test("A store of another version is refused and not touched [F092 S71]", arguments: [-1, 0, 2, 99])
    func newer(version: Int) throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        try state.tamper("PRAGMA user_version = \(version)")
        let before = try Data(contentsOf: URL(fileURLWithPath: state.database))
        var message = ""
        do {
            _ = try state.open()
            Issue.record("it opened")
        } catch let error as StoreError {
            #expect(error.code == .newer)
            message = error.message
        }
        #expect(message.contains("version \(version),") && message.contains("XDG_STATE_HOME"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: state.database)) == before)
        #expect(try state.names().allSatisfy { !$0.contains("damaged") && !$0.contains("rebuild") })
    }

    @Test("The database of another program is refused and not touched")
    func foreign() throws {
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try state.tamper("CREATE TABLE theirs (a)")
        let before = try Data(contentsOf: URL(fileURLWithPath: state.database))
        #expect(.of { _ = try state.open() } == .foreign)
        #expect(try Data(contentsOf: URL(fileURLWithPath: state.database)) == before)
    }

    @Test("A store that is made while it is looked at is not another program's")
    func madeMeanwhile() throws {
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try state.tamper("PRAGMA journal_mode = WAL")
        let reader = try DatabaseQueue(path: state.database)
        let maker = try DatabaseQueue(path: state.database)
        let isMade = Mutex(false)
        let found = try reader.writeWithoutTransaction { db in
            db.trace { event in
                guard case .statement(let statement) = event, statement.sql.contains("sqlite_schema") else { return }
                isMade.withLock { isMade in
                    guard !isMade else { return }
                    isMade = (try? maker.writeWithoutTransaction(Schema.create)) != nil
                }
            }
            return try Schema.isThere(db)
        }
        #expect(!found)
        #expect(isMade.withLock { $0 }, "nothing was made meanwhile")
    }

    @Test(
        "A store cut at any length is set aside and made anew [F077]",
        arguments: [1, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, 20_480])
    func truncated(length: UInt64) throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        try state.tamper("SELECT 1")
        let file = try #require(FileHandle(forWritingAtPath: state.database))
        try file.truncate(atOffset: length)
        try file.close()
        let store = try state.open(now: 1_795_140_000_000)
        // To SQLite a file of one byte is an empty one.
        let setAside = SyncStore.Opening.rebuilt(setAside: state.database + ".damaged-20261120T020000Z")
        #expect(store.opening == (length == 1 ? .created : setAside))
        #expect(try store.sessions() == [])
        try store.begin(towerRun("r2"), now: 2)
        #expect(try store.findings() == [])
        #expect(try state.open().opening == .opened)
    }

    @Test("A file of garbage is set aside, too [F078]")
    func garbage() throws {
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try Data(repeating: 0x5A, count: 100_000).write(to: URL(fileURLWithPath: state.database))
        guard case .rebuilt = try state.open().opening else {
            Issue.record("it was not rebuilt")
            return
        }
    }

    @Test("A fraction where a whole number belongs is damage, not an internal error [F078]")
    func fraction() throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        // As a flipped byte has it; a STRICT table takes no fraction.
        try state.tamper(
            """
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'sessions';
            PRAGMA writable_schema = RESET;
            UPDATE sessions SET next_seq = next_seq + 0.5;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'sessions';
            PRAGMA writable_schema = RESET;
            """)
        do {
            let store = try state.open(now: 2)
            #expect(.of { try store.begin(towerRun("r2"), now: 2) } == .damaged)
        }
        guard case .rebuilt = try state.open(now: 3).opening else {
            Issue.record("it was not rebuilt")
            return
        }
    }

    @Test("An empty file is a new store: the process died before the first table")
    func empty() throws {
        let state = StateDirectory()
        try FileManager.default.createDirectory(atPath: state.path, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: state.database))
        #expect(try state.open().opening == .created)
    }

    @Test("Damage met later makes the next open start anew, and only the newest damaged store is kept [F078 G17]")
    func damageInUse() throws {
        let state = StateDirectory()
        for round in 0..<4 {
            do {
                let store = try state.open(now: Int64(round) * 1_000)
                try store.begin(towerRun("r\(round)"), now: 1)
            }
            // A state that this program never writes.
            try state.tamper("UPDATE runs SET state = 'willPause'")
            let store = try state.open(now: Int64(round) * 1_000)
            #expect(.of { _ = try store.run("r\(round)") } == .damaged)
            guard case .rebuilt = try state.open(now: Int64(round) * 1_000 + 500).opening else {
                Issue.record("round \(round): it was not rebuilt")
                return
            }
        }
        let kept = try state.names().filter { $0.contains("damaged") && $0.hasSuffix("Z") }
        #expect(kept.count <= 2)
    }

    /// The bytes of the database and of its log, under a name.
    private func bytes(_ name: String) -> [Data?] {
        ["", "-wal"].map { FileManager.default.contents(atPath: name + $0) }
    }

    @Test("What is set aside is whole, log and all; another one in the same second takes nothing of it [F078]")
    func setAside() throws {
        let state = StateDirectory()
        var kept: [(name: String, bytes: [Data?])] = []
        for round in 0..<2 {
            try state.open().begin(towerRun("r\(round)"), now: 1)
            let before = bytes(state.database)
            #expect(before.allSatisfy { $0?.isEmpty == false }, "nothing is in the log")
            try Data().write(to: URL(fileURLWithPath: state.database + ".rebuild"))
            guard case .rebuilt(let name) = try state.open(now: 1_795_140_000_000).opening else {
                Issue.record("round \(round): it was not rebuilt")
                return
            }
            kept.append((name, before))
        }
        #expect(kept.first?.name == state.database + ".damaged-20261120T020000Z")
        for store in kept { #expect(bytes(store.name) == store.bytes, "\(store.name)") }
        // Of those before, the newest stays, and nothing of the older ones.
        try Data().write(to: URL(fileURLWithPath: state.database + ".rebuild"))
        _ = try state.open(now: 1_795_140_000_000)
        #expect(kept.map { bytes($0.name)[0] != nil } == [false, true])
        #expect(try state.names().filter { $0.contains("T020000Z") } == [])
    }

    @Test("A process that is killed between the log and the database leaves both under one name [F078]")
    func cutShort() throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        let before = bytes(state.database)
        let name = state.database + ".damaged-20261120T020000Z"
        for suffix in ["-shm", "-wal"] where access(state.database + suffix, F_OK) == 0 {
            #expect(rename(state.database + suffix, name + suffix) == 0)
        }
        try Data().write(to: URL(fileURLWithPath: state.database + ".rebuild"))
        #expect(try state.open(now: 1_795_150_000_000).opening == .rebuilt(setAside: name))
        #expect(bytes(name) == before)
    }

    @Test("A state directory that cannot be made is status 73 and nothing is written elsewhere [F079]")
    func cannotCreate() throws {
        let state = StateDirectory()
        let parent = (state.path as NSString).deletingLastPathComponent
        try Data("a file".utf8).write(to: URL(fileURLWithPath: parent))
        do {
            _ = try state.open()
            Issue.record("it opened")
        } catch let error as StoreError {
            #expect(error.code == .cannotCreate)
            #expect(error.status == .cannotCreate)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: parent)) == Data("a file".utf8))
    }

    @Test("While another process writes too long, the answer is busy, status 75 [S3]")
    func busy() throws {
        let state = StateDirectory()
        let store = try state.open(wait: 20)
        try store.begin(towerRun("r1"), now: 1)
        let other = try DatabaseQueue(path: state.database)
        try other.inTransaction(.immediate) { _ throws in
            do throws(StoreError) {
                try store.begin(towerRun("r2"), now: 2)
                Issue.record("both wrote")
            } catch {
                #expect(error.code == .busy)
                #expect(error.status == .busy)
            }
            #expect(try store.run("r1").state == .running, "reading goes on")
            return .rollback
        }
        try store.begin(towerRun("r2"), now: 3)
    }

    @Test("Many open at once, one makes it, all use it")
    func race() async throws {
        let state = StateDirectory()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                group.addTask {
                    var session = tower
                    session.identifier = "s\(number)"
                    try state.open().begin(towerRun("r\(number)", session: session), now: 1)
                }
            }
            try await group.waitForAll()
        }
        let store = try state.open()
        #expect(try store.sessions().count == 16)
        #expect(try store.findings() == [])
    }
}
