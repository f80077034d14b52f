import Foundation
import SyncAgent
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@testable import SyncDaemon

@Suite("Who works on a session, and what is told when that fails", .timeLimit(.minutes(10)))
struct InterruptedTests {
    private let session = "com.example.tower"

    /// A run on record, which nobody works on unless the caller has the session.
    private func begin(_ bench: AgentBench, isHeld: Bool, deadline: Int64? = nil) throws {
        let request = StoredSession(
            identifier: session, project: session, destination: bench.destination, device: 0, inode: 0)
        var start = RunStart(session: request, run: "r", manifest: .zero, recipe: RunRecipe(manifest: bench.manifest))
        start.deadline = deadline
        start.recipe.hooks = [RunHook(arguments: ["/bin/true"])]
        try bench.store.begin(start, now: bench.now(), isHeld: isHeld)
    }

    @Test("A run that says running is told as interrupted exactly while no process has its session [S28]")
    func interrupted() throws {
        let bench = try AgentBench(files: 1)
        var lease = try bench.store.lease(of: session, process: 99, now: 1)
        try begin(bench, isHeld: true)
        for isInterrupted in [false, true] {
            if isInterrupted { lease = nil }
            let status = try bench.store.sessionStatus(session, now: bench.now())
            #expect(status.state == .running && status.run?.state == .running)
            #expect(status.isInterrupted == isInterrupted && status.run?.isInterrupted == isInterrupted)
            let json = String(decoding: try status.controlJSON(), as: UTF8.self)
            #expect(
                json.matches(of: /"is_interrupted":(true|false)/).map { $0.1 == "true" } == [
                    isInterrupted, isInterrupted,
                ])
        }
        #expect(lease == nil)
        try bench.store.apply(.paused, to: "r", now: bench.now())
        #expect(try bench.store.sessionStatuses(now: bench.now()).map(\.isInterrupted) == [false])
        // An agent of an earlier version does not say.
        let old =
            #"{"session":"s","project":"p","destination":"/d","state":"idle","owed_hooks":0,"#
            + #""limiter_delay_seconds":0,"last_sequence":0}"#
        #expect(try SessionStatus(answer: Array(old.utf8)).isInterrupted == nil)
    }

    @Test("A person who stops everything stops a run whose process was killed, too [S24]")
    func stoppedByPerson() async throws {
        let bench = try AgentBench(files: 1)
        try begin(bench, isHeld: true)
        await bench.agent().stop(.pause)
        let run = try bench.store.run("r")
        #expect(run.state == .paused && run.reason == .userStop)
    }

    @Test("A row of events that cannot be read is told to whoever reads them, by the agent's own error")
    func damaged() async throws {
        let bench = try AgentBench(files: 1)
        try begin(bench, isHeld: false)
        try bench.store.apply(.paused, to: "r", now: bench.now())
        for name in ["a", "b"] {
            try bench.store.append([Array("{\"event\":\"\(name)\"}".utf8)], to: session, time: bench.now())
        }
        try SQLFile(bench.root.path("state/syncagent.sqlite")).run("UPDATE events SET count = 7 WHERE first = 2")
        let agent = bench.agent()
        for follow in [false, true] {
            let lines = try await agent.events(of: session, since: 1, follow: follow, progress: false)
            let error = await #expect(throws: ControlError.self) { for try await _ in lines {} }
            #expect(error?.code == .failed && error?.exitStatus == .ioError)
            #expect(error?.message.contains("events of com.example.tower cannot be read") == true)
        }
    }

    @Test("A reader that has seen more than there is learns it at once, and a follower when events are lost [S8]")
    func unreached() async throws {
        let bench = try AgentBench(files: 1)
        try begin(bench, isHeld: false)
        try bench.store.apply(.paused, to: "r", now: bench.now())
        try bench.store.append([Array("{\"event\":\"a\"}".utf8)], to: session, time: bench.now())
        let agent = bench.agent()
        for follow in [false, true] {
            let early = await #expect(throws: ControlError.self) {
                _ = try await agent.events(of: session, since: 2, follow: follow, progress: false)
            }
            #expect(early?.code == .notFound && early?.exitStatus == .noInput)
        }
        let lines = try await agent.events(of: session, since: 1, follow: true, progress: false)
        // As a power cut leaves it.
        try SQLFile(bench.root.path("state/syncagent.sqlite")).run(
            "DELETE FROM events; UPDATE sessions SET next_seq = 1")
        let late = await #expect(throws: ControlError.self) { for try await _ in lines {} }
        #expect(late?.code == .notFound, "\(late?.message ?? "")")
        #expect(late?.message.contains("has no event 1; its last is 0") == true)
    }

    @Test("An agent that was started on demand stays while a request is worked on, and takes none once it ends")
    func lateRequest() async throws {
        let bench = try AgentBench(files: 2)
        let manifest = "/tower/manifest.json"
        let set = try ManifestBuilder(bench.tree).build()
        bench.server.respond(to: manifest) { _ in .object(ServedObject(set.manifest)).stalling(at: 10) }
        let agent = bench.agent(onDemand: true)
        let asked = Task { try await agent.enqueue(bench.request()) }
        while !bench.server.log.entries.contains(where: { $0.request.target == manifest }) {
            try await Task.sleep(for: .milliseconds(5))
        }
        let running = Task { await agent.run() }
        // It is idle for no longer than 50 ms.
        try await Task.sleep(for: .milliseconds(300))
        try bench.publish(bench.tree)
        bench.server.releaseStalls()
        _ = try await asked.value
        try await bench.until(.finished)
        await running.value
        var error = await #expect(throws: ControlError.self) { try await agent.enqueue(bench.request()) }
        #expect(error?.code == .stopping)
        error = await #expect(throws: ControlError.self) { try await agent.resume(session) }
        #expect(error?.code == .stopping)
        error = await #expect(throws: ControlError.self) { try await agent.replay(hook: 1) }
        #expect(error?.code == .stopping)
    }

    @Test("A run whose deadline has passed is not ended while another process has its session [S3 S56]")
    func lateAndHeld() async throws {
        let bench = try AgentBench(files: 1)
        try begin(bench, isHeld: false, deadline: bench.now() - 1)
        let lease = try bench.store.lease(of: session, process: 99, now: 1)
        let epoch = try bench.store.session(session)?.epoch
        let agent = bench.agent()
        try await whileRunning(agent) {
            for _ in 0..<1_000 where try bench.store.run("r").reason != .sessionBusy {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try bench.store.run("r").reason == .sessionBusy)
        }
        #expect(try bench.store.run("r").state == .waiting && bench.store.session(session)?.epoch == epoch)
        withExtendedLifetime(lease) {}
    }

    @Test("Owed hooks of a session that another process has are looked at now and then, not without a pause [S19]")
    func owedAndHeld() async throws {
        let bench = try AgentBench(files: 1)
        let lease = try bench.store.lease(of: session, process: 99, now: 1)
        try begin(bench, isHeld: true)
        let owed = try bench.store.complete([CompletedGroup(name: "all", result: .ok, changed: 1)], of: "r", now: 2)
        try bench.store.finish(run: "r", result: .ok, counts: RunCounts(), now: 3)
        #expect(owed.count == 1)
        let asked = Mutex(0)
        let agent = bench.agent { environment in
            let now = environment.now
            environment.now = {
                asked.withLock { $0 += 1 }
                return now()
            }
        }
        try await whileRunning(agent) { try await Task.sleep(for: .seconds(1)) }
        // The bench's agent looks every 20 ms and asks for the time some five times; each attempt costs as much.
        #expect(asked.withLock { $0 } < 600)
        withExtendedLifetime(lease) {}
    }

    @Test("A hook that would run for no result is refused")
    func hookWithoutResults() async throws {
        let bench = try AgentBench(files: 1)
        var request = bench.request(hook: "/bin/true")
        request.hooks = [RunHook(arguments: ["/bin/true"], results: [RunResult]())]
        let error = await #expect(throws: ControlError.self) { try await bench.agent().enqueue(request) }
        #expect(error?.code == .invalid && error?.message.contains("results") == true)
    }

    @Test("Requests with absurd times for hooks are refused", arguments: [-1, 0, 31_622_401, .max])
    func hookTimeouts(timeout: Int) async throws {
        let bench = try AgentBench(files: 1)
        var request = bench.request(hook: "/bin/true")
        request.hooks[0].timeout = timeout
        let error = await #expect(throws: ControlError.self) { try await bench.agent().enqueue(request) }
        #expect(error?.code == .invalid && error?.message.contains("timeout is 1 to 31622400") == true)
    }
}
