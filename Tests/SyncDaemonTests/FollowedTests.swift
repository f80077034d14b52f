import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@Suite("Who looks on, and what is on record before", .timeLimit(.minutes(10)))
struct FollowedTests {
    private let session = "com.example.tower"

    @Test("A hook of a session that somebody follows makes nothing wait; one that nobody follows does [S62 S63]")
    func followed() async throws {
        let bench = try AgentBench()
        let hook = try bench.hook("exit 0")
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            let stream = try await agent.events(of: session, since: 0, follow: true, progress: false)
            let reader = Task { for try await _ in stream {} }
            _ = try await agent.enqueue(bench.request(hook: hook))
            try await called(1, bench)
            #expect(try await agent.session(session).limiterDelaySeconds == 0)

            reader.cancel()
            _ = await reader.result
            _ = try await agent.enqueue(bench.request(hook: hook))
            try await called(2, bench)
            #expect(try await agent.session(session).limiterDelaySeconds == 60)
        }
    }

    /// Waits until so many hooks have ended.
    private func called(_ count: Int, _ bench: AgentBench) async throws {
        for _ in 0..<2_000 {
            if try bench.eventNames().count(where: { $0 == "hook.finished" }) == count { break }
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try bench.eventNames().count(where: { $0 == "hook.finished" }) == count)
        try await bench.until(.finished)
    }

    @Test("When the first request for a file comes, its run is on the disk as running [S70]")
    func onRecord() async throws {
        let bench = try AgentBench()
        let seen = Mutex<[RunState?]>([])
        let session = session
        for (path, object) in bench.objects {
            bench.server.respond(to: path) { [store = bench.store] _ in
                let state = try? store.runs(session: session, limit: 1).first?.state
                seen.withLock { $0.append(state) }
                return .object(object)
            }
        }
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
        }
        let states = seen.withLock { $0 }
        #expect(!states.isEmpty && states.allSatisfy { $0 == .running })
    }
}
