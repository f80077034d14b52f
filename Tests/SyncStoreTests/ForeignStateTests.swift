import Foundation
import GRDB
import SyncModel
import Testing

@testable import SyncStore

@Suite("State that is not this user's word", .timeLimit(.minutes(10)))
struct ForeignStateTests {
    private func refusal(_ state: StateDirectory) -> String {
        do {
            _ = try state.open()
            return ""
        } catch {
            let error = error as? StoreError
            return error?.status == .cannotCreate ? error?.message ?? "" : "\(String(describing: error))"
        }
    }

    @Test("A directory or a file that others may write to is refused with 73, and says how to mend it")
    func open() throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        let names = ["", "/syncagent.sqlite", "/syncagent.sqlite-wal", "/syncagent.sqlite-shm"]
        for place in names.map({ state.path + $0 }) where access(place, F_OK) == 0 {
            let mode = try #require(try state.mode(place))
            #expect(chmod(place, mode_t(mode | 0o020)) == 0)
            let said = refusal(state)
            #expect(said.contains("others may write to it; run: chmod go-w"), "\(place): \(said)")
            #expect(said.contains(state.path) && said.contains("XDG_STATE_HOME"))
            #expect(chmod(place, mode_t(mode)) == 0)
        }
        #expect(refusal(state) == "")
    }

    @Test(
        "Another user's directory or file is refused with 73, for root as well",
        .enabled(if: geteuid() == 0, "only root can give files away"))
    func foreign() throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        let parent = (state.path as NSString).deletingLastPathComponent
        for place in [parent, state.path, state.database, state.database + "-wal"] {
            #expect(chown(place, 4242, 4242) == 0)
            let said = refusal(state)
            #expect(said.contains("belongs to another user (uid 4242)"), "\(place): \(said)")
            #expect(chown(place, 0, 0) == 0)
        }
        #expect(refusal(state) == "")
        #expect(chown(state.database + ".lock", 4242, 4242) == 0)
        #expect(unlink(state.database) == 0)
        #expect(refusal(state).contains("syncagent.sqlite.lock: it belongs to another user"))
    }

    @Test("Links, FIFOs, monsters and files with a second name are refused before SQLite opens them [F099]")
    func kinds() throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        let kept = state.path + "/kept"
        try FileManager.default.moveItem(atPath: state.database, toPath: kept)
        #expect(symlink(kept, state.database) == 0)
        #expect(refusal(state).contains("it is a symbolic link"))
        #expect(unlink(state.database) == 0 && mkfifo(state.database, 0o600) == 0)
        #expect(refusal(state).contains("it is not a regular file"))
        #expect(unlink(state.database) == 0 && rename(kept, state.database) == 0)
        #expect(truncate(state.database + "-wal", 1 << 40) == 0)
        #expect(refusal(state).contains("it has 1.00 TiB, above the limit of 16.0 GiB"))
        try Data("precious".utf8).write(to: URL(fileURLWithPath: kept))
        for suffix in ["-wal", "-shm"] {
            unlink(state.database + suffix)
            #expect(link(kept, state.database + suffix) == 0)
            #expect(refusal(state).contains("it has a second name (a hard link)"))
            #expect(unlink(state.database + suffix) == 0)
        }
        #expect(try String(contentsOfFile: kept, encoding: .utf8) == "precious")
    }

    @Test("A session's lock that is a link, or has a second name, is not written through")
    func lease() throws {
        let state = StateDirectory()
        let store = try state.open()
        _ = try store.lease(of: "tower", process: 1, now: 1)
        let lock = state.path + "/sessions/tower.lock"
        let victim = state.path + "/victim"
        try Data("precious".utf8).write(to: URL(fileURLWithPath: victim))
        for plant in [symlink, link] {
            #expect(unlink(lock) == 0 && plant(victim, lock) == 0)
            let error = #expect(throws: StoreError.self) { _ = try store.lease(of: "tower", process: 1, now: 1) }
            #expect(error?.code == .cannotCreate && error?.message.contains(lock) == true)
        }
        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "precious")
    }

    @Test(
        "What is no JSON any more in the store is damage, not an error of the program [F077]",
        arguments: ["recipe", "facts", "counts", "losses", "first_paths"])
    func json(column: String) throws {
        let state = StateDirectory()
        try state.open().begin(towerRun("r1"), now: 1)
        try state.tamper("UPDATE runs SET \(column) = '[1'")
        let store = try state.open()
        #expect(.of { _ = try store.run("r1") } == .damaged)
    }

    @Test("A schema that somebody has written runs nothing with side effects, and SQL does not touch it")
    func schema() throws {
        let state = StateDirectory()
        let store = try state.open()
        let settings = try ["trusted_schema", "cell_size_check"].map { name in
            try store.read { db in try Int.fetchOne(db, sql: "PRAGMA \(name)") }
        }
        #expect(settings == [0, 1])
    }
}
