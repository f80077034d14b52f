import Foundation
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncSchedule

@Suite(.timeLimit(.minutes(10)))
struct ConditionLedgerTests {
    private let power: ConditionAnswer = ("power", .blocked(reason: "on battery"))
    private let window: ConditionAnswer = ("window", .blocked(reason: "by day", until: 9_000))

    @Test("The first that blocks is named, since when and until when; changes are told once [S53 S133]")
    func story() {
        var ledger = ConditionLedger()
        var report = ledger.take([("window", .ok), ("power", .ok)], at: 1_000)
        #expect(!report.isBlocked && report.changes.isEmpty && report.warnings.isEmpty)

        report = ledger.take([("window", .ok), power], at: 2_000)
        #expect(report.condition == "power" && report.reason == "on battery" && report.since == 2_000)
        #expect(report.changes == [.blocked(condition: "power", reason: "on battery", until: nil)])

        report = ledger.take([window, power], at: 3_000)
        #expect(report.condition == "window" && report.reason == "by day" && report.since == 3_000)
        #expect(report.changes == [.blocked(condition: "window", reason: "by day", until: 9_000)])
        #expect(ledger.blockedSince == ["window": 3_000, "power": 2_000])

        report = ledger.take([window, power], at: 4_000)
        #expect(report.since == 3_000 && report.changes.isEmpty)

        report = ledger.take([("window", .ok), ("power", .unknown(reason: "gone"))], at: 9_000)
        #expect(!report.isBlocked && report.since == nil)
        #expect(
            report.changes == [.cleared(condition: "window", after: 6_000), .cleared(condition: "power", after: 7_000)])
        #expect(report.warnings == ["condition power counts as met: gone"])
        #expect(ledger.take([("power", .unknown(reason: "gone"))], at: 9_001).warnings == [], "once")
    }

    @Test("What was known before a restart is kept, and a clock set back makes nothing later")
    func restart() {
        var ledger = ConditionLedger(blockedSince: ["power": 500])
        #expect(ledger.take([power], at: 2_000).since == 500)
        #expect(ledger.take([power], at: 2_000).changes == [])
        #expect(ledger.take([power], at: 100).since == 100)
        #expect(ledger.take([("power", .ok)], at: 50).changes == [.cleared(condition: "power", after: 0)])
    }

    @Test("What plugins say is cut and made safe for a terminal [V63]")
    func unsafeWords() {
        var ledger = ConditionLedger()
        let long = String(repeating: "x", count: 1_000)
        let report = ledger.take([("chat\u{1b}[2J", .blocked(reason: "\u{1b}]0;" + long))], at: 0)
        #expect(report.condition == "chat\\u{1b}[2J")
        #expect(report.reason == "\\u{1b}]0;" + String(repeating: "x", count: 296))
        ledger = ConditionLedger()
        #expect(
            ledger.take([("b", .unknown(reason: "\n"))], at: 0).warnings == ["condition b counts as met: \\u{a}"])
    }

    @Test(
        "A time that makes no sense is not believed, and nobody waits for it",
        arguments: [Int64.min, -1, 0, 5_000, 5_000 + 366 * 86_400_000 + 1, 9_404_000_000_000_000, .max - 1, .max])
    func senselessUntil(until: Int64) {
        var ledger = ConditionLedger()
        let report = ledger.take([("odd", .blocked(reason: "so", until: until))], at: 5_000)
        #expect(report.answers.map(\.name) == ["odd"] && report.answers.map(\.state) == [.blocked(reason: "so")])
        #expect(report.changes == [.blocked(condition: "odd", reason: "so", until: nil)])
        #expect(report.nextCheck(after: 5_000, every: 50) == 5_050)
    }

    @Test("What blocks for months is asked again after two days; since when it blocks may be any number on disk")
    func longBlock() {
        var ledger = ConditionLedger(blockedSince: ["holiday": .min])
        let until: Int64 = 300 * 86_400_000
        var report = ledger.take([("holiday", .blocked(reason: "leave", until: until))], at: 7)
        #expect(report.answers.map(\.state) == [.blocked(reason: "leave", until: until)] && report.since == 0)
        #expect(report.answers.map(\.name) == ["holiday"])
        #expect(report.nextCheck(after: 7, every: 50) == 7 + 2 * 86_400_000)
        report = ledger.take([("holiday", .ok)], at: 9)
        #expect(report.changes == [.cleared(condition: "holiday", after: 9)])
    }

    @Test("Of two conditions with one name the one that blocks counts, and the other clears nothing")
    func sameName() {
        var ledger = ConditionLedger()
        let answers: [ConditionAnswer] = [("check", .blocked(reason: "busy")), ("check", .ok)]
        #expect(ledger.take(answers, at: 1).changes.count == 1)
        let again = ledger.take(answers.reversed(), at: 2)
        #expect(again.isBlocked && again.since == 1 && again.changes == [])
        #expect(ledger.take([answers[1], answers[1]], at: 4).changes == [.cleared(condition: "check", after: 3)])
    }

    @Test("The next look comes when what blocks has said it ends, else after the usual time [S53]")
    func nextCheck() {
        var ledger = ConditionLedger()
        #expect(ledger.take([power], at: 0).nextCheck(after: 0, every: 50) == 50)
        #expect(ledger.take([window], at: 0).nextCheck(after: 0, every: 50) == 9_000)
        #expect(ledger.take([window, power], at: 0).nextCheck(after: 0, every: 50) == 9_000)
        #expect(ledger.take([window], at: 8_990).nextCheck(after: 8_990, every: 50) == 9_040)
    }

    /// Whatever each of four conditions answers.
    private static let table: [[Verdict]] = {
        let all: [Verdict] = [.ok, .blocked, .unknown]
        return all.flatMap { a in all.flatMap { b in all.flatMap { c in all.map { d in [a, b, c, d] } } } }
    }()

    @Test("Truth table: blocked when any is, named by the first; unknown counts as met [S49]", arguments: table)
    func truthTable(verdicts: [Verdict]) {
        var ledger = ConditionLedger()
        let answers = verdicts.enumerated().map { index, verdict -> ConditionAnswer in
            switch verdict {
            case .ok: ("\(index)", .ok)
            case .blocked: ("\(index)", .blocked(reason: "because"))
            case .unknown: ("\(index)", .unknown(reason: "who knows"))
            }
        }
        let report = ledger.take(answers, at: 1)
        #expect(report.isBlocked == verdicts.contains(.blocked))
        #expect(report.condition == verdicts.firstIndex(of: .blocked).map { "\($0)" })
        #expect(report.changes.count == verdicts.count { $0 == .blocked })
        // As long as another blocks, nothing counts as met.
        #expect(report.warnings.count == (report.isBlocked ? 0 : verdicts.count { $0 == .unknown }))
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ConditionCheckTests {
    private let context = ConditionContext(destination: "/", now: 1_000)

    @Test("A condition that hangs counts as unknown, is not asked again, and holds up no other [S49]")
    func hang() {
        let (release, asked) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let stuck = Scripted("stuck") { _ in
            asked.signal()
            release.wait()
            return .blocked(reason: "late")
        }
        let check = ConditionCheck(
            [stuck, Scripted("power") { _ in .blocked(reason: "on battery") }], deadline: .milliseconds(200))
        var report = check.evaluate(context)
        #expect(report.condition == "power")
        #expect(report.answers.first?.state == .unknown(reason: "it has not answered in time"))
        #expect(report.warnings == [], "the other blocks")
        report = check.evaluate(context)
        #expect(report.answers.first?.state == .unknown(reason: "it has not answered an earlier query yet"))
        asked.wait()
        #expect(asked.wait(timeout: .now()) == .timedOut, "asked once only")
        release.signal()
        release.signal()
        // Its late answer is nobody's; the next question has its own.
        while check.evaluate(context).answers.first?.state != .blocked(reason: "late") { release.signal() }
    }

    @Test("A plugin that fails counts as unknown; more conditions than cores are asked at once")
    func failure() {
        let broken = Scripted("broken") { _ throws(PluginError) in
            throw PluginError(plugin: "broken", code: .unavailable, message: "it has ended")
        }
        let all = (0..<20).map { index in Scripted("c\(index)") { _ in .ok } }
        let report = ConditionCheck(all + [broken]).evaluate(context)
        #expect(!report.isBlocked)
        #expect(report.warnings == ["condition broken counts as met: plugin broken: it has ended"])
    }

    @Test("Nothing asked for: always open")
    func empty() throws {
        let check = try ConditionCheck(RunConditions(), on: MachinePlaces())
        #expect(check.isEmpty)
        let report = check.evaluate(context)
        #expect(!report.isBlocked && report.answers.isEmpty && report.since == nil)
        #expect(report.changes == [] && report.warnings == [])
    }

    @Test("Every condition that a run asks for is looked at, in a fixed order [S49]")
    func everything() throws {
        var wanted = RunConditions.discretionary
        wanted.idleSeconds = 600
        wanted.freeSpace = 1
        wanted.window = DailyWindow(startMinute: 0, lengthMinutes: 1_440)
        var machine = MachinePlaces()
        machine.bus = SystemBus(directories: [])
        let check = try ConditionCheck(wanted, on: machine, plugins: [Scripted("vpn") { _ in .ok }])
        #expect(
            check.evaluate(context).answers.map(\.name) == [
                "window", "space", "power", "metered", "idle", "load", "vpn",
            ])
        #expect(builtInConditions == ["idle", "load", "metered", "power", "space", "window"])
        wanted.window = DailyWindow(startMinute: 1_440, lengthMinutes: 0)
        #expect(throws: PluginError.self) { try ConditionCheck(wanted, on: machine) }
        wanted.window = nil
        wanted.rates = [RateWindow(window: DailyWindow(startMinute: .max, lengthMinutes: .max), limit: 1)]
        #expect(throws: PluginError.self) { try ConditionCheck(wanted, on: machine) }
        #expect(throws: PluginError.self) { try builtInCondition("weather", for: wanted, on: machine) }
    }

    @Test(
        "All combinations on a machine that is made up: sysfs, load average, NetworkManager, logind [S49 S133]",
        .enabled(if: FakeBus.missing == nil, "\(FakeBus.missing ?? "")"))
    func combinations() throws {
        let (bus, root) = (try FakeBus(), try TemporaryRoot())
        var machine = MachinePlaces()
        machine.bus = SystemBus(address: bus.address)
        machine.powerSupplies = root.path("power")
        machine.loadAverage = root.path("loadavg")
        machine.ownThreads = root.path("task")
        var wanted = RunConditions.discretionary
        wanted.idleSeconds = 60
        // The same object throughout: each evaluation flips something.
        let check = try ConditionCheck(wanted, on: machine)
        try root.write("Mains", to: "power/AC/type")
        try root.write("Battery", to: "power/BAT/type")
        let verdicts: [Verdict] = [.ok, .blocked, .unknown]
        for power in verdicts {
            try root.write(power == .ok ? "1" : power == .blocked ? "0" : "?", to: "power/AC/online")
            for metered in verdicts {
                try bus.set("Metered", metered == .ok ? "2" : metered == .blocked ? "1" : "text")
                for idle in verdicts {
                    try bus.set("IdleHint", idle == .blocked ? "false" : "true")
                    try bus.set("IdleSinceHint", idle == .unknown ? "text" : "0")
                    for load in verdicts {
                        try root.write(load == .ok ? "0 0" : load == .blocked ? "99999 0" : "?", to: "loadavg")
                        let expected = [power, metered, idle, load]
                        let report = check.evaluate(ConditionContext(destination: "/", now: 1_800_000_000_000))
                        #expect(report.answers.map { Verdict($0.state) } == expected)
                        let names = ["power", "metered", "idle", "load"]
                        #expect(report.condition == expected.firstIndex(of: .blocked).map { names[$0] })
                    }
                }
            }
        }
    }
}
