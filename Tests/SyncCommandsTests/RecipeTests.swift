import ArgumentParser
import Foundation
import SyncControl
import SyncModel
import Testing

@testable import SyncCommands

@Suite("One recipe for a run", .timeLimit(.minutes(10)))
struct RecipeTests {
    private let shell = EnvironmentPaths(home: "/home/site") { _ in nil }

    private func full() throws -> RunRecipe {
        let command = try #require(
            try SyncagentCommand.parseAsRoot([
                "pull", "https://cdn.example.com/m.json", "--into", "/srv/tower", "--session", "t", "--group",
                "a",
                "--hook", "/bin/true", "--connections", "3", "--limit-rate", "1M", "--prune", "--force",
                "--max-delete", "4", "--backup-dir", "/srv/kept", "--allow-older", "--background", "--paused",
                "--not-before", "2026-11-20T02:00:00Z", "--label", "l", "--on-power", "--window",
                "22:00-06:00", "--include", "maps", "--exclude", "*.txt", "--trust", "root", "--user-data",
                "{\"a\":[1,null]}", "--expected-bytes", "9", "--channel", "beta", "--revision", "7",
                "--verify-program", "true -", "--condition-program", "/bin/true",
            ]) as? PullCommand
        )
        return try command.recipe(shell).0
    }

    @Test("What is said on the command line is what is sent, kept and read again, whole")
    func roundTrip() throws {
        let recipe = try full()
        let bytes = try ControlJSON.encode(recipe)
        #expect(try ControlJSON.decodeRequest(RunRecipe.self, from: bytes) == recipe)
        #expect(try JSONDecoder().decode(RunRecipe.self, from: try JSONEncoder().encode(recipe)) == recipe)
    }

    @Test("Every property is a key of the control API, and every key is a property")
    func keys() throws {
        let bytes = try ControlJSON.encode(try full())
        let sent = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        // What only the settings and the agent say.
        let unsaid: Set = ["stale_seconds", "deadline_seconds", "origin", "origin_run", "settings"]
        let properties = Mirror(reflecting: RunRecipe(manifest: "")).children.count
        #expect(sent.count + unsaid.count == properties)
    }

    @Test("What is not said is not in the text: an older agent takes what it knows")
    func plain() throws {
        let bytes = try ControlJSON.encode(RunRecipe(manifest: "/m.json", destination: "/d"))
        #expect(String(decoding: bytes, as: UTF8.self) == #"{"destination":"/d","manifest":"/m.json"}"#)
    }
}
