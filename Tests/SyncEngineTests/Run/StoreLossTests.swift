import Foundation
import SyncEngine
import SyncModel
import SyncStore
import SyncTestKit
import Testing

/// The store is memory, not data: without it every file is looked at again, and that is all [F077 F078 F080].
@Suite("Loss of the store", .timeLimit(.minutes(10)))
struct StoreLossTests {
    private let scene: Scene
    private let tree = AssetTree.manySmall(40)

    init() throws {
        scene = try Scene(isDurable: true)
        try scene.publish(tree)
    }

    private var database: String { scene.root.path("state/syncagent.sqlite") }

    private func reopened() throws -> SyncStore {
        try SyncStore.open(directory: scene.root.path("state"), now: 1_795_140_000_000)
    }

    /// What happens to the store while nobody looks.
    enum Loss: String, CaseIterable, Sendable {
        case deleted, logDeleted, truncated, zeroedPage, flippedBits, replacedByText
    }

    @Test(
        "Whatever happens to it, the next pull fetches nothing and ends with every file [F077 F078 G17]",
        arguments: Loss.allCases)
    func lost(loss: Loss) throws {
        #expect(try scene.pull(hooks: RecordingHook(), hooked).status == .done)
        try SQLFile(database).run("PRAGMA wal_checkpoint(TRUNCATE)")
        try spoil(loss)
        let store = try attempt()
        let outcome = try scene.pull(hooks: RecordingHook(), store: store, hooked)
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(outcome.report?.files.unchanged == 40 && scene.problems(tree) == [])
        #expect(try store.findings() == [])
    }

    private var hooked: (inout RunRecipe) -> Void { { $0.hooks = [RunHook(group: "all", arguments: ["/bin/after"])] } }

    @Test("As long as the state cannot be synced no index names the new files, and the log keeps them [S25]")
    func unsynced() throws {
        // A file with a second name is not opened.
        let (log, second) = (database + "-wal", scene.root.path("second"))
        let disk = Scene.Disk { _ in _ = link(log, second) }
        let failed = try scene.pull(disk: disk)
        #expect(failed.status == .ioError && failed.error?.message.contains("-wal") == true)
        #expect(scene.root.read("dest/.syncagent/index") == nil)
        #expect(scene.root.read("dest/.syncagent/index.log") != nil)
        unlink(second)
        let outcome = try scene.pull(disk: .failing(at: 0))
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(scene.root.read("dest/.syncagent/index.log") == nil && scene.problems(tree) == [])
    }

    private func spoil(_ loss: Loss) throws {
        let url = URL(fileURLWithPath: database)
        var bytes = try Data(contentsOf: url)
        switch loss {
        case .deleted:
            for suffix in ["", "-wal", "-shm"] { unlink(database + suffix) }
            return
        case .logDeleted:
            for suffix in ["-wal", "-shm"] { unlink(database + suffix) }
            return
        case .truncated: bytes = bytes.prefix(bytes.count / 2)
        case .zeroedPage: bytes.replaceSubrange(8_192..<12_288, with: Data(count: 4_096))
        case .flippedBits: for offset in stride(from: 20, to: bytes.count, by: 97) { bytes[offset] ^= 0x24 }
        case .replacedByText: bytes = Data("this is no database\n".utf8)
        }
        for suffix in ["-wal", "-shm"] { unlink(database + suffix) }
        try bytes.write(to: url)
    }

    /// Opens it; damage that is met in use makes the next open start anew, so the second attempt has to do.
    private func attempt() throws -> SyncStore {
        for _ in 0..<2 {
            do throws(StoreError) {
                let store = try SyncStore.open(directory: scene.root.path("state"), now: 1_795_140_000_000)
                guard try store.findings().isEmpty else { continue }
                _ = try store.sessions()
                _ = try store.owedHooks()
                return store
            } catch { #expect(error.code == .damaged) }
        }
        return try reopened()
    }

    @Test("The store of last week: nothing is believed that is not so, and nothing is fetched twice [F080]")
    func lastWeek() throws {
        let hook = RecordingHook()
        #expect(try scene.pull(hooks: hook, hooked).status == .done)
        try SQLFile(database).run("PRAGMA wal_checkpoint(TRUNCATE)")
        let old = try Data(contentsOf: URL(fileURLWithPath: database))
        var newer = tree
        newer.addFile("new", size: 5_000, seed: 77)
        try scene.publish(newer, revision: 2)
        #expect(try scene.pull(hooks: hook, hooked).status == .done && hook.calls.count == 2)
        let runs = try scene.store.runs().map(\.identifier)
        #expect(runs.count == 2)

        // Restored in another place: this process still has the new one open.
        let restored = scene.root.path("restored")
        try FileManager.default.createDirectory(atPath: restored, withIntermediateDirectories: true)
        try old.write(to: URL(fileURLWithPath: restored + "/syncagent.sqlite"))
        let store = try SyncStore.open(directory: restored, now: 9)
        #expect(try store.runs().count == 1)
        let again = try scene.pull(hooks: hook, store: store, hooked)
        #expect(again.status == .done && again.requests.isEmpty && again.report?.files.unchanged == 41)
        #expect(hook.calls.count == 3, "a new run has a hook of its own")
        #expect(!runs.contains(again.report?.run ?? ""), "a run's name is never given twice")
    }

    @Test("A hook that ran after the backup was made and left a receipt is not called again [F080 G3]")
    func receiptOutlivesBackup() throws {
        let hook = RecordingHook()
        let outcome = try scene.pull(hooks: hook, hooked)
        let run = try #require(outcome.report?.run)
        // The backup was made inside the hook, which went on and left its receipt.
        try SQLFile(database).takeBackHook(.running)
        try scene.root.write([], to: "dest/.syncagent/receipts/\(run).all")
        _ = try scene.pull(hooks: hook)
        #expect(hook.calls.count == 1)
        #expect(try scene.store.run(run).state == .finished)
    }
}
