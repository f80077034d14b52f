import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("One project in two destinations, in the background", .timeLimit(.minutes(10)))
struct TwoDestinationTests {
    @Test("Asked for at the same time, both are filled, each in a session of its own [S1 S135]")
    func both() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        let places = ["one", "two", "three"].map { bench.root.path("places/" + $0) }
        try await whileRunning(agent) {
            let sessions = try await withThrowingTaskGroup(of: String.self) { group in
                for place in places {
                    let request = EnqueueRequest(manifest: bench.manifest, destination: place)
                    group.addTask { try await agent.enqueue(request).session }
                }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(sessions.count == 3 && sessions.contains("com.example.tower"), "\(sessions)")
            bench.free()
            for session in sessions { try await bench.until(.finished, session: session) }
        }
        #expect(try bench.store.runs().allSatisfy { $0.result == .ok })
        for place in places { #expect(bench.tree.problems(in: place) == []) }
    }

    @Test("A session that is named with another destination than it has is refused, and its run goes on")
    func refused() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.session = "nightly"
            let run = try await agent.enqueue(request).run
            try await bench.until(.running, session: "nightly")
            request.destination = bench.root.path("elsewhere")
            let error = await #expect(throws: ControlError.self) { try await agent.enqueue(request) }
            #expect(error?.exitStatus == .usage)
            bench.free()
            try await bench.until(.finished, session: "nightly")
            #expect(try bench.store.run(run).result == .ok)
        }
    }
}
