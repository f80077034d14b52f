import Foundation
import SyncControl
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("A hook under way, and what people want meanwhile", .timeLimit(.minutes(10)))
struct HookStopTests {
    private let session = "com.example.tower"

    /// A run with two hooks; the first one writes a line and waits to be stopped, on its first attempt.
    private func inHook(_ bench: AgentBench, _ agent: Agent) async throws -> String {
        let calls = bench.root.path("calls")
        let hook = try bench.hook(
            "echo $SYNCAGENT_ATTEMPT >> \(calls); test $SYNCAGENT_ATTEMPT = 1 && sleep 600; exit 0"
        )
        var request = bench.request()
        request.hooks = [.init(arguments: [hook]), .init(arguments: ["/bin/true"])]
        let run = try await agent.enqueue(request).run
        while !FileManager.default.fileExists(atPath: calls) { try await Task.sleep(for: .milliseconds(5)) }
        return run
    }

    private func calls(_ bench: AgentBench) throws -> String {
        try String(contentsOfFile: bench.root.path("calls"), encoding: .utf8)
    }

    @Test("Given up, no hook of the run is called again [S33 S102]")
    func cancelled() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let run = try await inHook(bench, agent)
            let status = try await agent.cancel(session)
            #expect(status.state == .idle && status.owedHooks == 0)
            try await Task.sleep(for: .milliseconds(150))
            #expect(try calls(bench) == "1\n")
            let hooks = try bench.store.hooks(run: run)
            #expect(hooks.map(\.state) == [.skipped, .failed] && hooks.last?.ended == "stopped")
        }
        #expect(bench.tree.problems(in: bench.destination) == [], "what is in place stays")
        #expect(try bench.disorder() == [])
    }

    @Test(
        "Paused, they wait; resumed, the one that was stopped is called again with the next attempt [S24 F089]"
    )
    func paused() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await inHook(bench, agent)
            let status = try await agent.pause(session)
            #expect(status.state == .paused && status.owedHooks == 2)
            try await Task.sleep(for: .milliseconds(150))
            #expect(try calls(bench) == "1\n")
            _ = try await agent.resume(session)
            try await bench.until(.finished)
        }
        #expect(try calls(bench) == "1\n2\n")
        #expect(try bench.store.hooks().map(\.state) == [.done, .done])
        #expect(try bench.disorder() == [])
    }
}
