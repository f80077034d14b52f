import Foundation
import SyncAgent
import SyncAssembly
import SyncDaemon
import SyncEngine
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@Suite("The agent", .timeLimit(.minutes(10)))
struct AgentTests {
    private let session = "com.example.tower"

    @Test("What is enqueued is fetched without anybody waiting, then its hook is called once [S12 S13 S18 S107]")
    func enqueued() async throws {
        let bench = try AgentBench()
        let hook = try bench.hook("echo \"$SYNCAGENT_RESULT $SYNCAGENT_ATTEMPT\" >> \(bench.root.path("calls"))")
        try await whileRunning(bench.agent()) {}
        let agent = bench.agent()
        let reply = try await whileRunning(agent) {
            let reply = try await agent.enqueue(bench.request(hook: hook))
            try await bench.until(.finished)
            return reply
        }
        #expect(reply.isNew && reply.session == session)
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try String(contentsOfFile: bench.root.path("calls"), encoding: .utf8) == "ok 1\n")
        #expect(try bench.store.run(reply.run).result == .ok)
        #expect(try bench.store.hooks().map(\.state) == [.done])
        #expect(try bench.disorder() == [])
        #expect(try bench.store.findings() == [])
    }

    @Test("A run has one engine in the agent, from its manifest to its hooks; what waits keeps none")
    func oneEngine() async throws {
        let bench = try AgentBench()
        let count = Mutex((made: 0, ended: 0))
        let hook = try bench.hook("exit 0")
        let agent = bench.agent { environment in
            let make = environment.engine
            environment.engine = { needs in
                count.withLock { $0.made += 1 }
                return make(needs).map { made in
                    var handle = made
                    handle.end = {
                        made.end()
                        count.withLock { $0.ended += 1 }
                    }
                    return handle
                }
            }
        }
        try await whileRunning(agent) {
            let reply = try await agent.enqueue(bench.request(hook: hook))
            try await bench.until(.finished)
            #expect(count.withLock(\.made) == 1)
            // The manifest was asked for by the same engine before the run began, and is none of its requests.
            let run = try bench.store.run(reply.run)
            let asked = bench.server.log.entries.filter { !$0.request.path.hasPrefix("/tower/manifest.json") }
            #expect(run.result == .ok && run.counts.requests == UInt64(asked.count))
            var later = bench.request()
            later.paused = true
            _ = try await agent.enqueue(later)
            #expect(count.withLock(\.made) == 2)
        }
        #expect(count.withLock(\.ended) == 2)
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("Asking again for a run that is under way gives the same run [S1 S106]")
    func idempotent() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            let second = try await agent.enqueue(bench.request())
            #expect(second.run == first.run && !second.isNew && second.superseded == [])
            bench.free()
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().count == 1)
    }

    @Test("Asking again with other settings for a run that is under way continues it with them")
    func otherSettings() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            var request = bench.request()
            request.settings.redirectLimit = 7
            let second = try await agent.enqueue(request)
            #expect(second.run == first.run && !second.isNew)
            #expect(try bench.store.run(first.run).recipe.settings.redirectLimit == 7)
            bench.free()
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().count == 1)
    }

    @Test("What a plugin says in a run of the agent is in its log, since no run has it on record")
    func pluginWords() async throws {
        let bench = try AgentBench()
        let log = Mutex<[String]>([])
        let agent = bench.agent { environment in
            environment.log = { line in log.withLock { $0.append(line) } }
            let make = environment.engine
            environment.engine = { needs in
                let words = SyncEvent(.pluginNotice, time: 1, note: "plugin chat: no room") {
                    $0.field("plugin", "chat")
                    $0.field("kind", "output")
                    $0.field("text", "no room")
                }
                needs.listener(words)
                return make(needs)
            }
        }
        try await whileRunning(agent) {
            var request = bench.request()
            // So that the run has an engine of its own.
            request.paused = true
            _ = try await agent.enqueue(request)
            _ = try await agent.resume(session)
            try await bench.until(.finished)
        }
        #expect(log.withLock { $0 }.contains("\(session): plugin chat: no room"))
    }

    @Test("A newer manifest takes the place of a half-done run and keeps what has come [S42 S135]")
    func superseding() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            var newer = bench.tree
            newer.addFile("f/new", size: 10, seed: 99)
            bench.free()
            try bench.publish(newer, revision: 2)
            let second = try await agent.enqueue(bench.request())
            #expect(second.isNew)
            try await bench.until(.finished)
            #expect(newer.problems(in: bench.destination) == [])
            let old = try bench.store.run(first.run)
            // The first one may have come to its end while it was being stopped.
            #expect(second.superseded == [first.run] ? old.state == .superseded : old.state == .finished)
        }
        #expect(try bench.store.findings() == [])
    }

    @Test("A paused run makes no request until it is resumed, then goes on [S24 S40 S100]")
    func pausing() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            let paused = try await agent.pause(session)
            #expect(paused.state == .paused && paused.reason == .userStop)
            let again = try await agent.pause(session)
            #expect(again.state == .paused)
            bench.free()
            let requests = bench.server.log.requestCount
            try await Task.sleep(for: .milliseconds(200))
            #expect(bench.server.log.requestCount == requests)
            _ = try await agent.resume(session)
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("resume asks again for a run that has ended and failed; one that was good is left alone [S24]")
    func resumeFailed() async throws {
        let bench = try AgentBench()
        for path in bench.packPaths { bench.server.respond(to: path) { _ in .status(404, text: "no") } }
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            #expect(try bench.store.run(first.run).result == .failed)
            bench.free()
            _ = try await agent.resume(session)
            #expect(try bench.store.runs().count == 2)
            try await bench.until(.finished)
            _ = try await agent.resume(session)
            #expect(try bench.store.runs().count == 2)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("resume does not ask again for a rollback that was cancelled: the newest release may be held")
    func resumeRollback() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.paused = true
            _ = try await agent.enqueue(request)
            _ = try await agent.cancel(session)
            let state = SQLFile(bench.root.path("state/syncagent.sqlite"))
            try state.run("UPDATE runs SET recipe = json_set(recipe, '$.rollback', json('true'))")
            #expect(try await agent.resume(session).state == .idle)
            #expect(try bench.store.runs().count == 1)
            var rollback = request
            rollback.rollback = true
            let refused = rollback
            await #expect(throws: ControlError.self) { _ = try await agent.enqueue(refused) }
        }
    }

    @Test("A directory stands for the files below it; its name with letters behind it is none [S89]")
    func prioritizedDirectory() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            await #expect(throws: ControlError.self) { try await agent.prioritize(session, paths: ["fx"]) }
            let wanted = Task { try await agent.prioritize(session, paths: ["f"]) }
            while try bench.store.runs(limit: 1).first?.firstPaths.isEmpty ?? true {
                try await Task.sleep(for: .milliseconds(5))
            }
            bench.free()
            _ = try await wanted.value
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("A cancelled run is asked for again by resume, with the same hooks [S102]")
    func resumedAfterCancel() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request(hook: try bench.hook("exit 0")))
            try await bench.until(.running)
            _ = try await agent.cancel(session)
            bench.free()
            _ = try await agent.resume(session)
            try await bench.until(.finished)
            let last = try #require(try bench.store.runs(limit: 1).first)
            #expect(last.identifier != first.run && last.result == .ok)
            #expect(try bench.store.hooks(run: last.identifier).map(\.state) == [.done])
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("Paths that the manifest does not name are refused, and the run goes on as it was [S89]")
    func prioritizedNothing() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let reply = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            let error = await #expect(throws: ControlError.self) {
                try await agent.prioritize(session, paths: ["not/there"])
            }
            #expect(error?.exitStatus == .noInput && error?.message.contains("'not/there'") == true)
            #expect(try bench.store.run(reply.run).state == .running)
            bench.free()
            try await bench.until(.finished)
        }
    }

    @Test("A cancelled run is over, leaves no part behind, and takes no installed file away [S102]")
    func cancelling() async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let reply = try await agent.enqueue(bench.request(hook: try bench.hook("exit 0")))
            try await bench.until(.running)
            let status = try await agent.cancel(session)
            #expect(status.state == .idle)
            #expect(try bench.store.run(reply.run).state == .cancelled)
            _ = try await agent.cancel(session)
        }
        bench.free()
        #expect(try bench.store.hooks().map(\.state) == [.skipped])
        let staging = bench.destination + "/.syncagent/staging"
        let left = FileManager.default.enumerator(atPath: staging)?.allObjects.compactMap { $0 as? String } ?? []
        #expect(left.filter { $0.contains("/") } == [])
    }

    @Test("What a paused session has fetched stays when another one of its destination is given up [S100 S102 S151]")
    func sharedStaging() async throws {
        let bench = try AgentBench(large: 2_000_000)
        bench.stallLarge()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            while !bench.staged.contains(where: { $0.key.hasSuffix(".part") }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            _ = try await agent.pause(session)
            let staged = bench.staged
            #expect(!staged.isEmpty)
            var request = bench.request()
            (request.session, request.notBefore) = ("other", WallTime(milliseconds: bench.now() + 3_600_000))
            _ = try await agent.enqueue(request)
            #expect(try await agent.cancel("other").state == .idle)
            #expect(bench.staged == staged)
            try await agent.remove("other", files: true)
            #expect(bench.staged == staged)
            _ = try await agent.cancel(session)
            #expect(bench.staged.isEmpty)
        }
    }

    @Test("An agent on demand that cannot read its store stays: what is there may be work [S107]")
    func unreadable() async throws {
        let bench = try AgentBench()
        let sleeps = Atomic(0)
        let agent = bench.agent(onDemand: true) { environment in
            environment.sleep = { _ in
                bench.advance(.seconds(60))
                sleeps.add(1, ordering: .relaxed)
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        let file = SQLFile(bench.root.path("state/syncagent.sqlite"))
        try file.run("ALTER TABLE hooks RENAME TO away")
        let hasEnded = Atomic(false)
        let running = Task {
            await agent.run()
            hasEnded.store(true, ordering: .releasing)
        }
        while sleeps.load(ordering: .relaxed) < 20, !hasEnded.load(ordering: .acquiring) {
            try await Task.sleep(for: .milliseconds(2))
        }
        let isOver = hasEnded.load(ordering: .acquiring)
        #expect(!isOver)
        // The agent may be reading just now.
        while (try? file.run("ALTER TABLE away RENAME TO hooks")) == nil { try await Task.sleep(for: .milliseconds(2)) }
        await running.value
    }

    @Test("An agent that is stopped by the system gives runs back; the next one goes on [S22 S23 S26]")
    func released() async throws {
        let bench = try AgentBench()
        bench.stall()
        let first = bench.agent()
        let reply = try await whileRunning(first, ending: .release) {
            let reply = try await first.enqueue(bench.request())
            try await bench.until(.running)
            return reply
        }
        #expect(try bench.store.run(reply.run).state == .waiting)
        bench.free()
        try await whileRunning(bench.agent(process: 2)) { try await bench.until(.finished) }
        #expect(try bench.store.run(reply.run).result == .ok)
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("An agent that a person stops leaves everything paused, and the next one moves nothing [S24]")
    func stoppedByUser() async throws {
        let bench = try AgentBench()
        bench.stall()
        let first = bench.agent()
        let reply = try await whileRunning(first, ending: .pause) {
            let reply = try await first.enqueue(bench.request())
            try await bench.until(.running)
            return reply
        }
        #expect(try bench.store.run(reply.run).state == .paused)
        bench.free()
        let requests = bench.server.log.requestCount
        let second = bench.agent()
        try await whileRunning(second) {
            try await Task.sleep(for: .milliseconds(200))
            #expect(bench.server.log.requestCount == requests)
            _ = try await second.resume(session)
            try await bench.until(.finished)
        }
    }

    @Test("Why a run could not start is logged once, with when it is tried again")
    func loggedOnce() async throws {
        let bench = try AgentBench()
        let lines = Mutex<[String]>([])
        let agent = bench.agent { $0.log = { line in lines.withLock { $0.append(line) } } }
        let told = try await whileRunning(agent) {
            var request = bench.request()
            request.paused = true
            _ = try await agent.enqueue(request)
            // The destination is a file by now.
            try FileManager.default.removeItem(atPath: bench.destination)
            try bench.root.write("no directory", to: "files")
            _ = try await agent.resume(session)
            for _ in 0..<2_000 where lines.withLock(\.isEmpty) { try await Task.sleep(for: .milliseconds(5)) }
            _ = try await agent.cancel(session)
            // Before the agent logs that it stops.
            return lines.withLock { $0 }
        }
        #expect(told.count == 1 && told[0].hasSuffix("; retrying in 2 s"), "\(told)")
    }

    @Test("The log of a run says that a hook has failed")
    func loggedHook() async throws {
        let bench = try AgentBench(files: 1)
        let lines = Mutex<[String]>([])
        let agent = bench.agent { $0.log = { line in lines.withLock { $0.append(line) } } }
        let hook = try bench.hook("exit 3")
        let told = try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request(hook: hook))
            for _ in 0..<2_000 where lines.withLock(\.isEmpty) { try await Task.sleep(for: .milliseconds(5)) }
            return lines.withLock { $0 }
        }
        #expect(told.first?.hasSuffix("; a hook failed") == true, "\(told)")
    }

    @Test("A run whose worker was lost goes on; after three losses in ten minutes it is put aside [S28 F083 F087]")
    func lost() async throws {
        let bench = try AgentBench()
        var start = RunStart(
            session: StoredSession(
                identifier: "lost", project: "com.example.tower", destination: bench.destination, device: 0, inode: 0),
            run: "r1", manifest: .zero, recipe: RunRecipe(manifest: bench.manifest))
        start.recipe.settings.connections = 4
        // Running, and nobody holds the session: as a kill leaves it.
        try bench.store.begin(start, now: bench.now())
        for _ in 0..<2 {
            _ = try bench.store.recover(session: "lost", now: bench.now())
            _ = try bench.store.take(run: "r1", now: bench.now())
        }
        let agent = bench.agent()
        try await whileRunning(agent) {
            try await bench.until(.paused, session: "lost")
            let status = try await agent.session("lost")
            #expect(status.reason == .quarantined)
            #expect(bench.server.log.requestCount == 0)
            // Resumed, it is worked on: it asks for its manifest, which is another one by now.
            _ = try await agent.resume("lost")
            for _ in 0..<2_000 where bench.server.log.requestCount == 0 { try await Task.sleep(for: .milliseconds(5)) }
            #expect(bench.server.log.requestCount > 0)
            #expect(try bench.store.run("r1").reason != .quarantined)
        }
    }

    @Test("A hook that was running when the agent was lost is called again: same run, next attempt [F089 S19 S33]")
    func hookAfterCrash() async throws {
        let bench = try AgentBench()
        let hook = try bench.hook(
            "echo \"$SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT $SYNCAGENT_CHANGED\" >> \(bench.root.path("calls"))")
        let first = bench.agent()
        let reply = try await whileRunning(first) {
            let reply = try await first.enqueue(bench.request(hook: hook))
            try await bench.until(.finished)
            return reply
        }
        // As if it had been killed inside the hook.
        let state = SQLFile(bench.root.path("state/syncagent.sqlite"))
        try state.run("UPDATE runs SET state = 'running', result = NULL, finished = NULL")
        try state.run("UPDATE hooks SET state = 'running', finished = NULL")
        try await whileRunning(bench.agent()) { try await bench.until(.finished) }
        let calls = try String(contentsOfFile: bench.root.path("calls"), encoding: .utf8)
        #expect(calls == "\(reply.run) 1 12\n\(reply.run) 2 12\n")
        #expect(try bench.store.run(reply.run).result == .ok)
        #expect(try bench.store.findings() == [])
    }

    @Test("A run does not start before its time, however clocks jump [S44 S46 F099 G20]")
    func notBefore() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
            _ = try await agent.enqueue(request)
            let manifestRequests = bench.server.log.requestCount
            let status = try await agent.session(session)
            #expect(status.state == .waiting && status.reason == .notBefore)
            #expect(status.until == request.notBefore)
            bench.advance(.seconds(-600))
            bench.advance(.seconds(1_800))
            try await Task.sleep(for: .milliseconds(150))
            #expect(bench.server.log.requestCount == manifestRequests)
            bench.advance(.seconds(2_400 + 60))
            try await bench.until(.finished)
        }
    }

    @Test("A run ends at its deadline in the middle of a transfer [S56 F037]")
    func deadlineWhileTransferring() async throws {
        let bench = try AgentBench(files: 4, large: 3_000_000)
        bench.stallLarge()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.deadlineSeconds = 60
            let reply = try await agent.enqueue(request)
            for _ in 0..<2_000 where bench.server.log.bytesSent(to: AgentBench.largePath) < 1_500_000 {
                try await Task.sleep(for: .milliseconds(5))
            }
            bench.advance(.seconds(61))
            try await bench.until(.finished)
            let run = try bench.store.run(reply.run)
            #expect(run.result != .ok && run.cause == .late && run.exitStatus != 0)
        }
        #expect(try bench.eventNames().last == "pull.finished")
        #expect(try bench.disorder() == [])
    }

    @Test(
        "Readers get every event once, in order, from where they were; the follower is woken by new ones [S8 S36 S163]")
    func following() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            var seen: [Int] = []
            for try await line in try await agent.events(of: session, since: 0, follow: false, progress: false) {
                let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                seen.append(try #require(object?["seq"] as? Int))
            }
            #expect(seen == Array(1...seen.count) && seen.count >= 15)
            let next = try await agent.events(of: session, since: Int64(seen.count), follow: true, progress: false)
            let reader = Task {
                var iterator = next.makeAsyncIterator()
                return try await iterator.next()
            }
            _ = try await agent.enqueue(bench.request())
            let line = try #require(try await reader.value)
            #expect(line.hasPrefix("{\"seq\":\(seen.count + 1),\"event\":\"run.started\""))
        }
    }

    @Test("A path that somebody waits for comes first, also in a run that is under way [S89 S162]")
    func prioritized() async throws {
        let bench = try AgentBench(files: 60)
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.settings.connections = 1
            _ = try await agent.enqueue(request)
            try await bench.until(.running)
            let wanted = Task { try await agent.prioritize(session, paths: ["f/59", "not/there", "f"]) }
            while try bench.store.runs(limit: 1).first?.firstPaths.isEmpty ?? true {
                try await Task.sleep(for: .milliseconds(5))
            }
            bench.free()
            _ = try await wanted.value
            try await bench.until(.finished)
        }
        let run = try #require(try bench.store.runs(limit: 1).first)
        #expect(run.firstPaths == ["f/59", "not/there", "f"])
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("An agent that was started on demand ends when there is nothing left to do")
    func onDemand() async throws {
        let bench = try AgentBench()
        let agent = bench.agent(onDemand: true)
        let running = Task { await agent.run() }
        _ = try await agent.enqueue(bench.request())
        try await bench.until(.finished)
        await running.value
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("Bad requests are refused with what is wrong, and nothing is recorded [S64]")
    func refused() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        var requests = [EnqueueRequest](repeating: bench.request(), count: 13)
        requests[0].destination = "relative"
        requests[1].hooks = [.init(group: "none", arguments: ["/bin/true"])]
        requests[2].settings.connections = 65
        requests[3].manifest = bench.manifest.replacingOccurrences(of: "//", with: "//user:secret@")
        for (place, name) in ["", "../x", "a\u{1B}[31mb", "-x", "a b"].enumerated() {
            requests[4 + place].session = name
        }
        for place in 9...11 { requests[place].atomic = AtomicSwitch() }
        requests[9].atomic?.keep = 0
        requests[10].atomic?.keepSeconds = -1
        requests[11].atomic?.check = ["smoke-test"]
        requests[12].conditions.window = DailyWindow(startMinute: 0, lengthMinutes: 60, timeZone: "../etc/passwd")
        let texts =
            ["absolute path", "“none”", "1 to 64", "credentials file"] + Array(repeating: "session: 1 to 255", count: 5)
            + ["keep is 1 to 100", "keep_seconds is 0", "atomic: check: an absolute path", "no time zone"]
        for (request, text) in zip(requests, texts) {
            do {
                _ = try await agent.enqueue(request)
                Issue.record("\(text): accepted")
            } catch {
                #expect(error.exitStatus == .usage && error.message.contains(text), "\(error.message)")
                #expect(!error.message.contains("secret") && !error.message.contains("\u{1B}"))
            }
        }
        #expect(try bench.store.runs().isEmpty)
    }
}
