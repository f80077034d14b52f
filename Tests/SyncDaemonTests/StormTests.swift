import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

@Suite("A storm of commands", .timeLimit(.minutes(10)))
struct StormTests {
    private let session = "com.example.tower"

    @Test("Every command is answered, every state is legal, and the next run ends well [S104 S105 S106 F119]")
    func storm() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask { for turn in 0..<60 { try await command(number &* 7 &+ turn &* 13, agent, bench) } }
                }
                try await group.waitForAll()
            }
            #expect(try bench.store.findings() == [])
            #expect(try bench.disorder() == [])
            bench.free()
            _ = try await agent.cancel(session)
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("Cancelled just as it ends, a run is finished or cancelled, and never half of both [F120]")
    func race() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            for turn in 0..<24 {
                try? FileManager.default.removeItem(atPath: bench.destination)
                _ = try await agent.enqueue(bench.request())
                try await Task.sleep(for: .milliseconds(turn * 6))
                // What is over is not cancelled any more, and says so.
                _ = try? await agent.cancel(session)
                for _ in 0..<2_000 where try latest(bench)?.isOpen != false {
                    try await Task.sleep(for: .milliseconds(5))
                }
                let end = try latest(bench)
                #expect(end == .finished || end == .cancelled)
                if end == .finished { #expect(bench.tree.problems(in: bench.destination) == []) }
                #expect(try bench.disorder() == [])
            }
        }
    }

    private func latest(_ bench: AgentBench) throws -> RunState? {
        try bench.store.runs(session: session, limit: 1).first?.state
    }

    private func command(_ dice: Int, _ agent: Agent, _ bench: AgentBench) async throws {
        switch dice % 20 {
        case 0: _ = try await agent.cancel(session)
        case 1: _ = try await agent.enqueue(bench.request())
        case 2..<11: _ = try await agent.pause(session)
        default: _ = try await agent.resume(session)
        }
    }

    @Test("Of commands that wait together the last one decides, and all are told what came of it [S106]")
    func together() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            let states = try await withThrowingTaskGroup(of: SessionState.self) { group in
                for _ in 0..<20 { group.addTask { try await agent.pause(session).state } }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(states == [.paused])
            let stops = try bench.eventNames().filter { $0 == "run.stopped" }
            #expect(stops.count == 1)
            await #expect(throws: ControlError.self) { try await agent.pause("nobody") }
            await #expect(throws: ControlError.self) { try await agent.resume("nobody") }
        }
        bench.free()
    }
}
