import Foundation
import SyncDaemon
import SyncModel
import SyncStore
import Testing

@Suite("What an agent keeps of the past", .timeLimit(.minutes(10)))
struct HistoryTests {
    @Test("An agent that stays prunes history every hour")
    func pruning() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        let request = StoredSession(
            identifier: "old", project: "p", destination: bench.destination, device: 0, inode: 0)
        // The agent leaves runs alone that somebody is at work on.
        let lease = try bench.store.lease(of: "old", process: 1, now: bench.now())
        defer { withExtendedLifetime(lease) {} }
        func add(_ numbers: Range<Int>) throws {
            for number in numbers {
                try bench.store.begin(
                    RunStart(session: request, run: "r\(number)", manifest: .zero, recipe: RunRecipe(manifest: "m")),
                    now: bench.now())
                try bench.store.finish(run: "r\(number)", result: .ok, counts: RunCounts(), now: bench.now())
            }
        }
        func untilPruned() async throws {
            for _ in 0..<500 where try bench.store.runs(limit: 100).count > 50 {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(try bench.store.runs(limit: 100).count == 50)
        }
        try add(0..<51)
        try await whileRunning(agent) {
            try await untilPruned()
            try add(51..<61)
            #expect(try bench.store.runs(limit: 100).count == 60)
            bench.advance(.seconds(3_601))
            try await untilPruned()
        }
    }

    @Test("A reader that has missed pruned events is told so in the documented form")
    func prunedEvents() async throws {
        let bench = try AgentBench()
        let request = StoredSession(
            identifier: "old", project: "p", destination: bench.destination, device: 0, inode: 0)
        try bench.store.begin(
            RunStart(session: request, run: "r", manifest: .zero, recipe: RunRecipe(manifest: "m")), now: bench.now())
        try bench.store.finish(run: "r", result: .ok, counts: RunCounts(), now: bench.now())
        for number in 0..<3 {
            try bench.store.append([Array("{\"event\":\"e\(number)\"}".utf8)], to: "old", time: bench.now())
        }
        try bench.store.prune(eventBytes: 14)
        let through = try bench.store.events(of: "old", after: 0).prunedSequence
        let agent = bench.agent()
        try await whileRunning(agent) {
            let lines = try await agent.events(of: "old", since: 0, follow: false, progress: false)
            var iterator = lines.makeAsyncIterator()
            #expect(try await iterator.next() == "{\"event\":\"events.pruned\",\"through\":\(through)}")
        }
        #expect(through > 0)
    }
}
