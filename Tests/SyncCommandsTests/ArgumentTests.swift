import ArgumentParser
import Foundation
import SyncEngine
import SyncModel
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(10)))
struct ArgumentTests {
    @Test(
        "Everything on the command line is checked before anything happens [S83]",
        arguments: [
            ["pull"], ["pull", ""], ["pull", "m", "a/*.png"], ["pull", "m", "../a"], ["pull", "m", ""],
            ["pull", "m", "a", "--group-hook", "sheets=/bin/true"], ["pull", "m", "--bogus"],
            ["pull", "m", "--connections", "0"], ["pull", "m", "--connections", "-1"],
            ["pull", "m", "--connections", "65"], ["pull", "m", "--connections", "2147483648"],
            ["pull", "m", "--connections", "9223372036854775808"], ["pull", "m", "--connections", "abc"],
            ["pull", "m", "--limit-rate", "0"], ["pull", "m", "--limit-rate", "fast"],
            ["pull", "m", "--limit-rate", "-5"], ["pull", "m", "--deadline", "0"], ["pull", "m", "--deadline", "soon"],
            ["pull", "m", "--force"], ["pull", "m", "--max-delete", "5"], ["pull", "m", "--prune", "--max-delete=-1"],
            ["pull", "m", "--prune", "--max-delete", "x"], ["pull", "m", "--backup-dir", ""],
            ["pull", "m", "--backup-dir", "host:kept"], ["pull", "m", "--backup-dir", "https://user:pw@example.com/x"],
            ["pull", "m", "--into", "host:tower"], ["pull", "m", "--into", "me@host:tower"],
            ["pull", "m", "--into", "https://example.com/tower"], ["publish", "a", "--to", "me@host:out"],
            ["publish", "a", "--to", "https://example.com/out"], ["pull", "m", "--not-before", "7"],
            ["pull", "m", "--umask", "8"], ["pull", "m", "--umask", "1000"], ["pull", "m", "--umask", "u=rwx"],
            ["pull", "http://"], ["pull", "https:///m.json"], ["pull", "m", "--into", ""],
            ["pull", "m", "--group", ""], ["pull", "m", "--session", ""], ["pull", "m", "--session", "../x"],
            ["pull", "m", "--session", "a/b"], ["pull", "m", "--session", "-x"],
            ["pull", "m", "--session", String(repeating: "a", count: 256)], ["pull", "m", "--hook", ""],
            ["pull", "m", "--hook", "no-such-program-anywhere"], ["pull", "m", "--group-hook", "sheets"],
            ["pull", "m", "--group-hook", "=/bin/true"], ["pull", "m", "--group-hook", "sheets="],
            ["pull", "m", "--group", "video", "--group-hook", "sheets=/bin/true"], ["plan"],
            ["plan", "m", "--connections", "4"], ["verify"], ["verify", "m", "--hook", "/bin/true"], ["serve"],
            ["serve", ".", "--port", "65536"], ["serve", ".", "--port", "-1"], ["nonsense"],
        ]) func refused(arguments: [String])
    {
        let error = #expect(throws: (any Error).self) { try SyncagentCommand.parseAsRoot(arguments) }
        if let error { #expect(SyncagentCommand.exitCode(for: error).rawValue == ExitStatus.usage.rawValue) }
    }

    @Test(
        "What is said in hours and days needs its unit, and the message names them; the number of an event is none",
        arguments: [
            ["report", "--since", "7"], ["pull", "m", "--deadline", "7"], ["schedule", "add", "m", "--every", "7"],
            ["schedule", "add", "m", "--nightly", "02:00", "--window", "7"],
            ["schedule", "add", "m", "--nightly", "02:00", "--jitter", "7"],
        ])
    func unitless(arguments: [String]) throws {
        let error = #expect(throws: (any Error).self) { try SyncagentCommand.parseAsRoot(arguments) }
        let message = error.map { SyncagentCommand.message(for: $0) } ?? ""
        #expect(message.contains("'7' needs a unit: 7d for days, 7h for hours"), "\(message)")
        let command = try SyncagentCommand.parseAsRoot(["events", "--since", "7"]) as? EventsCommand
        #expect(command?.since == 7)
    }

    @Test("A command line is read by the command that it names; errors and help are worded with the program's name")
    func named() throws {
        #expect(try SyncagentCommand.parse(["pull", "m", "--connections", "4"]) is PullCommand)
        #expect(try SyncagentCommand.parse(["schedule", "remove", "tower"]) is ScheduleRemoveCommand)
        #expect(try SyncagentCommand.parse(["schedule", "rm", "tower"]) is ScheduleRemoveCommand)
        #expect(try !(SyncagentCommand.parse(["pull", "--help"]) is PullCommand))
        #expect(try !(SyncagentCommand.parse(["help", "pull"]) is PullCommand))
        let error = #expect(throws: (any Error).self) { try SyncagentCommand.parse(["schedule", "remove"]) }
        let message = error.map { SyncagentCommand.fullMessage(for: $0) } ?? ""
        #expect(message.contains("syncagent schedule remove"), "\(message)")
    }

    @Test(
        "A typo is answered with the nearest name, be it a command's other one",
        arguments: [("rmm", "rm"), ("remov", "remove"), ("lost", "list")])
    func typos(word: String, name: String) {
        let failure = #expect(throws: CommandFailure.self) { try SyncagentCommand.parse(["schedule", word]) }
        #expect(failure?.message.contains("Did you mean 'syncagent schedule \(name)'?") == true)
    }

    @Test("The options of a pull reach the engine")
    func pullOptions() throws {
        let command = try #require(
            try SyncagentCommand.parseAsRoot([
                "pull", "https://cdn.example.com/tower/manifest.json", "--into", "/srv/tower", "--session", "tower-1",
                "--group", "sheets", "--group", "video", "--hook", "/opt/reindex", "--group-hook", "video=/opt/v=1",
                "--connections", "64", "--limit-rate", "1.5MB", "--prune", "--force", "--dry-run", "--max-delete", "7",
                "--backup-dir", "/srv/kept", "--allow-older",
            ]) as? PullCommand)
        let environment = EnvironmentPaths(home: nil) { ["XDG_STATE_HOME": "/var/state"][$0] }
        let options = try command.runRecipe(environment).0
        #expect(options.manifest == "https://cdn.example.com/tower/manifest.json")
        #expect(options.destination == "/srv/tower")
        #expect(options.session == "tower-1")
        #expect(options.groups == ["sheets", "video"])
        #expect(options.hooks.map(\.group) == ["all", "video"])
        #expect(options.hooks.map(\.arguments) == [["/opt/reindex"], ["/opt/v=1"]])
        #expect(options.settings.connections == 64)
        #expect(options.settings.limitRate == 1_500_000)
        #expect(options.prune && options.force && command.dryRun && options.allowOlder)
        #expect(options.maxDelete == 7 && options.backupDir == "/srv/kept")
    }

    @Test("User data may have every character of Unicode, NUL too [S67]")
    func userData() throws {
        for text in [#""\u0000""#, #"{"a":[1,"x\u0000"]}"#, #"{"\u0000":1}"#, #"{"a":["\\u0000","\n",null]}"#] {
            let command = try PullCommand.parse(["/m.json", "--user-data", text])
            let environment = EnvironmentPaths(home: nil) { ["XDG_STATE_HOME": "/var/state"][$0] }
            #expect(try command.runRecipe(environment).0.userData?.text == text)
        }
        #expect(throws: (any Error).self) { _ = try PullCommand.parse(["/m.json", "--user-data", "word"]) }
    }

    @Test("What the command line does not say of pruning, the configuration file does")
    func keyedOptions() throws {
        let directory = FileManager.default.temporaryDirectory.path + "/keyed-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let file = directory + "/config.json"
        try Data(#"{max_delete: 9, backup_dir: "kept"}"#.utf8).write(to: URL(fileURLWithPath: file))
        let environment = EnvironmentPaths(home: nil) { ["XDG_STATE_HOME": "/var/state"][$0] }
        func recipe(_ words: String...) throws -> RunRecipe {
            let command = try PullCommand.parse(["/m.json", "--config", file, "--prune"] + words)
            return try command.runRecipe(environment).0
        }
        let kept = try recipe()
        #expect(kept.maxDelete == 9 && kept.backupDir == directory + "/kept")
        let said = try recipe("--max-delete=0", "--backup-dir", "/elsewhere", "--umask", "027")
        #expect(said.maxDelete == 0 && said.backupDir == "/elsewhere" && said.umask == Umask(bits: 0o027))
        try Data(#"{umask: "2"}"#.utf8).write(to: URL(fileURLWithPath: file))
        #expect(try recipe().umask == Umask(bits: 0o002))
        try Data(#"{umask: "9"}"#.utf8).write(to: URL(fileURLWithPath: file))
        #expect(throws: (any Error).self) { try recipe() }
    }

    @Test(
        "A limit that makes no sense is refused by the option's name",
        arguments: [
            (["--prune", "--max-delete=-1"], "--max-delete: a number of 0 or more is expected, not '-1'."),
            (["--prune", "--max-delete", "many"], "--max-delete: a number of 0 or more is expected, not 'many'."),
            (["--max-delete", "1"], "--max-delete needs --prune; without it nothing is removed."),
            (["--backup-dir", ""], "--backup-dir: a path is expected, not an empty string."),
            (
                ["--hook", "HTTPS://u:secret@chat.example/"],
                "--hook: the URL of a webhook cannot be used: a user name in a URL."
            ),
        ])
    func keyedFaults(words: [String], message: String) {
        let error = #expect(throws: (any Error).self) { try PullCommand.parse(["/m.json"] + words) }
        #expect(error.map { PullCommand.message(for: $0) } == message)
    }

    @Test("File hooks are of all files, 100 a call unless said otherwise [S131]", arguments: [nil, 1, 10_000])
    func fileHooks(batch: Int?) throws {
        let said = batch.map { ["--file-hook-batch", "\($0)"] } ?? []
        let command = try #require(
            try SyncagentCommand.parseAsRoot(
                ["pull", "/m.json", "--hook", "/h", "--file-hook", "/opt/thumbs", "--file-hook", "https://h.example/x"]
                    + ["--hook-on", "ok", "--hook-timeout", "90s"] + said) as? PullCommand)
        let environment = EnvironmentPaths(home: nil) { ["XDG_STATE_HOME": "/var/state"][$0] }
        let options = try command.runRecipe(environment).0
        let files = options.hooks.filter { $0.batch != nil }
        #expect(files.map(\.arguments) == [["/opt/thumbs"], ["https://h.example/x"]])
        #expect(files.allSatisfy { $0.batch == batch ?? 100 && $0.group == "all" })
        #expect(files.allSatisfy { $0.results == [.ok] && $0.timeout == 90 })
        #expect(options.hooks.count == 3)
    }

    @Test(
        "What cannot be said of file hooks [S131]",
        arguments: [
            ["--file-hook-batch", "5"], ["--file-hook", "/x", "--file-hook-batch", "0"],
            ["--file-hook", "/x", "--file-hook-batch", "10001"], ["--file-hook", ""],
        ])
    func fileHookFaults(option: [String]) {
        #expect(throws: (any Error).self) { try SyncagentCommand.parseAsRoot(["pull", "/m.json"] + option) }
    }

    @Test(
        "A time is a number and a unit",
        arguments: [
            ("90", 90), ("90s", 90), ("15m", 900), ("6h", 21_600), ("7d", 604_800), ("366d", 31_622_400), ("0", nil),
            ("", nil), ("s", nil), ("-5s", nil), ("1.5h", nil), ("5x", nil), ("367d", nil),
            ("9223372036854775807d", nil), ("99999999999999999999", nil), ("+5", nil),
        ] as [(String, Int64?)])
    func durations(text: String, seconds: Int64?) {
        let value = try? duration(text)
        #expect(value == seconds.map { .seconds($0) })
    }

    @Test("Paths with colons are paths", arguments: ["a:b.json", "./http://x", "/x/ftp://y", "C:\\m.json"])
    func colons(path: String) throws {
        let command = try #require(try SyncagentCommand.parseAsRoot(["plan", path]) as? PlanCommand)
        #expect(command.target.manifest == path)
    }

    @Test("The state directory follows the XDG Base Directory Specification")
    func stateDirectory() throws {
        func directory(_ variables: [String: String], home: String? = "/home/passwd") throws -> String {
            try EnvironmentPaths(home: home) { variables[$0] }.stateDirectory()
        }
        #expect(try directory(["XDG_STATE_HOME": "/s", "HOME": "/h"]) == "/s/syncagent")
        #expect(try directory(["XDG_STATE_HOME": "relative", "HOME": "/h"]) == "/h/.local/state/syncagent")
        #expect(try directory(["XDG_STATE_HOME": "", "HOME": "/h"]) == "/h/.local/state/syncagent")
        #expect(try directory([:]) == "/home/passwd/.local/state/syncagent")
        let failure = #expect(throws: CommandFailure.self) { try directory(["HOME": "h"], home: nil) }
        #expect(failure?.status == .cannotCreate)
    }
}
