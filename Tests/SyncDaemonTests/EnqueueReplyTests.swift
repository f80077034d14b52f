import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("What an agent says of a request", .timeLimit(.minutes(10)))
struct EnqueueReplyTests {
    private static let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    @Test("A hook that the manifest names and nobody knows is told in the reply, and keeps nothing back")
    func unknownHook() async throws {
        let bench = try AgentBench()
        let manifest = """
            {"format":"syncagent-manifest/1","project":"com.example.tower",
             "files":[{"path":"a","size":0,"sha256":"\(Self.empty)"}],
             "groups":[{"name":"sheets","include":["a"],"hooks":["reindex"]}]}
            """
        bench.server.serve(ServedObject(Array(manifest.utf8)), at: "/tower/manifest.json")
        let agent = bench.agent()
        try await whileRunning(agent) {
            let reply = try await agent.enqueue(bench.request())
            #expect(reply.warnings?.count == 1)
            let text = reply.warnings?.first ?? ""
            #expect(text.contains("'sheets'") && text.contains("'reindex'"), "\(text)")
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().first?.result == .ok)
    }

    @Test(
        "A hook that can never be called is refused, and nothing of its URL is said",
        arguments: ["reindex", "https://u:secret@chat.example/token", "ftp://chat.example/token"], [false, true])
    func impossibleHook(word: String, isNamed: Bool) async throws {
        let bench = try AgentBench(files: 1)
        var request = bench.request()
        let hook = RunHook(arguments: [word])
        if isNamed {
            request.configuration = RunConfiguration(file: nil, hooks: ["reindex": hook])
        } else {
            request.hooks = [hook]
        }
        let error = await #expect(throws: ControlError.self) { try await bench.agent().enqueue(request) }
        #expect(error?.code == .invalid && error?.message.hasPrefix("hooks: ") == true)
        #expect(error?.message.contains("token") == false && error?.message.contains("secret") == false)
    }

    @Test("A run that ends without its files keeps the exit status for whoever waits for it")
    func exitStatus() async throws {
        let bench = try AgentBench()
        bench.server.respondToOthers { _ in .status(404, text: "no") }
        for path in bench.packPaths { bench.server.respond(to: path) { _ in .status(404, text: "no") } }
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            let status = try await agent.session("com.example.tower")
            #expect(status.run?.result == .failed)
            #expect(status.run?.exitStatus == ExitStatus.incomplete.rawValue)
        }
    }

    @Test(
        "An agent reads no manifest any more once it is stopped, or nobody can be answered, as when its socket is gone",
        arguments: [true, false])
    func stoppedMeanwhile(isAgent: Bool) async throws {
        let bench = try AgentBench()
        let body = ServedObject([UInt8](repeating: 0x20, count: 10_000))
        for path in ["/tower/manifest.json", "/tower/manifest.json.zst"] {
            bench.server.respond(to: path) { _ in .object(body).stalling(at: 10) }
        }
        let agent = bench.agent()
        let asked = bench.server.log.requestCount
        let reply = Task { () -> ControlError? in
            do {
                _ = try await agent.enqueue(bench.request())
                return nil
            } catch { return error as? ControlError }
        }
        let running = Task { await agent.run() }
        while bench.server.log.requestCount == asked { try await Task.sleep(for: .milliseconds(5)) }
        let start = ContinuousClock.now
        if isAgent { await agent.stop(.release) } else { reply.cancel() }
        #expect(await reply.value?.code == .stopping)
        #expect(await agent.status().state == (isAgent ? .stopping : .running))
        await agent.stop(.release)
        await running.value
        // Beside all other tests of this target it has taken 14 s; what stalls here never ends by itself.
        #expect(ContinuousClock.now - start < .seconds(50))
    }
}
