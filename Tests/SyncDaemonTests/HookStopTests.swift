import Foundation
import SyncAgent
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
            "echo $SYNCAGENT_ATTEMPT >> \(calls); test $SYNCAGENT_ATTEMPT = 1 && sleep 600; exit 0")
        var request = bench.request()
        request.hooks = [.init(arguments: [hook]), .init(arguments: ["/bin/true"])]
        let run = try await agent.enqueue(request).run
        while !FileManager.default.fileExists(atPath: calls) { try await Task.sleep(for: .milliseconds(5)) }
        return run
    }

    private func calls(_ bench: AgentBench) throws -> String {
        try String(contentsOfFile: bench.root.path("calls"), encoding: .utf8)
    }

    /// A run in its hook, which has asked for the same session again: the runs of both.
    private func askedInHook(_ bench: AgentBench, _ agent: Agent) async throws -> [String] {
        let (up, calls) = (bench.root.path("up"), bench.root.path("calls"))
        let hook = try bench.hook(
            "touch \(up); while [ ! -e \(up).asked ]; do sleep 0.01; done; echo $SYNCAGENT_ATTEMPT >> \(calls)")
        var request = bench.request(hook: hook)
        let first = try await agent.enqueue(request).run
        while !FileManager.default.fileExists(atPath: up) { try await Task.sleep(for: .milliseconds(5)) }
        (request.origin, request.originRun) = (.hook, first)
        let reply = try await agent.enqueue(request)
        #expect(reply.isNew && reply.state == .waiting && reply.superseded == [])
        #expect(reply.notBefore?.milliseconds == bench.now() + 60_000)
        // Asked for once more, it is the same run, and the hook goes on.
        #expect(try await agent.enqueue(request).run == reply.run)
        _ = try await agent.prioritize(session, paths: ["f/1"])
        return [first, reply.run]
    }

    private func endHook(_ bench: AgentBench, of run: String) async throws {
        try bench.root.write([], to: "up.asked")
        for _ in 0..<2_000 where try bench.store.run(run).state != .finished {
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    @Test("A hook that pulls into its own session is not stopped by that; the new run waits [S33 S42 S59 F123]")
    func asking() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            let runs = try await askedInHook(bench, agent)
            try await endHook(bench, of: runs[0])
            #expect(try calls(bench) == "1\n")
            let hook = try #require(try bench.store.hooks(run: runs[0]).first)
            #expect(hook.state == .done && hook.attempt == 1)
            #expect(try bench.store.run(runs[0]).result == .ok)
            #expect(try bench.store.run(runs[1]).state == .waiting)
            bench.advance(.seconds(61))
            try await bench.until(.finished)
            #expect(try calls(bench) == "1\n1\n")
        }
        #expect(try bench.disorder() == [])
    }

    @Test("Paused, both the run in its hook and the one behind it rest; resumed, both go on [S24 S33 F123]")
    func pausedWhileAsking() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            let runs = try await askedInHook(bench, agent)
            #expect(try await agent.pause(session).state == .paused)
            #expect(try runs.map { try bench.store.run($0).state } == [.paused, .paused])
            try bench.root.write([], to: "up.asked")
            try await Task.sleep(for: .milliseconds(100))
            #expect(!FileManager.default.fileExists(atPath: bench.root.path("calls")))
            _ = try await agent.resume(session)
            // What has just been changed starts a moment later.
            bench.advance(.seconds(1))
            try await endHook(bench, of: runs[0])
            try await bench.until(.finished)
            #expect(try calls(bench) == "2\n1\n")
        }
        #expect(try bench.disorder() == [])
    }

    @Test("Given up, the run in its hook and the one behind it are both cancelled [S33 S102 F123]")
    func cancelledWhileAsking() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            let runs = try await askedInHook(bench, agent)
            #expect(try await agent.cancel(session).state == .idle)
            #expect(try runs.map { try bench.store.run($0).state } == [.cancelled, .cancelled])
            #expect(try bench.store.owedHooks() == [])
        }
        #expect(try bench.disorder() == [])
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

    @Test("Paused, they wait; resumed, the one that was stopped is called again with the next attempt [S24 F089]")
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
