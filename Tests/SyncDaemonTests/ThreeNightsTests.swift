import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncReport
import SyncSchedule
import SyncStore
import SyncTestKit
import Testing

/// Nights from 02:00 to 06:00 UTC: the first is too short, the second brings a newer manifest, the third ends it.
@Suite("Three nights", .timeLimit(.minutes(10)))
struct ThreeNightsTests {
    private let session = "com.example.tower"
    private static let day: Int64 = 86_400_000
    private static let largeSize = 6_000_000

    private func agent(_ bench: AgentBench) -> Agent {
        bench.agent {
            $0.pollInterval = .milliseconds(10)
            $0.blockedInterval = 100
        }
    }

    /// Sets the clock to a time of the next day.
    private func advance(_ bench: AgentBench, toHour hour: Int64) {
        let time = bench.now() % Self.day
        let wanted = hour * 3_600_000
        bench.advance(.milliseconds(wanted > time ? wanted - time : wanted - time + Self.day))
    }

    private func request(_ bench: AgentBench) -> EnqueueRequest {
        var request = bench.request()
        request.origin = .schedule
        request.conditions.window = DailyWindow(startMinute: 120, lengthMinutes: 240, timeZone: "UTC")
        return request
    }

    private func until(_ bench: AgentBench, large bytes: Int) async throws {
        for _ in 0..<3_000 where bench.server.log.bytesSent(to: AgentBench.largePath) < bytes {
            try await Task.sleep(for: .milliseconds(10))
        }
        let run = try bench.store.runs().first
        #expect(
            bench.server.log.bytesSent(to: AgentBench.largePath) >= bytes,
            "\(run.map { "\($0.state) \($0.reason?.rawValue ?? "") \($0.error ?? "")" } ?? "no run")")
    }

    /// Waits until the night's end has stopped the run.
    private func untilStopped(_ bench: AgentBench, _ run: String) async throws {
        for _ in 0..<3_000 where try bench.store.run(run).reason != .condition("window") {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try bench.store.run(run).state == .waiting && bench.store.run(run).reason == .condition("window"))
    }

    @Test("What is needed comes once, whatever the nights are like [S134 S135]")
    func nights() async throws {
        let bench = try AgentBench(files: 200, large: Self.largeSize)
        let first = bench.tree
        advance(bench, toHour: 2)
        let agent = agent(bench)
        try await whileRunning(agent) {
            // The first: the large file stops in the middle, and the window ends.
            bench.stallLarge()
            let one = try await agent.enqueue(request(bench))
            try await until(bench, large: 1_500_000)
            advance(bench, toHour: 6)
            try await untilStopped(bench, one.run)
            let status = try await agent.session(session)
            #expect(status.reason == .condition("window"))
            let next = try #require(status.until?.milliseconds)
            #expect(next % Self.day == 7_200_000, "\(next)")
            let evening = bench.server.log.entries.count
            advance(bench, toHour: 22)
            try await Task.sleep(for: .milliseconds(150))
            #expect(bench.server.log.entries.count == evening, "it asks outside its window")

            // The second: some files are new, and the large one stops again.
            var newer = first
            for number in 0..<20 { newer.addFile("f/\(number)", size: 3_000, seed: UInt64(5_000 + number)) }
            try bench.publish(newer, revision: 2)
            bench.stallLarge()
            advance(bench, toHour: 2)
            let two = try await agent.enqueue(request(bench))
            #expect(two.run == one.run || two.superseded == [one.run])
            try await until(bench, large: 3_000_000)
            advance(bench, toHour: 6)
            try await untilStopped(bench, two.run)
            #expect(try bench.store.run(one.run).state == .superseded)

            // The third: nothing is in the way any longer, once it has been asked for. Until then no answer brings more than
            // 100 kB, since the rest comes by several connections: the run, which goes on by itself, must not end before.
            bench.stallLarge(at: 100_000)
            advance(bench, toHour: 2)
            try await until(bench, large: 3_100_000)
            let three = try await agent.enqueue(request(bench))
            #expect(three.run == two.run)
            try bench.publish(newer, revision: 2)
            bench.server.releaseStalls()
            try await bench.until(.finished)
            #expect(newer.problems(in: bench.destination) == [])
            #expect(try bench.store.run(two.run).result == .ok)
            let names = try bench.events().filter { $0["run"] as? String == two.run }.compactMap {
                $0["event"] as? String
            }.filter { $0.hasPrefix("condition.") }
            #expect(names == ["condition.blocked", "condition.cleared"])
        }
        let needed = 200 * 3_000 + 20 * 3_000 + Self.largeSize
        let sent = bench.server.log.entries.filter { !$0.request.path.hasSuffix("manifest.json") }.reduce(0) {
            $0 + $1.bytesSent
        }
        #expect(Double(sent) <= 1.02 * Double(needed), "\(sent) bytes for \(needed)")
        #expect(try bench.disorder() == [])
        try checkReport(bench, sent: sent)
    }

    /// The morning after, the report tells it rightly: every byte, night by night.
    private func checkReport(_ bench: AgentBench, sent: Int) throws {
        let clock = ReportClock(now: bench.now() + 3_600_000) { _ in 0 }
        let reader = ReportReader(store: bench.store, clock: clock, version: "0")
        let report = try reader.report(since: clock.now - 3 * Self.day, hasNights: true)
        let told = try #require(report.sessions.first)
        #expect(told.verdict == .ok && told.problems == [])
        #expect(told.nights.map(\.result) == [nil, nil, .ok])
        // In the second, the old run may have begun again before the newer manifest took its place.
        let runs = told.nights.map(\.runs)
        #expect([[1, 1, 1], [1, 2, 1]].contains(runs), "\(runs)")
        #expect(told.nights.allSatisfy { $0.amounts.received > 0 && $0.amounts.requests > 0 })
        let received = told.nights.reduce(UInt64(0)) { $0 + $1.amounts.received }
        #expect(received == told.amounts.received)
        // Manifests are received, too, and what was on its way when a night ended is not.
        #expect(received >= UInt64(sent) * 95 / 100 && received <= UInt64(sent) * 103 / 100, "\(received) of \(sent)")
        #expect(told.amounts.placed == 200 + 20 + 1, "each file once")
        #expect(told.runs.map(\.state) == [.superseded, .finished])
        #expect(told.waits.map(\.cause) == [.condition("window"), .condition("window")])
        #expect(told.waits.allSatisfy { ($0.to ?? 0) - $0.from > 19 * 3_600_000 })
        let text = report.lines(clock).joined(separator: "\n")
        #expect(text.contains("stopped by its conditions"), "\(text)")
    }
}
