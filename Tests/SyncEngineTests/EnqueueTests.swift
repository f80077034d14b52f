import Foundation
import SyncEngine
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("Enqueuing a run", .timeLimit(.minutes(3)))
struct EnqueueTests {
    private let scene: Scene

    init() throws { scene = try Scene(isDurable: true) }

    private var database: String { scene.root.path("state/syncagent.sqlite") }

    /// A manifest of empty files: what counts is how many.
    private func manifest(entries: Int) -> [UInt8] {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        let files = (0..<entries).map { number in
            let name = String(number)
            let path = "f/" + String(repeating: "0", count: 6 - name.count) + name
            return "{\"path\":\"\(path)\",\"size\":0,\"sha256\":\"\(empty)\"}"
        }
        let head = "{\"format\":\"syncagent-manifest/1\",\"project\":\"com.example.many\","
        return Array((head + "\"files\":[" + files.joined(separator: ",") + "]}").utf8)
    }

    /// Transactions in SQLite's write-ahead log: frames that name the size of the database end one.
    /// https://sqlite.org/fileformat2.html#walformat
    private func transactions() throws -> Int {
        let log = try Data(contentsOf: URL(fileURLWithPath: database + "-wal"))
        return stride(from: 32, to: log.count, by: 24 + 4_096).count { frame in
            log[(frame + 4)..<(frame + 8)].contains { $0 != 0 }
        }
    }

    private func rows() throws -> [Int] {
        try SQLFile(database).numbers(
            ["sessions", "runs", "groups", "hooks", "tasks", "events"]
                .map { "SELECT count(*) FROM \($0)" }.joined(separator: " UNION ALL ")
        )
    }

    @Test(
        "100,000 entries are enqueued in one transaction of as many rows as 10 entries take [S64 S69]",
        arguments: [10, 100_000]
    )
    func large(entries: Int) throws {
        scene.transport.serve(manifest(entries: entries), at: Scene.base + "manifest.json")
        let engine = scene.engine()
        var options = scene.options()
        options.hooks = [HookSpecification(group: "all", arguments: ["/bin/after"])]
        let prepared = try engine.prepare(options)
        let before = try transactions()
        let begun = try engine.enqueue(prepared)
        #expect(try transactions() == before + 1)
        #expect(try rows() == [1, 1, 1, 1, 0, 0])
        #expect(begun.run.state == .waiting && !begun.isContinued)
        // Asked again it is the same run.
        let again = try engine.enqueue(try engine.prepare(options))
        #expect(again.isContinued && again.run.identifier == begun.run.identifier)
        #expect(try rows() == [1, 1, 1, 1, 0, 0])
    }

    @Test("Whatever is wrong with a request, nothing of it is recorded [S64 S65]")
    func refused() throws {
        scene.transport.serve(manifest(entries: 3), at: Scene.base + "manifest.json")
        let engine = scene.engine()
        var wrongHook = scene.options()
        wrongHook.hooks = [HookSpecification(group: "none", arguments: ["/bin/after"])]
        var wrongGroup = scene.options()
        wrongGroup.groups = ["none"]
        for options in [wrongHook, wrongGroup, scene.options(Scene.base + "missing.json")] {
            #expect(throws: EngineError.self) { _ = try engine.prepare(options) }
        }
        #expect(try rows() == [0, 0, 0, 0, 0, 0])
    }
}
