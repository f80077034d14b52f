import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@Suite("Enqueuing a run", .timeLimit(.minutes(10)))
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
            ["sessions", "runs", "groups", "hooks", "tasks", "events"].map { "SELECT count(*) FROM \($0)" }.joined(
                separator: " UNION ALL "))
    }

    @Test(
        "100,000 entries are enqueued in one transaction of as many rows as 10 entries take [S64 S69]",
        arguments: [10, 100_000])
    func large(entries: Int) throws {
        scene.transport.serve(manifest(entries: entries), at: Scene.base + "manifest.json")
        let engine = scene.engine()
        var options = scene.options()
        options.hooks = [RunHook(group: "all", arguments: ["/bin/after"])]
        let prepared = try engine.prepare(options)
        let before = try transactions()
        let started = try engine.enqueue(prepared.start, of: prepared.found)
        #expect(try transactions() == before + 1)
        #expect(try rows() == [1, 1, 1, 1, 0, 0])
        #expect(started.run.state == .waiting && !started.isContinued)
        // Asked again it is the same run.
        let again = try engine.enqueue(preparing: options)
        #expect(again.isContinued && again.run.identifier == started.run.identifier)
        #expect(try rows() == [1, 1, 1, 1, 0, 0])
    }

    @Test(
        "Whoever works on a run later knows whether its manifest came from a public address [V29]",
        arguments: [true, false, nil] as [Bool?])
    func origin(isPublic: Bool?) throws {
        var tree = AssetTree()
        tree.addFile("a", size: 5_000, seed: 1)
        let set = try scene.publish(tree)
        scene.transport.answer(fromPublic: isPublic)
        let engine = scene.engine()
        let started = try engine.enqueue(preparing: scene.options())
        scene.transport.answer(fromPublic: nil)
        let manifests = scene.transport.asked.count
        #expect(try engine.work(on: started.run).status == .done)
        let pack = try #require(set.packs.first)
        let referrer = TransferRequest.Referrer(url: Scene.base + "manifest.json", isPublic: isPublic)
        #expect(scene.transport.referrer(of: Scene.base + pack.name) == referrer)
        #expect(scene.transport.asked.count == manifests + 1, "the manifest is not asked for again")

        // A manifest of this machine is nobody's word but the user's.
        scene.transport.forget()
        try scene.root.write(set.manifest, to: "site/manifest.json")
        scene.transport.serve(pack.bytes, at: "file://\(scene.root.path("site"))/\(pack.name)")
        let outcome = try scene.pull(manifest: scene.root.path("site/manifest.json")) {
            $0.destination = scene.root.path("other")
            $0.session = "other"
        }
        #expect(outcome.status == .done)
        #expect(outcome.requests.allSatisfy { scene.transport.referrer(of: $0.url) == nil })
    }

    @Test("Whatever is wrong with a request, nothing of it is recorded [S64 S65]")
    func refused() throws {
        scene.transport.serve(manifest(entries: 3), at: Scene.base + "manifest.json")
        let engine = scene.engine()
        var wrongHook = scene.options()
        wrongHook.hooks = [RunHook(group: "none", arguments: ["/bin/after"])]
        var wrongGroup = scene.options()
        wrongGroup.groups = ["none"]
        for options in [wrongHook, wrongGroup, scene.options(Scene.base + "missing.json")] {
            #expect(throws: EngineError.self) { _ = try engine.prepare(options) }
        }
        #expect(try rows() == [0, 0, 0, 0, 0, 0])
    }
}
