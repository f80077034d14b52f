import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

/// One schedule, two hours from now in UTC, as the agent's files would have it.
private final class Nights: Sendable {
    let bench: AgentBench
    let clock: ScheduleClock
    let handled: Mutex<Slot?>
    let remembered = Mutex<[Slot]>([])
    let isGone = Mutex(false)
    let looks = Mutex(0)
    /// Whether what is remembered reaches the disk.
    let keeps: Mutex<Bool>

    init(_ bench: AgentBench, window: Int? = nil, keeps: Bool = true, catchesUp: Bool = true) throws {
        self.bench = bench
        self.keeps = Mutex(keeps)
        var timing = ScheduleTiming(.daily(at: Int(bench.now() / 60_000 + 120) % 1_440, on: []))
        timing.window = window
        timing.catchesUp = catchesUp
        clock = ScheduleClock(timing, zone: try #require(Zone.named("UTC")), delay: 0)
        handled = Mutex(clock.outlook(at: bench.now(), handled: nil).handled)
    }

    var schedules: AgentSchedules {
        AgentSchedules(
            load: { [self] in
                looks.withLock { $0 += 1 }
                guard !isGone.withLock({ $0 }) else { return ([], false) }
                return ([("tower", clock, handled.withLock { $0 })], false)
            },
            request: { [bench] _, night in
                var request = bench.request()
                request.origin = .schedule
                request.notBefore = WallTime(milliseconds: night.fire)
                return .success((request, nil))
            },
            remember: { [self] _, night, _ in
                remembered.withLock { $0.append(night.slot) }
                let isKept = keeps.withLock { $0 }
                if isKept { handled.withLock { $0 = night.slot } }
                return isKept
            })
    }

    /// Waits until the agent has come to the end of a look.
    func untilLooked() async throws {
        let before = looks.withLock { $0 }
        while looks.withLock({ $0 }) < before + 3 { try await Task.sleep(for: .milliseconds(10)) }
    }

    /// Waits until so many nights were fired.
    func until(_ count: Int) async throws {
        while remembered.withLock({ $0.count }) < count { try await Task.sleep(for: .milliseconds(10)) }
    }
}

@Suite("The agent's own schedules", .timeLimit(.minutes(10)))
struct AgentScheduleTests {
    @Test(
        "A night is fired when its time comes, once, and the next one a day later [S132 S46]", arguments: [true, false])
    func nights(keeps: Bool) async throws {
        let bench = try AgentBench()
        let nights = try Nights(bench, keeps: keeps)
        let agent = bench.agent { $0.schedules = nights.schedules }
        try await whileRunning(agent) {
            bench.advance(.seconds(3_600))
            try await Task.sleep(for: .milliseconds(100))
            #expect(try bench.store.runs().isEmpty)
            bench.advance(.seconds(3_600))
            try await nights.until(1)
            try await bench.until(.finished)
            // A clock that is set back repeats nothing.
            bench.advance(.seconds(-7_200))
            try await Task.sleep(for: .milliseconds(100))
            bench.advance(.seconds(7_200))
            try await Task.sleep(for: .milliseconds(100))
            #expect(nights.remembered.withLock { $0.count } == 1)
            bench.advance(.seconds(86_400))
            try await nights.until(2)
            try await bench.until(.finished)
        }
        let runs = try bench.store.runs()
        #expect(runs.count == 2)
        #expect(runs.allSatisfy { $0.recipe.origin == .schedule && ($0.started ?? 0) >= ($0.notBefore ?? .max) })
        #expect(bench.tree.problems(in: bench.destination) == [])
    }

    @Test(
        "Where nothing is kept of earlier nights, or something of the future, the next night is fired [S132 F099]",
        arguments: [nil, Slot(day: CivilDay(number: 47_116), minute: 60)] as [Slot?])
    func nothingKept(handled: Slot?)
        async throws
    {
        let bench = try AgentBench()
        let nights = try Nights(bench)
        nights.handled.withLock { $0 = handled }
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            try await nights.untilLooked()
            bench.advance(.seconds(7_200))
            try await nights.until(1)
            try await bench.until(.finished)
            bench.advance(.seconds(86_400))
            try await nights.until(2)
        }
    }

    private func records(_ bench: AgentBench) -> ScheduleRecords {
        let installation = ScheduleInstallation(
            BaseDirectories(home: bench.root.path) { _ in nil }, root: bench.root.path, isRoot: false,
            run: { _, _ in CommandOutcome(status: 127) }, ownProgram: { () throws(ScheduleError) in "/bin/syncagent" })
        return ScheduleRecords(
            configuration: bench.root.path("config"), state: bench.root.path("records"), installation: installation)
    }

    @Test("A run that waits for its planned start installs the release that is the newest shortly before [S132]")
    func newestAtItsStart() async throws {
        let bench = try AgentBench(hasStillClock: true)
        let records = records(bench)
        let minute = Int(bench.now() / 60_000)
        var timing = ScheduleTiming(.daily(at: (minute + 120) % 1_440, on: []))
        (timing.readyBy, timing.timeZone) = ((minute + 180) % 1_440, "UTC")
        try records.put(ScheduleDefinition(timing, backend: "agent", request: bench.request()), for: "tower")
        var memory = ScheduleMemory()
        memory.session = "com.example.tower"
        try records.put(memory, for: "tower")
        let schedules = AgentSchedules(
            records, store: bench.store, now: { bench.now() }, reason: { _, _ in "" }, log: { _ in })
        var newer = bench.tree
        newer.addFile("f/0", size: 3_000, seed: 5_000)
        let agent = bench.agent { $0.schedules = schedules }
        try await whileRunning(agent) {
            // What a night takes is known from this one.
            _ = try await agent.enqueue(bench.request())
            try await bench.until(.finished)
            bench.advance(.seconds(7_200))
            try await bench.until(.waiting)
            let first = try #require(try bench.store.runs(limit: 1).first)
            let start = try #require(first.notBefore)
            #expect(start - bench.now() > 3_000_000)
            try bench.publish(newer, revision: 2)
            bench.advance(.milliseconds(start - bench.now() - 30_000))
            for _ in 0..<2_000 where try bench.store.run(first.identifier).state == .waiting {
                try await Task.sleep(for: .milliseconds(5))
            }
            let second = try #require(try bench.store.runs(limit: 1).first)
            #expect(second.state == .waiting && second.notBefore == start)
            for _ in 0..<2_000 where try records.get("tower").memory.run != second.identifier {
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(try records.get("tower").memory.run == second.identifier)
            #expect(try bench.store.run(first.identifier).state == .superseded)
            bench.advance(.seconds(30))
            try await bench.until(.finished)
        }
        #expect(newer.problems(in: bench.destination) == [])
        #expect(try bench.disorder() == [])
    }

    @Test("A run that was cancelled while the server was asked for a newer release does not come back")
    func cancelledMeanwhile() async throws {
        let bench = try AgentBench()
        let agent = bench.agent()
        try await whileRunning(agent) {
            var request = bench.request()
            request.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
            let run = try await agent.enqueue(request).run
            let asked = request
            #expect(try await agent.enqueue(asked, inPlaceOf: run).run == run)
            _ = try await agent.cancel("com.example.tower")
            await #expect(throws: ControlError.self) { _ = try await agent.enqueue(asked, inPlaceOf: run) }
            #expect(try bench.store.runs().map(\.state) == [.cancelled])
        }
    }

    @Test("For a schedule that cannot be read the agent stays; one that cannot be understood is said and left out")
    func unread() throws {
        let bench = try AgentBench()
        let records = records(bench)
        let lines = Mutex<[String]>([])
        let schedules = AgentSchedules(
            records, store: bench.store, now: { bench.now() }, reason: { _, _ in "" },
            log: { line in lines.withLock { $0.append(line) } })
        let none = schedules.load()
        #expect(none.entries.isEmpty && !none.hasUnread)
        try writeScheduleFile(Array("{".utf8), to: records.path("broken"), mode: 0o600, directories: 0o700)
        let broken = schedules.load()
        #expect(broken.entries.isEmpty && !broken.hasUnread)
        // A link to itself: ELOOP, for root as well.
        try bench.root.link("config/schedules/night.json", to: "night.json")
        for _ in 0..<2 {
            let look = schedules.load()
            #expect(look.entries.isEmpty && look.hasUnread)
        }
        let said = lines.withLock { $0 }
        #expect(said.count == 2 && said[1].hasPrefix("schedule night does not run until it can be read: "), "\(said)")
    }

    @Test("What is to be shown in the morning keeps nobody from working through the night")
    func waitsForMorning() async throws {
        let bench = try AgentBench(hasStillClock: true)
        var night = bench.request()
        var wishes = AtomicSwitch()
        wishes.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
        night.atomic = wishes
        night.session = "night"
        var other = bench.request()
        other.destination = bench.root.path("other")
        other.session = "other"
        let agent = bench.agent(jobs: 1)
        try await whileRunning(agent) {
            _ = try await agent.enqueue(night)
            try await bench.until(.running, session: "night")
            _ = try await agent.enqueue(other)
            try await bench.until(.finished, session: "other")
            #expect(try bench.store.runs(session: "night", limit: 1).first?.state == .running)
            // The record of its progress is written twice a second.
            var status = try await agent.session("night")
            for _ in 0..<500 where status.reason != .notBefore {
                try await Task.sleep(for: .milliseconds(20))
                status = try await agent.session("night")
            }
            let told = try #require(status.run?.progress)
            #expect(status.until == wishes.notBefore && told.phase == .waiting && told.bytesDone == told.bytesTotal)
            #expect(!FileManager.default.fileExists(atPath: bench.destination))
            bench.advance(.seconds(3_600))
            try await bench.until(.finished, session: "night")
        }
        #expect(bench.tree.problems(in: bench.destination) == [])
        #expect(try bench.disorder("night") == [])
        // The hour is no part of the work, from which rates and later starts are derived.
        #expect(try bench.store.runs(session: "night", limit: 1).first?.counts.waited == 3_600_000)
        let summary = try bench.events("night").first { $0["event"] as? String == "run.summary" }
        #expect(summary?["waited_ms"] as? Int == 3_600_000 && summary?["elapsed_ms"] as? Int == 0)
        #expect(try bench.events("night").last?["elapsed_ms"] as? Int == 0)
    }

    @Test("What an agent has waited for the time of the switch is no work where the next agent goes on, either")
    func waitsOn() async throws {
        let bench = try AgentBench(hasStillClock: true)
        var night = bench.request()
        var wishes = AtomicSwitch()
        wishes.notBefore = WallTime(milliseconds: bench.now() + 3_600_000)
        (night.atomic, night.session) = (wishes, "night")
        let directory = try #require(bench.store.directory)
        for isLast in [false, true] {
            // What the last agent said of the run is not to be taken for the next one's.
            if isLast { try FileManager.default.removeItem(atPath: directory + "/sessions/night.requests") }
            let agent = bench.agent()
            try await whileRunning(agent) {
                if !isLast { _ = try await agent.enqueue(night) }
                var status = try await agent.session("night")
                for _ in 0..<500 where status.reason != .notBefore {
                    try await Task.sleep(for: .milliseconds(20))
                    status = try await agent.session("night")
                }
                bench.advance(.seconds(1_800))
                if isLast { try await bench.until(.finished, session: "night") }
            }
        }
        #expect(try bench.store.runs(session: "night", limit: 1).first?.counts.waited == 3_600_000)
        #expect(try bench.events("night").last?["elapsed_ms"] as? Int == 0)
    }

    @Test("What could not be kept of one night does not fire the next one again and again [S132]")
    func keptAgain() async throws {
        let bench = try AgentBench()
        let nights = try Nights(bench, keeps: false)
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            bench.advance(.seconds(7_200))
            try await nights.until(1)
            try await bench.until(.finished)
            nights.keeps.withLock { $0 = true }
            bench.advance(.seconds(86_400))
            try await nights.until(2)
            try await bench.until(.finished)
            try await Task.sleep(for: .milliseconds(150))
            #expect(nights.remembered.withLock { $0.count } == 2)
        }
    }

    @Test("A night that begins while the last run is still open goes on with it: never two [S132 F103]")
    func overlap() async throws {
        let bench = try AgentBench()
        bench.stall()
        let nights = try Nights(bench)
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            bench.advance(.seconds(7_200))
            try await nights.until(1)
            try await bench.until(.running)
            bench.advance(.seconds(86_400))
            try await nights.until(2)
            #expect(try bench.store.runs().count == 1)
            bench.free()
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().count == 1)
    }

    @Test("What is left at the end of a window waits for the next of the schedule's own days [S134]")
    func ownDays() throws {
        let zone = try #require(Zone.named("UTC"))
        var timing = ScheduleTiming(.daily(at: 23 * 60 + 30, on: [.sat, .sun]))
        (timing.window, timing.timeZone) = (120, "UTC")
        func window(delay: Int) -> DailyWindow? { ScheduleClock(timing, zone: zone, delay: delay).dailyWindow }
        #expect(window(delay: 60)?.days == [.sat, .sun])
        // Its own delay leads this machine into the next day.
        let late = try #require(window(delay: 3_000))
        #expect(late.days == [.mon, .sun] && late.startMinute == 20 && late.lengthMinutes == 70)
        let minute: Int64 = 60_000
        // 2026-11-23 00:00 UTC.
        let monday: Int64 = 1_795_392_000_000
        #expect(wallClock(late, monday + 60 * minute)?.end == monday + 90 * minute)
        let over = try #require(wallClock(late, monday + 90 * minute))
        #expect(over.end == nil && over.nextBegin == monday + 6 * 1_440 * minute + 20 * minute)
        timing.recurrence = .daily(at: 60, on: [])
        #expect(window(delay: 0)?.days == nil)
    }

    @Test("A manifest that cannot be had is asked for again, within the night [S51]")
    func retries() async throws {
        let bench = try AgentBench()
        bench.server.respond(to: "/tower/manifest.json") { _ in .status(404, text: "not yet") }
        let nights = try Nights(bench, window: 60)
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            bench.advance(.seconds(7_200))
            try await Task.sleep(for: .milliseconds(300))
            #expect(nights.remembered.withLock { $0.isEmpty })
            try bench.publish(bench.tree)
            bench.advance(.seconds(31))
            try await nights.until(1)
            try await bench.until(.finished)
        }
    }

    @Test(
        "An agent that wakes within a missed night catches up; after its window it does not [S132]",
        arguments: [(3, 1), (5, 0)])
    func missed(hours: Int, runs: Int) async throws {
        let bench = try AgentBench()
        let nights = try Nights(bench, window: 120)
        // Two days off.
        bench.advance(.seconds(2 * 86_400 + hours * 3_600))
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            if runs > 0 {
                try await nights.until(1)
                try await bench.until(.finished)
            }
            try await Task.sleep(for: .milliseconds(200))
        }
        #expect(try bench.store.runs().count == runs)
    }

    @Test(
        "What is not to be caught up is not; a manifest that cannot be had is asked for again all the same [S132 S51]")
    func notCaughtUp() async throws {
        let bench = try AgentBench()
        let nights = try Nights(bench, catchesUp: false)
        bench.advance(.seconds(2 * 86_400 + 3 * 3_600))
        try await whileRunning(bench.agent({ $0.schedules = nights.schedules })) {
            try await Task.sleep(for: .milliseconds(200))
            #expect(try bench.store.runs().isEmpty)
            bench.server.respond(to: "/tower/manifest.json") { _ in .status(404, text: "not yet") }
            bench.advance(.seconds(23 * 3_600))
            try await Task.sleep(for: .milliseconds(300))
            try bench.publish(bench.tree)
            // Long after the grace for what is late.
            bench.advance(.seconds(3_600))
            try await nights.until(1)
            try await bench.until(.finished)
        }
        #expect(try bench.store.runs().count == 1)
    }

    @Test("An agent on demand stays as long as it has schedules, and ends when the last one is gone")
    func staying() async throws {
        let bench = try AgentBench()
        let nights = try Nights(bench)
        let agent = bench.agent(onDemand: true) { $0.schedules = nights.schedules }
        let running = Task { await agent.run() }
        // Six times as long as it would stay without.
        try await Task.sleep(for: .milliseconds(300))
        bench.advance(.seconds(7_200))
        try await nights.until(1)
        nights.isGone.withLock { $0 = true }
        await running.value
        #expect(try bench.store.runs().first?.recipe.origin == .schedule)
    }
}
