import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncTestKit
import Synchronization
import Testing

@Suite("When a requested run starts", .timeLimit(.minutes(10)))
struct StartTimeTests {
    private let session = "com.example.tower"

    @Test("What hooks ask for waits 60, 120, 240 s; a person resets it [S59 S60 F123]")
    func limiter() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let hook = try bench.hook("exit 0")
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request(hook: hook))
            try await bench.until(.finished)
            for expected in [60, 120, 240] as [Int64] {
                var request = bench.request(hook: hook)
                request.origin = .hook
                let asked = bench.now()
                let reply = try await agent.enqueue(request)
                let start = try #require(reply.notBefore?.milliseconds)
                #expect(start - asked == expected * 1_000)
                // Just before the delay is over, so that the chain goes on.
                bench.advance(.milliseconds(start - bench.now()))
                // The clock stands where the run began: the delay has not passed since.
                try await bench.until(.finished)
            }
            let person = try await agent.enqueue(bench.request(hook: hook))
            #expect(person.notBefore == nil)
            let status = try await agent.session(session)
            #expect(status.limiterDelaySeconds <= 60)
        }
    }

    @Test("A late start leaves the whole time to the deadline [S57]")
    func deadlineAfterLateStart() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
            request.deadlineSeconds = 60
            let reply = try await agent.enqueue(request)
            #expect(try bench.store.run(reply.run).state == .waiting)
            bench.advance(.seconds(3_600 + 59))
            try await bench.until(.finished)
            #expect(try bench.store.run(reply.run).result == .ok)
        }
    }

    @Test("The hooks of one run hold back what one of them asks for once, however many there are [S59]")
    func limiterOfTwoHooks() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let hook = try bench.hook("exit 0")
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request(hook: hook)
            request.hooks.append(.init(arguments: ["/bin/true"]))
            _ = try await agent.enqueue(request)
            try await bench.until(.finished)
            (request.origin, request.paused) = (.hook, true)
            let reply = try await agent.enqueue(request)
            #expect(reply.notBefore?.milliseconds == bench.now() + 60_000)
        }
    }

    @Test("A clock that was set back holds back what hooks ask for no longer than their delay [S59 S61 F099]")
    func limiterWithClockBack() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let hook = try bench.hook("exit 0")
        let agent = bench.agent()
        try await whileRunning(agent) {
            _ = try await agent.enqueue(bench.request(hook: hook))
            try await bench.until(.finished)
            bench.advance(.seconds(-86_400))
            var request = bench.request(hook: hook)
            (request.origin, request.paused) = (.hook, true)
            let held = try await agent.enqueue(request)
            #expect(held.notBefore?.milliseconds == bench.now() + 60_000)
            bench.advance(.seconds(61))
            request.settings.connections = 2
            let free = try await agent.enqueue(request)
            #expect(free.isNew && free.notBefore == nil)
        }
    }

    @Test("A person who asks again for a waiting run says anew when it starts, or that it does not [S43 S44 S46 S60]")
    func askedAgain() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
            let first = try await agent.enqueue(request)
            try bench.store.hold(run: first.run, reason: .connectivity, due: bench.now() + 7_200_000)
            request.notBefore = WallTime(milliseconds: bench.now() + 60_000)
            let second = try await agent.enqueue(request)
            #expect(second.run == first.run && second.notBefore == request.notBefore)
            #expect(try bench.store.run(first.run).due == nil)
            request.paused = true
            #expect(try await agent.enqueue(request).state == .paused)
            #expect(try bench.store.run(first.run).reason == .userStop)
            (request.paused, request.notBefore) = (false, nil)
            _ = try await agent.enqueue(request)
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().count == 1)
        #expect(try bench.disorder() == [])
    }

    @Test("resume starts a run at once that a hook asked for [S60]")
    func resumedForPerson() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.origin = .hook
            request.notBefore = WallTime(milliseconds: bench.now() + 60_000)
            _ = try await agent.enqueue(request)
            #expect(try await agent.resume(session).run?.notBefore == nil)
            try await bench.until(.finished)
        }
    }
}
