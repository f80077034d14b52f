import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// The program, its agent, and a system bus that is made up.
@Suite(
    "Conditions, as a user meets them", .timeLimit(.minutes(10)),
    .enabled(if: FakeBus.missing == nil, "\(FakeBus.missing ?? "")"))
struct ConditionRunTests {
    /// One file that takes some seconds at ``rate``.
    private static let size = 8_000_000
    private static let rate = "1MB"

    private let bus: FakeBus
    private let published: ServedSet
    private let environment: [String: String]

    init() throws {
        bus = try FakeBus()
        var bytes = Data(count: Self.size)
        // Nothing that could be compressed.
        var state: UInt64 = 0x9E37_79B9_7F4A_7C15
        for index in bytes.indices {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            bytes[index] = UInt8(truncatingIfNeeded: state >> 56)
        }
        published = try ServedSet(["large.bin": bytes, "sheets/a.txt": Data("one".utf8)])
        environment = ["DBUS_SYSTEM_BUS_ADDRESS": bus.address]
    }

    private func run(_ arguments: String...) throws -> Tool.Outcome {
        try published.tool.run(arguments, environment: environment)
    }

    private func pull(_ arguments: String...) throws -> Tool.Outcome {
        try published.tool.run(
            ["pull", published.url, "--into", "tower", "--background"] + arguments, environment: environment)
    }

    private func status() throws -> [String: Any] { try run("status", "--json").objects().first ?? [:] }

    /// Raw bytes that have been written; 0 before the plan.
    private static func bytesDone(_ status: [String: Any]) -> Int {
        let progress = (status["run"] as? [String: Any])?["progress"] as? [String: Any]
        return progress?["bytes_done"] as? Int ?? 0
    }

    /// Asks every tenth of a second until the session is as wanted, for a minute at most.
    private func until(_ wanted: ([String: Any]) -> Bool) throws -> [String: Any] {
        for _ in 0..<600 {
            let status = try status()
            if wanted(status) { return status }
            Thread.sleep(forTimeInterval: 0.1)
        }
        return try status()
    }

    @Test(
        "The network becomes metered in the middle: it waits, says why, and fetches nothing again [S49 S52 S53 S133 F053]"
    )
    func metered() throws {
        defer { _ = try? run("agent", "stop") }
        let outcome = try pull("--metered", "deny", "--limit-rate", Self.rate)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.error.contains("only on a network that is not metered"), "\(outcome.error)")
        let moving = try until { Self.bytesDone($0) > 0 }
        #expect(Self.bytesDone(moving) > 0, "\(moving)")
        try bus.set("Metered", "1")
        let blocked = try until { $0["reason"] as? String == "metered" }
        #expect(blocked["state"] as? String == "waiting", "\(blocked)")
        #expect(blocked["reason"] as? String == "metered" && blocked["since"] != nil && blocked["until"] != nil)
        let words = try run("status").output
        #expect(words.contains("blocked by metered since"), "\(words)")
        #expect(words.contains("the network is metered"), "\(words)")

        try bus.set("Metered", "2")
        #expect(try run("resume").status == 0)
        let wait = try run("wait")
        #expect(wait.status == 0, "\(wait.error)")
        #expect(try published.scratch.contents(of: "tower").contains("large.bin"))
        let events = try run("events").output
        #expect(events.contains("condition.blocked") && events.contains("condition.cleared"), "\(events)")
        let bytes = (try status()["run"] as? [String: Any])?["bytes"] as? [String: Any]
        let received = try #require(bytes?["received"] as? Int)
        #expect(received < Self.size + 1_000_000, "what had come was kept: \(received)")
    }

    @Test("A budget is kept to: what has come by then is all that comes [S52]")
    func budget() throws {
        defer { _ = try? run("agent", "stop") }
        try bus.set("Metered", "3")
        #expect(try pull("--metered", "budget=1M", "--limit-rate", Self.rate).status == 0)
        let blocked = try until { $0["reason"] as? String == "metered" }
        let run = blocked["run"] as? [String: Any]
        #expect(
            (run?["error"] as? String)?.contains("of the 1.00 MiB allowed have been received") == true, "\(blocked)")
    }
}
