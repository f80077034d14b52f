import Foundation
import SyncAgent
import SyncAssembly
import SyncDaemon
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncTestKit
import Synchronization
import Testing

/// A condition that is as the test says.
private final class Switch: Condition {
    let name: String
    private let state: Mutex<ConditionState>
    private let looks = Mutex<[ConditionContext]>([])

    init(_ name: String = "power", _ state: ConditionState = .ok) {
        self.name = name
        self.state = Mutex(state)
    }

    func set(_ state: ConditionState) { self.state.withLock { $0 = state } }

    var contexts: [ConditionContext] { looks.withLock { $0 } }

    func state(in context: ConditionContext) -> ConditionState {
        looks.withLock { $0.append(context) }
        return state.withLock { $0 }
    }
}

@Suite("Runs wait for their conditions", .timeLimit(.minutes(10)))
struct ConditionTests {
    private let session = "com.example.tower"

    private func agent(_ bench: AgentBench, _ conditions: [any Condition]) -> Agent {
        bench.agent {
            $0.conditionCheck = { _, since in .success(ConditionCheck(conditions, blockedSince: since)) }
            $0.pollInterval = .milliseconds(10)
            $0.blockedInterval = 20
        }
    }

    private func request(_ bench: AgentBench) -> EnqueueRequest {
        var request = bench.request()
        request.conditions.power = true
        return request
    }

    @Test("Blocked, nothing is asked for, and status says by what, why, since when and until when [S44 S49 S53]")
    func blockedAtStart() async throws {
        let bench = try AgentBench()
        let until = bench.now() + 3_600_000
        let power = Switch("power", .blocked(reason: "on battery", until: until))
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            _ = try await agent.enqueue(request(bench))
            let requests = bench.server.log.entries.count
            var status = try await agent.session(session)
            for _ in 0..<1_000 where status.reason != .condition("power") {
                try await Task.sleep(for: .milliseconds(5))
                status = try await agent.session(session)
            }
            #expect(status.state == .waiting && status.reason == .condition("power"))
            #expect(status.run?.error == "on battery" && status.until?.milliseconds == until)
            #expect((status.since?.milliseconds ?? 0) > 0)
            #expect(bench.server.log.entries.count == requests)
            power.set(.ok)
            _ = try await agent.resume(session)
            try await bench.until(.finished)
        }
        let names = try bench.eventNames().filter { $0.hasPrefix("condition.") }
        #expect(names.first == "condition.blocked" && names.last == "condition.cleared")
        #expect(bench.tree.problems(in: bench.destination) == [])
        let (disorder, all) = try (bench.disorder(), bench.eventNames())
        #expect(disorder == [], "\(all)")
    }

    @Test("A flip in the middle stops at a checkpoint, and nothing is fetched again afterwards [S52 S133 S134]")
    func flip() async throws {
        let bench = try AgentBench(files: 4, large: 3_000_000)
        bench.stall()
        let power = Switch()
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            _ = try await agent.enqueue(request(bench))
            try await bench.until(.running)
            for _ in 0..<1_000 where bench.server.log.bytesSent(to: AgentBench.largePath) < 1_500_000 {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(bench.server.log.bytesSent(to: AgentBench.largePath) >= 1_500_000)
            power.set(.blocked(reason: "on battery"))
            try await bench.until(.waiting)
            bench.free()
            let sent = bench.server.log.bytesSent(to: AgentBench.largePath)
            try await Task.sleep(for: .milliseconds(100))
            #expect(bench.server.log.bytesSent(to: AgentBench.largePath) == sent, "blocked, and yet it asks")
            power.set(.ok)
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(bench.server.log.bytesSent(to: AgentBench.largePath) <= 3_000_000 + 300_000)
        let stopped = try bench.events().first { $0["event"] as? String == "run.stopped" }
        #expect(stopped?["reason"] as? String == "policy")
        #expect(power.contexts.contains { $0.receivedBytes > 0 }, "a budget needs to know what has come")
        #expect(try bench.disorder() == [])
    }

    @Test("Once hooks are called, a condition that no longer holds stops nothing [S33 S49 S133]")
    func flipInHook() async throws {
        let bench = try AgentBench()
        let (up, calls) = (bench.root.path("up"), bench.root.path("calls"))
        let power = Switch()
        let hook = try bench.hook(
            "touch \(up); while [ ! -e \(up).go ]; do sleep 0.01; done; echo $SYNCAGENT_ATTEMPT >> \(calls)")
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            var request = request(bench)
            request.hooks = [.init(arguments: [hook])]
            let reply = try await agent.enqueue(request)
            while !FileManager.default.fileExists(atPath: up) { try await Task.sleep(for: .milliseconds(5)) }
            power.set(.blocked(reason: "on battery"))
            try await Task.sleep(for: .milliseconds(150))
            #expect(try bench.store.run(reply.run).state == .running)
            try bench.root.write([], to: "up.go")
            try await bench.until(.finished)
        }
        #expect(try String(contentsOfFile: calls, encoding: .utf8) == "1\n")
        #expect(try bench.eventNames().count { $0 == "hook.started" } == 1)
        let (disorder, events) = (try bench.disorder(), try bench.eventNames())
        #expect(disorder == [], "\(events)")
    }

    @Test("What is complete is shown at its time, whatever a condition says then [S49 S133]")
    func flipBeforeSwitch() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let power = Switch()
        let agent = agent(bench, [power])
        var asked = request(bench)
        var wishes = AtomicSwitch()
        wishes.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
        asked.atomic = wishes
        try await whileRunning(agent) {
            _ = try await agent.enqueue(asked)
            var status = try await agent.session(session)
            for _ in 0..<1_000 where status.run?.progress?.phase != .waiting {
                try await Task.sleep(for: .milliseconds(5))
                status = try await agent.session(session)
            }
            power.set(.blocked(reason: "on battery"))
            try await Task.sleep(for: .milliseconds(100))
            bench.advance(.seconds(3_600))
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try !bench.eventNames().contains("condition.blocked"))
    }

    /// A run that waits for the time to be shown at, an hour from now; its agent has ended.
    private func built(_ bench: AgentBench, _ power: Switch) async throws {
        var asked = request(bench)
        var wishes = AtomicSwitch()
        wishes.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
        asked.atomic = wishes
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            _ = try await agent.enqueue(asked)
            try await untilBuilt(agent)
        }
        #expect(try bench.store.runs(session: session, limit: 1).first?.state == .waiting)
    }

    private func until(_ isThere: () async throws -> Bool) async throws {
        for _ in 0..<2_000 {
            if try await isThere() { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("it did not come")
    }

    private func untilBuilt(_ agent: Agent) async throws {
        try await until { try await agent.session(session).run?.progress?.phase == .waiting }
    }

    @Test("What is complete is shown at its time by the next agent, too, whatever a condition says then [S49 S133]")
    func restartBeforeSwitch() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let power = Switch()
        try await built(bench, power)
        power.set(.blocked(reason: "on battery"))
        let packs = bench.server.log.entries.count { $0.request.target.hasSuffix(".pack") }
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            try await untilBuilt(agent)
            try await Task.sleep(for: .milliseconds(100))
            bench.advance(.seconds(3_600))
            try await bench.until(.finished)
        }
        #expect(bench.server.log.entries.count { $0.request.target.hasSuffix(".pack") } == packs)
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try !bench.eventNames().contains("condition.blocked"))
    }

    @Test("What was complete and is damaged since is fetched again only when its conditions hold [S49 S133]")
    func damagedBeforeSwitch() async throws {
        let bench = try AgentBench(files: 4, large: 3_000_000, hasStillClock: true)
        let power = Switch()
        try await built(bench, power)
        power.set(.blocked(reason: "on battery"))
        for path in try FileManager.default.subpathsOfDirectory(atPath: bench.root.path)
        where path.hasSuffix("/large") {
            try FileManager.default.removeItem(atPath: bench.root.path(path))
        }
        bench.stallLarge()
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            try await until { try await agent.session(session).reason == .condition("power") }
            let requests = bench.server.log.entries.count
            // They are looked at again, and still do not hold.
            let looks = power.contexts.count
            bench.advance(.seconds(60))
            try await until { power.contexts.count > looks }
            try await Task.sleep(for: .milliseconds(200))
            #expect(bench.server.log.entries.count == requests, "blocked, and yet it asks")
            bench.free()
            power.set(.ok)
            bench.advance(.seconds(60))
            try await untilBuilt(agent)
            bench.advance(.seconds(3_600))
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("A budget counts what all attempts have received [S52 S133]")
    func budget() async throws {
        let bench = try AgentBench(files: 4, large: 6_000_000)
        bench.stallLarge()
        let power = Switch()
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            var request = request(bench)
            request.settings.connections = 1
            let reply = try await agent.enqueue(request)
            var counted: [UInt64] = []
            for sent in [1_500_000, 3_000_000] {
                for _ in 0..<2_000 where bench.server.log.bytesSent(to: AgentBench.largePath) < sent {
                    try await Task.sleep(for: .milliseconds(5))
                }
                // Until it has arrived.
                let before = counted.last ?? 0
                for _ in 0..<2_000 where (power.contexts.last?.receivedBytes ?? 0) < before + 1_000_000 {
                    try await Task.sleep(for: .milliseconds(5))
                }
                power.set(.blocked(reason: "on battery"))
                try await bench.until(.waiting)
                counted.append(try bench.store.run(reply.run).counts.bytes.received)
                let looks = power.contexts.count
                while power.contexts.count == looks { try await Task.sleep(for: .milliseconds(5)) }
                #expect(power.contexts.last?.receivedBytes == counted.last)
                if counted.count == 1 { power.set(.ok) }
            }
            #expect(counted[1] >= counted[0] + 1_000_000)
            _ = try await agent.cancel(session)
        }
    }

    @Test("A budget counts what an attempt that was killed had received, once [S52 S133]", arguments: [false, true])
    func budgetAfterKill(isPausedNext: Bool) async throws {
        let bench = try AgentBench(files: 4, large: 6_000_000)
        bench.stallLarge()
        let power = Switch()
        let first = agent(bench, [power])
        let running = Task { await first.run() }
        _ = try await first.enqueue(request(bench))
        var received: UInt64 = 0
        for _ in 0..<2_000 where received < 1_000_000 {
            try await Task.sleep(for: .milliseconds(5))
            received = try await first.session(session).run?.bytes.received ?? 0
        }
        #expect(received >= 1_000_000)
        try await bench.kill(first, running)
        power.set(.blocked(reason: "on battery"))
        if isPausedNext {
            let run = try #require(bench.store.runs().first)
            for input in [RunInput.paused, .resumed] { try bench.store.apply(input, to: run.identifier, now: 1) }
        }
        let looks = power.contexts.count
        try await whileRunning(agent(bench, [power])) {
            for _ in 0..<2_000 where power.contexts.count == looks { try await Task.sleep(for: .milliseconds(5)) }
        }
        #expect(power.contexts.last.map { $0.receivedBytes >= received && $0.receivedBytes < 6_100_000 } == true)
    }

    @Test("A time written by a clock in the future holds nothing [S49 F099]")
    func clockBack() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let power = Switch("power", .blocked(reason: "on battery"))
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            _ = try await agent.enqueue(request(bench))
            for _ in 0..<2_000 where try bench.store.runs().first?.due == nil {
                try await Task.sleep(for: .milliseconds(5))
            }
            bench.advance(.seconds(-10 * 365 * 86_400))
            power.set(.ok)
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("What cannot be told counts as met [S49]")
    func unknown() async throws {
        let bench = try AgentBench()
        let agent = agent(bench, [Switch("metered", .unknown(reason: "no bus"))])
        try await whileRunning(agent) {
            _ = try await agent.enqueue(request(bench))
            try await bench.until(.finished)
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test(
        "A deadline that passes while a condition blocks ends the run, for however long that will be [S56]",
        arguments: [nil, 7_200_000] as [Int64?])
    func deadline(ahead: Int64?) async throws {
        let bench = try AgentBench()
        let until = ahead.map { bench.now() + $0 }
        let agent = agent(bench, [Switch("power", .blocked(reason: "on battery", until: until))])
        try await whileRunning(agent) {
            var request = request(bench)
            request.deadlineSeconds = 60
            let reply = try await agent.enqueue(request)
            // It waits from the beginning: only this says that it is blocked.
            while try bench.store.run(reply.run).reason != .condition("power") {
                try await Task.sleep(for: .milliseconds(5))
            }
            bench.advance(.seconds(61))
            try await bench.until(.finished)
            let run = try bench.store.run(reply.run)
            #expect(run.result == .failed && run.error?.contains("on battery") == true)
            #expect(run.exitStatus == 69)
        }
        // Whoever follows learns of it.
        let last = try #require(try bench.events().last)
        let error = last["error"] as? [String: Any]
        #expect(last["event"] as? String == "pull.finished" && last["result"] as? String == "failed")
        #expect(error?["status"] as? Int == 69)
        #expect((error?["message"] as? String)?.contains("on battery") == true)
        #expect(try bench.disorder() == [])
    }

    @Test("Killed while it is blocked, the next agent waits on and knows since when [S49 S53 G1]")
    func restart() async throws {
        let bench = try AgentBench()
        let power = Switch("power", .blocked(reason: "on battery"))
        let first = agent(bench, [power])
        let running = Task { await first.run() }
        _ = try await first.enqueue(request(bench))
        for _ in 0..<1_000 where try bench.store.runs().first?.reason != .condition("power") {
            try await Task.sleep(for: .milliseconds(5))
        }
        let since = try bench.store.runs().first?.waitingSince
        try await bench.kill(first, running)
        bench.advance(.seconds(60))
        let next = agent(bench, [power])
        try await whileRunning(next) {
            for _ in 0..<1_000 where power.contexts.count < 3 { try await Task.sleep(for: .milliseconds(5)) }
            #expect(try await next.session(session).since?.milliseconds == since)
            power.set(.ok)
            try await bench.until(.finished)
        }
    }

    @Test("Asked for again by a schedule, it takes the new conditions and stays paused for a person [S24 S134]")
    func schedule() async throws {
        let bench = try AgentBench()
        let power = Switch("power", .blocked(reason: "on battery"))
        let agent = agent(bench, [power])
        try await whileRunning(agent) {
            var request = request(bench)
            request.origin = .schedule
            let first = try await agent.enqueue(request)
            _ = try await agent.pause(session)
            request.conditions.freeSpace = 1
            let again = try await agent.enqueue(request)
            #expect(again.run == first.run && again.state == .paused)
            let kept = try bench.store.run(first.run).recipe.conditions
            #expect(kept.freeSpace == 1 && kept.power)
        }
    }

    @Test(
        "Paused by a person, a newer manifest that a schedule or a hook asks for waits, too [S24 S134]",
        arguments: [RunRecipe.Origin.schedule, .hook])
    func pausedForNewer(origin: RunRecipe.Origin) async throws {
        let bench = try AgentBench()
        bench.stall()
        let agent = bench.agent()
        try await whileRunning(agent) {
            let first = try await agent.enqueue(bench.request())
            try await bench.until(.running)
            _ = try await agent.pause(session)
            var request = bench.request()
            request.origin = origin
            let same = try await agent.enqueue(request)
            #expect(same.run == first.run && same.state == .paused)
            var newer = bench.tree
            newer.addFile("f/new", size: 10, seed: 99)
            bench.free()
            try bench.publish(newer, revision: 2)
            let second = try await agent.enqueue(request)
            #expect(second.isNew && second.state == .paused && second.superseded == [first.run])
            #expect(try bench.store.run(second.run).reason == .userStop)
            _ = try await agent.resume(session)
            try await bench.until(.finished)
            #expect(newer.problems(in: bench.destination) == [])
        }
        #expect(try bench.disorder() == [])
    }

    @Test("At its time of day another rate holds, from the first byte on and after a resume")
    func rates() async throws {
        let bench = try AgentBench()
        let limits = Mutex<[UInt64?]>([])
        let agent = bench.agent { environment in
            let engine = environment.engine
            environment.engine = { needs in
                engine(needs).map { handle in
                    var handle = handle
                    handle.setRateLimit = { limit in limits.withLock { $0.append(limit) } }
                    return handle
                }
            }
            environment.pollInterval = .milliseconds(5)
        }
        bench.stall()
        try await whileRunning(agent) {
            var request = bench.request()
            let allDay = DailyWindow(startMinute: 0, lengthMinutes: 1_440, timeZone: "UTC")
            request.conditions.rates = [RateWindow(window: allDay, limit: 5_000_000)]
            _ = try await agent.enqueue(request)
            try await bench.until(.running)
            // Several looks later it has been set once.
            try await Task.sleep(for: .milliseconds(50))
            #expect(limits.withLock { $0 } == [5_000_000])
            _ = try await agent.pause(session)
            bench.free()
            _ = try await agent.resume(session)
            try await bench.until(.finished)
            #expect(limits.withLock { $0 } == [5_000_000, 5_000_000])
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test("Behind its time of day the usual rate holds again: the tightest of what the run and the settings say")
    func usualRate() async throws {
        let bench = try AgentBench()
        let limits = Mutex<[UInt64?]>([])
        let isOpen = Mutex(true)
        let agent = bench.agent { environment in
            let engine = environment.engine
            environment.engine = { needs in
                engine(needs).map { handle in
                    var handle = handle
                    handle.rateLimit = 700
                    handle.setRateLimit = { limit in limits.withLock { $0.append(limit) } }
                    return handle
                }
            }
            environment.windowClock = { window, now in
                // The other half of the day.
                var window = window
                if !isOpen.withLock({ $0 }) {
                    window.startMinute = (Int(now / 60_000 % 1_440) + 720) % 1_440
                    window.lengthMinutes = 1
                }
                return wallClock(window, now)
            }
            environment.pollInterval = .milliseconds(5)
        }
        bench.stall()
        try await whileRunning(agent) {
            var request = bench.request()
            request.settings.limitRate = 900
            let allDay = DailyWindow(startMinute: 0, lengthMinutes: 1_440, timeZone: "UTC")
            request.conditions.rates = [RateWindow(window: allDay, limit: 5_000_000)]
            _ = try await agent.enqueue(request)
            try await bench.until(.running)
            while limits.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(5)) }
            isOpen.withLock { $0 = false }
            while limits.withLock({ $0.count < 2 }) { try await Task.sleep(for: .milliseconds(5)) }
            #expect(limits.withLock { $0 } == [5_000_000, 700])
            bench.free()
            try await bench.until(.finished)
        }
    }

    @Test("Windows that no clock has are refused", arguments: [(-1, 60), (1_440, 60), (0, 0), (0, 1_441)])
    func badWindow(start: Int, length: Int) async throws {
        let bench = try AgentBench()
        var request = bench.request()
        request.conditions.window = DailyWindow(startMinute: start, lengthMinutes: length)
        let agent = bench.agent()
        let refusal = await #expect(throws: ControlError.self) { try await agent.enqueue(request) }
        #expect(refusal?.exitStatus == .usage)
    }
}
