import ArgumentParser
import SyncAgent
import SyncModel
import Testing

@testable import SyncCommands

@Suite("When a background pull may run", .timeLimit(.minutes(10)))
struct ConditionOptionTests {
    private func pull(_ options: String...) throws -> PullCommand {
        try #require(
            try SyncagentCommand.parseAsRoot(["pull", "m.json", "--into", "/srv/tower", "--background"] + options)
                as? PullCommand)
    }

    private let shell = EnvironmentPaths(home: "/home/site") { _ in nil }
    private let hook = EnvironmentPaths(home: "/home/site") { ["SYNCAGENT_RUN_ID": "20261120T020000Z-0000002a"][$0] }

    @Test("Nothing said: it always may; the default set and what overrides it [S49 S52]")
    func conditions() throws {
        #expect(try pull().recipe(shell).0.conditions.isEmpty)
        #expect(try pull("--discretionary").recipe(shell).0.conditions == .discretionary)

        var expected = RunConditions.discretionary
        expected.meteredBudget = nil
        expected.maximumLoad = 0.5
        let other = try pull("--discretionary", "--metered", "allow", "--max-load", "0.5")
        #expect(try other.recipe(shell).0.conditions == expected)

        let all = try pull(
            "--on-power", "--metered", "budget=500M", "--max-load", "2", "--idle", "10m", "--keep-free", "5G",
            "--window", "22:00-06:00 Europe/Berlin", "--condition", "vpn", "--condition", "/opt/plugins/quiet",
            "--rate-window", "08:00-18:00=2M", "--rate-window", "18:00+4h=none"
        ).recipe(shell).0.conditions
        expected = RunConditions()
        expected.power = true
        expected.meteredBudget = 500 << 20
        expected.maximumLoad = 2
        expected.idleSeconds = 600
        expected.freeSpace = 5 << 30
        expected.window = DailyWindow(startMinute: 1_320, lengthMinutes: 480, timeZone: "Europe/Berlin")
        expected.plugins = ["vpn", "/opt/plugins/quiet"]
        expected.rates = [
            RateWindow(window: DailyWindow(startMinute: 480, lengthMinutes: 600), limit: 2 << 20),
            RateWindow(window: DailyWindow(startMinute: 1_080, lengthMinutes: 240), limit: nil),
        ]
        #expect(all == expected)
        #expect(
            all.words == [
                "at 22:00-06:00 Europe/Berlin", "on mains power", "with at most 500 MiB on a metered network",
                "while other processes load each core less than 2.0", "when nobody has used the machine for 600 s",
                "while at least 5.00 GiB stays free", "when vpn and /opt/plugins/quiet allows it",
            ])
    }

    @Test("What a hook asks for waits until it suits the machine, unless it says otherwise [S50]")
    func ofHook() throws {
        let plain = try pull()
        #expect(try plain.recipe(hook).0.conditions == .discretionary)
        #expect(try plain.recipe(hook).0.origin == .hook)

        var cheap = RunConditions.discretionary
        cheap.meteredBudget = nil
        #expect(try pull("--metered", "allow").recipe(hook).0.conditions == cheap)

        let person = try pull("--interactive")
        #expect(try person.recipe(hook).0.conditions.isEmpty)
        #expect(try person.recipe(hook).0.origin == .interactive)
    }

    @Test(
        "Without the agent nobody could keep to them: refused, and what to add [S45]",
        arguments: [
            ["--discretionary"], ["--on-power"], ["--metered", "deny"], ["--max-load", "1"], ["--idle", "10m"],
            ["--keep-free", "5G"], ["--window", "22:00-06:00"], ["--condition", "vpn"],
            ["--rate-window", "08:00-18:00=2M"],
        ])
    func needsAgent(options: [String]) {
        let error = #expect(throws: (any Error).self) { try SyncagentCommand.parseAsRoot(["pull", "m"] + options) }
        guard let error else { return }
        #expect(SyncagentCommand.exitCode(for: error).rawValue == ExitStatus.usage.rawValue)
        let message = SyncagentCommand.message(for: error)
        #expect(message.contains("add --background") && message.contains(options[0]), "\(message)")
    }

    @Test(
        "Values that mean nothing are refused",
        arguments: [
            (["--max-load", "0"], "--max-load"), (["--max-load", "nan"], "--max-load"),
            (["--max-load", "1001"], "1000"), (["--metered", "no"], "budget=500M"),
            (["--window", "22:00"], "22:00-06:00"), (["--window", "22:00-06:00 Nowhere/Land"], "Europe/Berlin"),
            (["--idle", "0"], "'0'"), (["--rate-window", "08:00-18:00"], "08:00-18:00=2M"),
            (["--condition", "power"], "built in"), (["--condition", "../x"], "absolute path"),
            (["--condition", ""], "absolute path"), (["--keep-free", "much"], "much"),
        ] as [([String], String)])
    func refused(options: [String], words: String) {
        let error = #expect(throws: (any Error).self) {
            try SyncagentCommand.parseAsRoot(["pull", "m", "--background"] + options)
        }
        if let error { #expect(SyncagentCommand.fullMessage(for: error).contains(words)) }
    }
}
