import ArgumentParser
import Foundation
import SyncAssembly
import SyncDaemon
import SyncEngine
import SyncModel
import SyncSystem
import SyncTransfer
import Testing

@testable import SyncCommands

@Suite("Settings of a background run", .timeLimit(.minutes(10)))
struct BackgroundSettingsTests {
    func loaded(_ arguments: [String]) throws -> RunSettings {
        let command = try #require(try SyncagentCommand.parseAsRoot(["pull", "m"] + arguments) as? PullCommand)
        return try command.runRecipe(EnvironmentPaths(home: nil) { _ in nil }).1
    }

    func kept(_ settings: RunSettings) throws -> RunRecipe {
        var recipe = RunRecipe(manifest: "/m.json")
        try settings.keep(in: &recipe)
        return recipe
    }

    func resolved(_ recipe: RunRecipe) throws -> TransferSettings {
        let request = EngineRequest(recipe, deadline: .seconds(60), patience: nil, stop: StopRequest())
        return try request.resolved(on: EnvironmentPaths(home: nil) { _ in nil }.host).1.transfer
    }

    @Test("Where HOME is not set, as in a service of the machine, programs and logins find the home all the same")
    func home() {
        let host = EnvironmentPaths(home: "/home/ana") { _ in nil }.host
        #expect(host.variables["HOME"] == "/home/ana")
    }

    @Test("Connections adapt unless somebody said a number, in the background, too")
    func connections() throws {
        let nobody = try loaded([])
        let adaptive = try resolved(kept(nobody))
        #expect(adaptive.connections == nil && adaptive.connectionsPerHost == nil)
        let somebody = try loaded(["--connections", "3"])
        let capped = try resolved(kept(somebody))
        #expect(capped.connections == 3 && capped.connectionsPerHost == 3)
        // A number is a number, also where nothing else is said.
        var recipe = RunRecipe(manifest: "/m.json")
        recipe.settings.connections = 4
        let four = try resolved(recipe)
        #expect(four.connections == 4 && four.connectionsPerHost == 4)
    }

    @Test(
        "Of a run's own limits and those of the agent's file the tightest holds",
        arguments: [
            (#"{limit_rate: 2000, connections: 8}"#, 500, 2, [500, 2, 2]),
            (#"{limit_rate: 2000, connections: 8}"#, 9_000, 12, [2_000, 8, nil]),
            (#"{connections: 8, connections_per_host: 3}"#, nil, 5, [nil, 8, 3]),
            (#"{limit_rate: 2000, connections: 8, connections_per_host: 6}"#, nil, 5, [2_000, 5, 5]),
            (#"{}"#, 500, 2, [500, 2, 2]),
        ] as [(String, UInt64?, Int?, [Int?])])
    func tightest(
        file: String, rate: UInt64?, connections: Int?, expected: [Int?]
    ) throws {
        let root = FileManager.default.temporaryDirectory.appendingPathComponent("tightest-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: root) }
        let directory = root.appendingPathComponent("syncagent")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Data(file.utf8).write(to: directory.appendingPathComponent("config.json"))
        let path = root.path
        let environment = EnvironmentPaths(home: nil) { ["XDG_CONFIG_HOME": path][$0] }
        var recipe = RunRecipe(manifest: "/m.json")
        (recipe.settings.limitRate, recipe.settings.connections) = (rate, connections)
        let request = EngineRequest(recipe, deadline: .seconds(60), patience: nil, stop: StopRequest())
        let found = try request.resolved(on: environment.host).1.transfer
        #expect([found.limitRate.map(Int.init), found.connections, found.connectionsPerHost] == expected)
    }

    @Test("Whatever a run asks for, it gets no more than its share of the agent's connections [S85]")
    func share() throws {
        for (arguments, expected) in [([], (5, 5, 5)), (["--connections", "3"], (3, 3, 3))]
            as [([String], (Int, Int, Int))]
        {
            var request = EngineRequest(
                try kept(loaded(arguments)), deadline: .seconds(60), patience: nil, stop: StopRequest())
            request.connectionShare = 5
            let found = try request.configuration(on: EnvironmentPaths(home: nil) { _ in nil }.host)
            #expect(found.connections == expected.0)
            #expect(found.connectionsPerHost == expected.1)
            #expect(min(found.initialConnections, found.connections) == expected.2)
        }
    }

    @Test("In the background a run is patient without end, unless its client says how long [S51]")
    func patience() throws {
        func found(_ arguments: [String], waiting: Bool = false) throws -> Patience? {
            let request = EngineRequest(
                try kept(loaded(arguments)), deadline: .seconds(60), patience: waiting ? .seconds(30) : nil,
                firstContact: waiting ? .seconds(10) : nil, stop: StopRequest())
            return try request.configuration(on: EnvironmentPaths(home: nil) { _ in nil }.host).patience
        }
        #expect(try found([]) == nil)
        #expect(try found(["--idle-timeout", "5m"]) == nil)
        #expect(try found(["--patience", "20s"]) == Patience(.seconds(20)))
        // While a client waits for the manifest, there is an end to it, and a sooner one before any answer.
        #expect(try found([], waiting: true) == Patience(firstContact: .seconds(10), silence: .seconds(30)))
        #expect(try found(["--patience", "20s"], waiting: true) == Patience(.seconds(20)))
    }

    @Test("What the client said reaches the agent; secrets are refused")
    func keeping() throws {
        let said = try loaded(["--rewrite", "~a b", "--proxy", "p:1", "--tls-min", "1.3", "--header", "@/h"])
        let result = try resolved(kept(said))
        #expect(result.rewrite == ["~a b"] && result.secureProxy?.url == "http://p:1")
        #expect(result.tlsMinimum == .tls13 && result.headers == [.file("/h")])
        let secret = try loaded(["--header", "X-Key: canary"])
        let failure = #expect(throws: SettingsError.self) { try kept(secret) }
        #expect(failure?.description.contains("the header X-Key") == true)
        #expect(failure?.description.contains("canary") == false)
    }

    @Test("A run whose configuration file is gone does not go on without it")
    func missingFile() throws {
        var client = try loaded([])
        client.source = .named("/nonexistent/c.json")
        let agent = EnvironmentPaths(home: nil) { _ in nil }.host
        let failure = #expect(throws: SettingsError.self) { try RunSettings(of: kept(client), agent) }
        #expect(failure?.description == "/nonexistent/c.json: there is no such configuration file")
    }

    @Test("A pull in the foreground leaves its file and settings to an agent, but no secret and no person's patience")
    func foreground() throws {
        var recipe = RunRecipe(manifest: "/m.json")
        recipe.settings.connections = 7
        var client = try loaded(["--tls-min", "1.3", "--patience", "20s", "--connections", "9"])
        client.source = .named("/c.json")
        client.keepForAgent(in: &recipe)
        #expect(recipe.configuration?.file == "/c.json" && recipe.settings.tlsMinimum == .tls13)
        #expect(recipe.settings.patience == nil && recipe.settings.connections == 7, "what a plan assumes stays")
        var secret = try loaded([
            "--header", "X-Key: canary", "--header", "@/h", "--rewrite", "https://a/ https://b/?key=canary",
            "--rewrite", "https://c/ https://d/", "--tls-min", "1.3",
        ])
        secret.source = .named("/d.json")
        secret.transfer.plainProxy = ProxySettings(url: "http://p:1", user: "u")
        secret.transfer.plainProxy?.password = "canary"
        secret.keepForAgent(in: &recipe)
        #expect(recipe.configuration?.file == "/d.json" && recipe.settings.inlineSecrets.isEmpty)
        // The others stay: without them the agent would use a weaker TLS or another server.
        #expect(recipe.settings.headers == [.file("/h")] && recipe.settings.rewrite == ["https://c/ https://d/"])
        #expect(recipe.settings.tlsMinimum == .tls13 && recipe.settings.plainProxy?.url == "http://p:1")
    }

    @Test("A client's own file brings its hooks along; otherwise they are the agent's")
    func hooks() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let file = directory.appendingPathComponent("syncagent/config.json")
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }  // A leftover harms nobody.
        try "{ hooks: { a: { program: '/agent' } } }".write(to: file, atomically: true, encoding: .utf8)
        let agent = EnvironmentPaths(home: nil) { ["XDG_CONFIG_HOME": directory.path][$0] }
        var client = try loaded([])
        client.hooks = ["a": RunHook(group: "", arguments: ["/client", "x"], timeout: 5)]
        client.source = .none
        let whole = try RunSettings(of: kept(client), agent.host)
        #expect(whole.hooks == client.hooks)
        client.source = .usual
        let own = try RunSettings(of: kept(client), agent.host)
        #expect(own.hooks["a"]?.arguments == ["/agent"])
    }
}
