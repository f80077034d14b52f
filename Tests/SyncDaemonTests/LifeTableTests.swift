import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

/// The table of S98: what a task was doing × what happened. Our unit of rest is the run with what is in staging.
@Suite("What was going on, and what happened then [S98]", .timeLimit(.minutes(10)))
struct LifeTableTests {
    /// What a task was doing; the columns.
    enum Doing: String, CaseIterable, Sendable { case waiting, running, paused, stoppedWithPart, cancelled }

    /// What happened; the rows.
    enum Happening: String, CaseIterable, Sendable { case nothing, clientGone, stopped, killed, powerLost }

    private static let session = "com.example.tower"
    private static let large = "/tower/files/large"

    @Test(
        "Row, staging, destination and events are as the table says [S23 S24 S98 S99 S100 S102 S107]",
        arguments: Doing.allCases, Happening.allCases)
    func cell(doing: Doing, happening: Happening) async throws {
        let bench = try AgentBench(large: 3_000_000)
        bench.stall()
        let agent = bench.agent(jobs: doing == .waiting ? 0 : 2)
        let running = Task { await agent.run() }
        let run = try await Self.lead(to: doing, bench, agent)
        try Self.expectAtFirst(doing, bench, run)

        switch happening {
        case .nothing: break
        case .clientGone: try await Self.followAndGo(agent)
        case .stopped: await agent.stop(.pause)
        case .killed, .powerLost:
            try await bench.kill(agent, running)
            if happening == .powerLost { try Self.loseUnsynced(bench) }
        }
        // What waits for its turn gets it from the next agent.
        let hasSuccessor = happening != .nothing && (happening != .clientGone || doing == .waiting)
        if hasSuccessor {
            await agent.stop(.release)
            await running.value
        }
        let successor = hasSuccessor ? bench.agent(process: 2) : nil
        let rests = Self.rest(doing, happening)
        if happening == .stopped { try Self.expect(rests, doing, bench, run) }

        bench.free()
        let asked = bench.server.log.requestCount
        let last = successor ?? agent
        let following = successor.map { next in Task { await next.run() } } ?? running
        if rests == .finished {
            try await bench.until(.finished)
        } else if happening != .nothing || (doing != .running && doing != .waiting) {
            // Time enough for whatever should not start.
            try await Task.sleep(for: .milliseconds(150))
            #expect(bench.server.log.requestCount == asked, "nobody asked for anything")
        }
        if happening != .nothing { try Self.expect(rests, doing, bench, run) }
        try Self.expectEvents(rests, doing, happening, bench)
        await last.stop(.release)
        await following.value
        #expect(try bench.disorder() == [])
    }

    /// Brings a run to where the column begins.
    private static func lead(to doing: Doing, _ bench: AgentBench, _ agent: Agent) async throws -> String {
        var request = bench.request()
        request.paused = doing == .paused
        // The large file must not wait for packs that stall.
        request.settings.connections = 16
        let run = try await agent.enqueue(request).run
        guard doing != .waiting, doing != .paused else { return run }
        try await bench.until(.running)
        let point = AgentBench.stallPoint(large)
        for _ in 0..<2_000 where bench.server.log.bytesSent(to: large) < point || bench.staged.isEmpty {
            try await Task.sleep(for: .milliseconds(5))
        }
        if doing == .stoppedWithPart { _ = try await agent.pause(session) }
        if doing == .cancelled { _ = try await agent.cancel(session) }
        return run
    }

    /// The row "immediate".
    private static func expectAtFirst(_ doing: Doing, _ bench: AgentBench, _ run: String) throws {
        switch doing {
        case .waiting: try expect(.waiting, doing, bench, run)
        case .running:
            #expect(try bench.store.run(run).state == .running)
            #expect(bench.staged.contains { $0.key.hasSuffix(".part") })
        case .paused, .stoppedWithPart: try expect(.paused, doing, bench, run)
        case .cancelled: try expect(.cancelled, doing, bench, run)
        }
        #expect(!FileManager.default.fileExists(atPath: bench.destination + "/large"))
    }

    /// Where the run is in the end.
    private static func rest(_ doing: Doing, _ happening: Happening) -> RunState {
        switch doing {
        case .waiting: happening == .nothing ? .waiting : happening == .stopped ? .paused : .finished
        case .running: happening == .nothing ? .finished : happening == .stopped ? .paused : .finished
        case .paused, .stoppedWithPart: .paused
        case .cancelled: .cancelled
        }
    }

    /// The run's row, staging and destination.
    private static func expect(_ state: RunState, _ doing: Doing, _ bench: AgentBench, _ run: String) throws {
        let stored = try bench.store.run(run)
        #expect(stored.state == state)
        let parts = bench.staged.filter { $0.key.hasSuffix(".part") }
        switch state {
        case .waiting: #expect(stored.reason == nil && parts.isEmpty)
        case .paused:
            #expect(stored.reason == .userStop && stored.pausedAt != nil)
            let hasPart = doing == .running || doing == .stoppedWithPart
            #expect(parts.isEmpty == !hasPart, "what came is kept, and only that")
            #expect(parts.values.allSatisfy { $0.count <= 3_000_000 })
        case .cancelled:
            #expect(stored.reason == .userCancel && stored.finished != nil)
            #expect(bench.staged.isEmpty, "nothing is kept of what was given up")
        case .finished:
            #expect(stored.result == .ok && bench.staged.isEmpty)
            #expect(bench.tree.problems(in: bench.destination) == [])
        case .running, .superseded: Issue.record("no rest")
        }
    }

    private static func expectEvents(_ rests: RunState, _ doing: Doing, _ happening: Happening, _ bench: AgentBench)
        throws
    {
        let events = try bench.events()
        func count(_ name: String) -> Int { events.count { $0["event"] as? String == name } }
        let stops = events.filter { $0["event"] as? String == "run.stopped" }.map { $0["reason"] as? String }
        let wasLost = happening == .killed || happening == .powerLost
        switch doing {
        case .waiting:
            #expect(stops == (happening == .stopped ? ["user_stop"] : []))
            #expect(count("run.started") == (rests == .finished ? 1 : 0))
        case .running:
            #expect(stops == (happening == .stopped ? ["user_stop"] : []))
            #expect(count("run.started") == (wasLost ? 2 : 1), "each process that takes it up says so")
        case .paused: #expect(events.isEmpty)
        case .stoppedWithPart: #expect(stops == ["user_stop"] && count("run.started") == 1)
        case .cancelled: #expect(stops == ["user_cancel"] && count("run.started") == 1)
        }
        #expect(count("pull.finished") == (rests == .finished ? 1 : 0))
        #expect(count("task.failed") == 0)
        if rests == .finished {
            #expect(count("task.installed") == bench.tree.paths.count)
            let ranges = bench.server.log.requests(to: large).compactMap { $0.request.header("range") }
            let goesOn = ranges.contains { !$0.hasPrefix("bytes=0-") }
            if doing == .running, happening == .killed { #expect(goesOn, "what came is not fetched again") }
        }
    }

    /// A client that reads events and goes away in the middle.
    private static func followAndGo(_ agent: Agent) async throws {
        let lines = try await agent.events(of: session, since: 0, follow: true, progress: true)
        let client = Task { for try await _ in lines {} }
        try await Task.sleep(for: .milliseconds(30))
        client.cancel()
        _ = await client.result
    }

    /// What was never synced is gone: the end of every part.
    private static func loseUnsynced(_ bench: AgentBench) throws {
        for (name, bytes) in bench.staged {
            let kept = bytes.prefix(bytes.count / 2)
            let lost = [UInt8](repeating: 0, count: bytes.count - kept.count)
            try bench.root.write(kept + lost, to: "files/.syncagent/staging/" + name)
        }
    }
}
