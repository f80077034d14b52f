import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("Background runs that prune", .timeLimit(.minutes(10)))
struct PruneRunTests {
    private let session = "com.example.tower"

    @Test("A run keeps to the limit it was asked for, and keeps what it removes where it was asked to")
    func limits() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        let kept = bench.root.path("kept files, ü")
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            try bench.publish(AssetTree(bench.tree.nodes.filter { $0.key != "f/3" }), revision: 2)

            var request = bench.request()
            (request.prune, request.maxDelete, request.backupDir) = (true, 0, kept)
            let refused = try await agent.enqueue(request).run
            try await bench.until(.finished)
            #expect(try bench.store.run(refused).exitStatus == ExitStatus.refused.rawValue)
            #expect(bench.root.read("files/f/3") != nil)

            request.maxDelete = 1
            let allowed = try await agent.enqueue(request).run
            try await bench.until(.finished)
            #expect(try bench.store.run(allowed).result == .ok)
        }
        #expect(bench.root.read("files/f/3") == nil)
        #expect(AssetTree.read(kept, ignoring: []).bytes("f/3") == bench.tree.bytes("f/3"))
    }

    @Test(
        "Limits that make no sense, and secrets, are refused by name",
        arguments: ["max_delete", "backup_dir", "the header X-Key"])
    func refused(key: String) async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            switch key {
            case "max_delete": request.maxDelete = -1
            case "backup_dir": request.backupDir = "relative"
            default: request.settings.headers = [.line("X-Key: canary")]
            }
            let error = await #expect(throws: ControlError.self) { try await agent.enqueue(request) }
            #expect(error?.code == .invalid && error?.message.contains(key) == true)
            #expect(error?.message.contains("canary") == false)
        }
    }
}
