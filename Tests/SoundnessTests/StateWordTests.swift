import Foundation
import SyncModel
import Testing

/// What runs, groups, tasks, hooks and sessions can be, why they rest, what went wrong, and what happened: words that have
/// types.
private let words = Set(
    RunState.allCases.map(\.rawValue) + RunResult.allCases.map(\.rawValue) + GroupState.allCases.map(\.rawValue)
        + TaskState.allCases.map(\.rawValue) + HookRunState.allCases.map(\.rawValue)
        + SessionState.allCases.map(\.rawValue) + RequestState.allCases.map(\.rawValue)
        + FailureCause.allCases.map(\.rawValue) + EventName.allCases.map(\.rawValue)
        + [
            RestReason.userStop, .userCancel, .agentRestart, .policy, .notBefore, .queue, .connectivity, .retry,
            .sessionBusy, .destinationBusy, .resources,
        ].map(\.rawValue))

/// Where texts become types: a member of a schedule's file, answers of plugin programs, keys of a statement, and names of
/// conditions, of which one is also that of a state.
private let readers: Set<String> = [
    "Sources/SyncSchedule/Conditions/BuiltInConditions.swift",
    "Sources/SyncCommands/Schedule/ScheduleFile.swift", "Sources/SyncPluginHost/Points/Condition.swift",
    "Sources/SyncPluginHost/Points/Verifier.swift", "Sources/SyncPluginHost/Points/Resolver.swift",
    "Sources/SyncTrust/Statements/FreshStatement.swift",
]

/// Where a file compares such a word as text: `== "…"`, `case "…"`, or `= '…'` of SQL.
private func comparisons(in source: SourceText) throws -> [String] {
    guard !readers.contains(source.path), source.path != "Sources/SyncStore/Schema.swift" else { return [] }
    let compared = try Regex(#"(?:[!=]= "|case (?:"[^"]*", )*"|(?:=|<>|IN \(.*) ?'|~= ")([a-z_.]+)["']"#)
    return source.code.enumerated().flatMap { index, line in
        line.matches(of: compared).compactMap { match in
            match.output[1].substring.flatMap { words.contains(String($0)) ? $0 : nil }
        }.map { "\(source.path):\(index + 1): \"\($0)\" has a type; compare with its case" }
    }
}

@Suite("States, results, reasons and events are types", .timeLimit(.minutes(10)))
struct StateWordTests {
    @Test("Outside what reads texts, no state, result, cause or event is compared as a word")
    func sources() throws {
        #expect(try SourceText.all(below: "Sources").flatMap(comparisons) == [])
    }

    @Test(
        "The check finds a word that is compared",
        arguments: [
            #"if run.state == "waiting" {"#, #"if name != "task.failed" {"#, #"case "none", "partial": 1"#,
            "WHERE hooks.state = 'pending'", "groups.state <> 'open'", "state IN ('later', 'running')",
            #"x ? y == "refused_redirect" : z"#,
        ])
    func canFail(line: String) throws {
        #expect(try comparisons(in: SourceText(path: "Sources/SyncEngine/A.swift", text: line)).count == 1)
        #expect(try comparisons(in: SourceText(path: "Sources/SyncEngine/A.swift", text: "// \(line)")) == [])
    }

    @Test("No option of the command line is named by what transfers, runs plugins or calls hooks")
    func options() throws {
        let modules: Set = [
            "SyncModel", "SyncSystem", "SyncTransfer", "SyncContent", "SyncPlugins", "SyncPluginHost",
            "SyncDaemon",
        ]
        let all = try SourceText.all(below: "Sources").filter { modules.contains($0.target) }
        #expect(Set(all.map(\.target)) == modules)
        let option = try Regex("--[a-z]")
        let naming = all.filter { source in source.code.contains { $0.contains(option) } }
        #expect(naming.map(\.path) == [])
    }

    @Test(
        "A codec with properties of its own is named in two files, what it is and what is done with it: all others ask them"
    )
    func codecs() throws {
        let naming = try SourceText.all(below: "Sources").filter { source in
            source.bareCode.contains { $0.contains("zstdDictionary") }
        }
        #expect(
            naming.map(\.path) == ["Sources/SyncContent/Compression/BlobCodec.swift", "Sources/SyncModel/Codec.swift"])
    }

    @Test("A backend of schedules and a column of runs are named where they are declared, and nowhere else twice")
    func places() throws {
        let all = try SourceText.all(below: "Sources")
        func files(_ word: String) -> [String] { all.filter { $0.code.contains { $0.contains(word) } }.map(\.path) }
        // Its own file, and the one list of them.
        #expect(
            files("CronBackend") == [
                "Sources/SyncSchedule/Backends/CronBackend.swift",
                "Sources/SyncSchedule/Backends/ScheduleBackend.swift",
            ])
        #expect(
            files("waiting_since") + files("var waitingSince: Int64?") == [
                "Sources/SyncStore/Schema.swift", "Sources/SyncStore/StoredRun.swift",
            ])
    }
}
