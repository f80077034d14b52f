import Foundation
import SyncAgent
import SyncAssembly
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@Suite("Hooks that a lost agent still owes", .timeLimit(.minutes(10)))
struct OwedHookTests {
    @Test("They are called as the client of their run asked: settings, manifest, destination [S19]")
    func settings() async throws {
        let bench = try AgentBench()
        let calls = bench.root.path("calls")
        let hook = try bench.hook(
            "echo $SYNCAGENT_ATTEMPT >> \(calls); test $SYNCAGENT_ATTEMPT = 1 && sleep 60; exit 0")
        let first = bench.agent()
        let running = Task { await first.run() }
        var request = bench.request(hook: hook)
        request.settings.rewrite = ["~a b"]
        _ = try await first.enqueue(request)
        while !FileManager.default.fileExists(atPath: calls) { try await Task.sleep(for: .milliseconds(5)) }
        try await bench.kill(first, running)

        let asked = Mutex<[EngineRequest]>([])
        let second = bench.agent(process: 2) { environment in
            let engine = environment.engine
            environment.engine = { needs in
                asked.withLock { $0.append(needs) }
                return engine(needs)
            }
        }
        try await whileRunning(second) { try await bench.until(.finished) }
        #expect(try String(contentsOfFile: calls, encoding: .utf8).hasSuffix("2\n"))
        let needs = asked.withLock { $0 }
        #expect(!needs.isEmpty)
        #expect(needs.allSatisfy { $0.recipe?.settings.rewrite == ["~a b"] })
        #expect(
            needs.allSatisfy { $0.recipe?.manifest == bench.manifest && $0.recipe?.destination == bench.destination })
    }

    @Test("They are kept while their destination is an empty directory, such as a mount point, and the log says so")
    func emptyDestination() async throws {
        let bench = try AgentBench()
        let lines = Mutex<[String]>([])
        let agent = bench.agent { $0.log = { line in lines.withLock { $0.append(line) } } }
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request(hook: bench.hook("exit 0")))
            try await bench.until(.finished)
            let files = FileManager.default
            try files.moveItem(atPath: bench.destination, toPath: bench.root.path("away"))
            try files.createDirectory(atPath: bench.destination, withIntermediateDirectories: false)
            let hook = try #require(try bench.store.hooks().first).identifier
            _ = try await agent.replay(hook: hook)
            for _ in 0..<2_000 where !lines.withLock({ $0.contains { $0.contains("lacks its files") } }) {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(lines.withLock { $0.contains { $0.contains("lacks its files") } }, "\(lines.withLock { $0 })")
            #expect(try bench.store.hook(hook).state == .pending)
            try files.removeItem(atPath: bench.destination)
            try files.moveItem(atPath: bench.root.path("away"), toPath: bench.destination)
            bench.advance(.seconds(3_600))
            for _ in 0..<2_000 where try bench.store.hook(hook).state != .done {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try bench.store.hook(hook).state == .done)
        }
    }

    @Test(
        "If the configuration of their run is gone, only plugins wait for it, and no later run does",
        arguments: [false, true])
    func goneConfiguration(hasPlugin: Bool) async throws {
        let bench = try AgentBench()
        let calls = bench.root.path("calls")
        let first = bench.agent()
        let running = Task { await first.run() }
        let body = "echo $SYNCAGENT_ATTEMPT >> \(calls); test $SYNCAGENT_ATTEMPT = 1 && sleep 60; exit 0"
        var request = bench.request(hook: try bench.hook(body))
        if hasPlugin { request.hooks.append(RunHook(arguments: ["plugin:gone"])) }
        request.configuration = RunConfiguration(file: "/gone", hooks: [:])
        _ = try await first.enqueue(request)
        while !FileManager.default.fileExists(atPath: calls) { try await Task.sleep(for: .milliseconds(5)) }
        try await bench.kill(first, running)

        let second = bench.agent(process: 2) { environment in
            let engine = environment.engine
            environment.engine = { needs in
                guard needs.recipe?.configuration?.file != nil else { return engine(needs) }
                return .failure(ControlError(.failed, "/gone: there is no such file", exitStatus: .configuration))
            }
        }
        var newer = bench.tree
        newer.addFile("f/new", size: 10, seed: 99)
        try bench.publish(newer, revision: 2)
        try await whileRunning(second) {
            let reply = try await second.enqueue(bench.request())
            try await bench.until(.finished)
            #expect(try bench.store.run(reply.run).result == .ok)
        }
        #expect(newer.problems(in: bench.destination) == [])
        #expect(try bench.store.owedHooks().count == (hasPlugin ? 2 : 0))
        #expect(try String(contentsOfFile: calls, encoding: .utf8) == (hasPlugin ? "1\n" : "1\n2\n"))
    }

    @Test("A later run does not wait for hooks whose destination was moved away; they are called when it has files")
    func movedAway() async throws {
        let bench = try AgentBench()
        let calls = bench.root.path("calls")
        let first = bench.agent()
        let running = Task { await first.run() }
        _ = try await first.enqueue(
            bench.request(hook: try bench.hook("ls | wc -l >> \(calls); [ $SYNCAGENT_ATTEMPT -gt 1 ] || sleep 60")))
        while !FileManager.default.fileExists(atPath: calls) { try await Task.sleep(for: .milliseconds(5)) }
        try await bench.kill(first, running)
        try FileManager.default.moveItem(atPath: bench.destination, toPath: bench.root.path("away"))

        let second = bench.agent(process: 2)
        var newer = bench.tree
        newer.addFile("f/new", size: 10, seed: 99)
        try bench.publish(newer, revision: 2)
        try await whileRunning(second) {
            let reply = try await second.enqueue(bench.request())
            for _ in 0..<2_000 where try bench.store.run(reply.run).state != .finished {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try bench.store.run(reply.run).result == .ok)
            for _ in 0..<2_000 where try !bench.store.owedHooks().isEmpty {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try bench.store.owedHooks().isEmpty)
        }
        #expect(newer.problems(in: bench.destination) == [])
        let counts = try String(contentsOfFile: calls, encoding: .utf8).split(separator: "\n")
        #expect(!counts.isEmpty && !counts.contains { $0.contains("0") }, "\(counts)")
    }
}
