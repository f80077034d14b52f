import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Testing

/// What a run can be at when somebody has had enough of it; none of these ends by itself within minutes.
enum Trouble: String, CaseIterable, CustomTestStringConvertible {
    /// Connected, and the server says nothing.
    case silence
    /// The body stops in its middle.
    case stall
    /// One byte, ten times a second.
    case drip
    /// 503, to be asked again in ten minutes.
    case retryAfter
    /// Sent on to a server that says nothing.
    case redirected
    /// Each connection breaks, and the next try is put off longer each time.
    case backoff
    /// A hook that ignores SIGTERM.
    case deafHook
    /// A person paused it.
    case paused

    var testDescription: String { rawValue }

    fileprivate func arrange(_ bench: AgentBench) {
        for path in bench.packPaths {
            let object = bench.object(path)
            bench.server.respond(to: path) { _ in
                switch self {
                case .silence: .object(object).delayed(by: .seconds(300))
                case .stall, .paused: .object(object).stalling(at: 1_000)
                case .drip: .object(object).dripping(1, every: .milliseconds(100))
                case .retryAfter: .status(503, text: "later").setting("Retry-After", "600")
                case .redirected: .status(302, text: "there").setting("Location", "/silent")
                case .backoff: .object(object).dropping(at: 0)
                case .deafHook: .object(object)
                }
            }
        }
        bench.server.respond(to: "/silent") { _ in .status(200, text: "x").delayed(by: .seconds(300)) }
    }
}

@Suite("Whatever a run is at, giving it up and stopping the agent work at once", .serialized, .timeLimit(.minutes(10)))
struct StopAnywhereTests {
    private let session = "com.example.tower"
    /// Alone it takes a tenth of a second. Beside fifty other tests two threads have to do for all of them; a run that did
    /// not listen would take the five minutes of its server.
    private let atOnce = Duration.seconds(60)

    /// A run that is in trouble.
    private func reach(_ trouble: Trouble, _ bench: AgentBench, _ agent: Agent) async throws -> String {
        let called = bench.root.path("called")
        let hook = try bench.hook("trap '' TERM; echo x > \(called); sleep 60 & wait; sleep 60")
        let requests = bench.server.log.requestCount
        let run = try await agent.enqueue(bench.request(hook: trouble == .deafHook ? hook : nil)).run
        try await bench.until(.running)
        if trouble == .deafHook {
            while !FileManager.default.fileExists(atPath: called) { try await Task.sleep(for: .milliseconds(5)) }
        } else {
            while bench.server.log.entries.dropFirst(requests).allSatisfy({ !$0.request.path.contains("pack") }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        if trouble == .paused { _ = try await agent.pause(session) }
        return run
    }

    @Test("cancel ends the run, and nothing more is asked for [S102]", arguments: Trouble.allCases)
    func cancelled(trouble: Trouble) async throws {
        let bench = try AgentBench()
        trouble.arrange(bench)
        let agent = bench.agent()
        try await whileRunning(agent) {
            let run = try await reach(trouble, bench, agent)
            let start = ContinuousClock.now
            let status = try await agent.cancel(session)
            #expect(ContinuousClock.now - start < atOnce)
            #expect(status.state == .idle && status.owedHooks == 0)
            #expect(try bench.store.run(run).state == .cancelled)
            let requests = bench.server.log.requestCount
            try await Task.sleep(for: .milliseconds(200))
            #expect(bench.server.log.requestCount == requests)
        }
        #expect(bench.staged == [:])
        #expect(try bench.disorder() == [])
    }

    @Test("A stopped agent is gone, and keeps the run for the next one [S22 S24]", arguments: Trouble.allCases)
    func stopped(trouble: Trouble) async throws {
        for mode in [AgentStop.release, .pause] {
            let bench = try AgentBench()
            trouble.arrange(bench)
            let agent = bench.agent()
            let running = Task { await agent.run() }
            let run = try await reach(trouble, bench, agent)
            let start = ContinuousClock.now
            await agent.stop(mode)
            await running.value
            #expect(ContinuousClock.now - start < atOnce)
            let state = try bench.store.run(run).state
            switch (trouble, mode) {
            case (.deafHook, _): #expect(state == .finished || state == .waiting || state == .paused)
            case (.paused, _), (_, .pause): #expect(state == .paused)
            default: #expect(state == .waiting)
            }
            #expect(try bench.disorder() == [])
        }
    }
}
