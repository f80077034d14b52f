import ArgumentParser
import Foundation
import Testing

@testable import SyncCommands

@Suite("Help", .timeLimit(.minutes(10)))
struct HelpTextTests {
    private func help(_ words: [String]) -> String {
        do {
            var command = try SyncagentCommand.parseAsRoot(words + ["--help"])
            try command.run()
            return ""
        } catch { return SyncagentCommand.arranged(SyncagentCommand.fullMessage(for: error, columns: 100)) }
    }

    @Test("What people use comes before the groups of options, and nothing is lost or comes twice")
    func order() throws {
        let text = help(["pull"])
        let places = [
            "OPTIONS:", "--into <dir>", "--dry-run", "HOOKS:", "--hook <program>", "DESTINATION:", "--prune ",
            "TRANSFER:",
            "--limit-rate", "BACKGROUND:", "--not-before",
        ].map {
            text.range(of: "\n  \($0)")?.lowerBound ?? text.range(of: "\n\($0)")?.lowerBound
        }
        #expect(places.allSatisfy { $0 != nil })
        #expect(places.compactMap(\.self) == places.compactMap(\.self).sorted())
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let titles = lines.filter {
            $0.hasSuffix(":") && $0.first?.isUppercase == true && !$0.contains { $0.isLowercase }
        }
        #expect(Set(titles).count == titles.count && titles.contains("OPTIONS:"))
        #expect(!lines.indices.contains { $0 > 0 && lines[$0].isEmpty && lines[$0 - 1].isEmpty })
        #expect(text.contains("Examples:\n\n  syncagent pull https://"))
    }

    @Test(
        "Every verb's help has one section of options",
        arguments: [["plan"], ["publish"], ["schedule", "add"], ["status"], ["serve"], ["schedule"], []])
    func verbs(
        words: [String]
    ) throws {
        let text = help(words)
        #expect(text.components(separatedBy: "\nOPTIONS:\n").count == 2, "\(text)")
    }

    @Test("The commands are in six groups, none twice, and each group's title says what they are for")
    func commandGroups() {
        let titles = help([]).split(separator: "\n").filter { $0.hasSuffix(":") && !$0.contains { $0.isLowercase } }
        #expect(
            titles == [
                "OPTIONS:", "PULL:", "PUBLISH:", "READ A MANIFEST:", "BACKGROUND PULLS AND SCHEDULES:", "REPORTS:",
                "MAINTENANCE:",
            ])
        let names = SyncagentCommand.configuration.subcommands.map { $0.configuration.commandName }
        #expect(Set(names).count == names.count && names.count >= 29)
        #expect(SyncagentCommand.configuration.ungroupedSubcommands.isEmpty)
    }

    @Test("An example fits into 80 columns: broken in two, it is another command")
    func examples() {
        var commands: [any ParsableCommand.Type] = [SyncagentCommand.self]
        while let command = commands.popLast() {
            commands += command.configuration.subcommands
            for line in command.configuration.discussion.split(separator: "\n") where line.hasPrefix("  ") {
                #expect(line.count <= 80, "\(line)")
            }
        }
    }

    @Test("A group of verbs names itself with the program")
    func groups() {
        for command in [ScheduleCommand.self, HooksCommand.self, PluginsCommand.self, AgentCommand.self]
            as [any ParsableCommand.Type]
        {
            let text = SyncagentCommand.helpMessage(for: command)
            #expect(text.contains("USAGE: syncagent \(command.configuration.commandName ?? "")"), "\(text)")
        }
    }
}
