import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@Suite("A destination that is to change as a whole, in the background", .timeLimit(.minutes(10)))
struct FirstTreeTests {
    @Test("While the agent looks through what is there it answers everybody else")
    func looksAside() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            try await fill(bench, agent)
            let gate = Gate(bench)
            let request = wholeRequest(bench)
            let asked = Task { try await agent.enqueue(request) }
            try await gate.untilReached()
            #expect(try await agent.sessions().count == 1)
            #expect(try bench.store.runs().count == 1, "nothing is on record before it is known to be possible")
            gate.open()
            #expect(try await asked.value.isNew)
            try await bench.until(.finished)
            #expect(try bench.store.runs().map(\.result) == [.ok, .ok])
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("An agent that is stopped while it looks leaves the request to the next one, whatever it has found")
    func stoppedMeanwhile() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            try await fill(bench, agent)
            // The first tree would be without it.
            try bench.root.write([1], to: "files/mine")
            let gate = Gate(bench)
            let request = wholeRequest(bench)
            let asked = Task { try await agent.enqueue(request) }
            try await gate.untilReached()
            await agent.stop(.release)
            gate.open()
            let error = await #expect(throws: ControlError.self) { try await asked.value }
            #expect(error?.code == .stopping && error?.exitStatus == .unavailable)
        }
        #expect(try bench.store.runs().count == 1)
        let next = bench.agent(process: 2)
        try await whileRunning(next) {
            let asked = wholeRequest(bench)
            let error = await #expect(throws: ControlError.self) { try await next.enqueue(asked) }
            #expect(error?.exitStatus == .refused && error?.message.contains("mine") == true)
        }
        let last = try #require(try bench.store.runs(limit: 1).first)
        #expect(last.isTry && last.exitStatus == ExitStatus.refused.rawValue)
        #expect(bench.tree.problems(in: bench.destination) == ["mine: foreign"])
    }

    @Test("One that cannot be had is on the session's record, whatever the reason")
    func onRecord() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            try await fill(bench, agent)
            var wishes = wholeRequest(bench)
            wishes.backupDir = bench.root.path("backups")
            let asked = wishes
            let error = await #expect(throws: ControlError.self) { try await agent.enqueue(asked) }
            #expect(error?.exitStatus == .usage)
        }
        let last = try #require(try bench.store.runs(limit: 1).first)
        #expect(last.isTry && last.exitStatus == ExitStatus.usage.rawValue)
        #expect(last.error?.contains("--backup-dir") == true)
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    private func wholeRequest(_ bench: AgentBench) -> EnqueueRequest {
        var request = bench.request()
        request.atomic = AtomicSwitch()
        return request
    }

    /// Fills the destination file by file; nothing is under way when this returns.
    private func fill(_ bench: AgentBench, _ agent: Agent) async throws {
        _ = try await agent.enqueue(bench.request())
        try await bench.until(.finished)
        while await agent.status().running > 0 { try await Task.sleep(for: .milliseconds(5)) }
    }
}

/// Holds the work on a request that the agent does on a thread of its own, once it looks at what is there: before that,
/// as long as nothing is signed, no thread looks at the clock.
private final class Gate: Sendable {
    private let state = Mutex((isReached: false, isOpen: false))

    init(_ bench: AgentBench) { bench.whenClockIsRead { [self] in pass() } }

    private func pass() {
        // On an actor there is a task of Swift's, on a thread of its own there is none.
        guard withUnsafeCurrentTask(body: { $0 == nil }) else { return }
        let isHeld = state.withLock { state in
            defer { state.isReached = true }
            return !state.isReached
        }
        guard isHeld else { return }
        for _ in 0..<4_000 where !state.withLock(\.isOpen) { Thread.sleep(forTimeInterval: 0.005) }
    }

    /// Waits until the work is held.
    func untilReached() async throws {
        for _ in 0..<2_000 {
            if state.withLock(\.isReached) { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("nothing was done on a thread of its own")
    }

    func open() { state.withLock { $0.isOpen = true } }
}
