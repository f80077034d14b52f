import ArgumentParser
import Foundation
import SyncModel
import SyncSystem
import SyncTransfer
import Testing

@testable import SyncAssembly
@testable import SyncCommands

@Suite("Transfer options", .timeLimit(.minutes(10)))
struct TransferOptionTests {
    func settings(_ arguments: [String], _ variables: [String: String] = [:]) throws -> RunSettings {
        let command = try #require(try SyncagentCommand.parseAsRoot(["pull", "m"] + arguments) as? PullCommand)
        let environment = EnvironmentPaths(home: nil) { variables[$0] }
        return try command.runRecipe(environment).1
    }

    @Test("Every option reaches the settings")
    func everyOption() throws {
        let here = FileManager.default.currentDirectoryPath
        let said = try settings([
            "--no-config", "--rewrite", "~a b", "--rewrite", "~c d", "--credentials", "cred", "--header", "X: 1",
            "--header", "@h", "--proxy", "p:3128", "--noproxy", "a,.b", "--cacert", "/ca", "--cert", "c", "--key", "k",
            "--tls-min", "1.3", "--http2", "whole", "--allow-redirect-downgrade", "A", "--allow-redirect-downgrade",
            "b", "--allow-private-redirect", "all", "--connect-timeout", "5s", "--idle-timeout", "2m", "--speed-limit",
            "4K", "--speed-time", "30s", "--max-redirects", "0", "--connections", "8", "--limit-rate", "1K",
            "--deadline", "1h", "--patience", "20s",
        ]).said
        var wanted = TransferSettings()
        wanted.rewrite = ["~a b", "~c d"]
        wanted.credentialsFile = "\(here)/cred"
        wanted.headers = [.line("X: 1"), .file("\(here)/h")]
        wanted.setProxy(ProxySettings(url: "http://p:3128"))
        wanted.proxyExceptions = ["a", ".b"]
        wanted.authorities = "/ca"
        wanted.certificate = "\(here)/c"
        wanted.certificateKey = "\(here)/k"
        wanted.tlsMinimum = .tls13
        wanted.http2 = .wholeObjects
        wanted.downgrade = .hosts(["a", "b"])
        wanted.privateTargets = .all
        wanted.connectTimeout = .seconds(5)
        wanted.idleTimeout = .seconds(120)
        wanted.speedLimit = 4096
        wanted.speedTime = .seconds(30)
        wanted.redirectLimit = 0
        wanted.connections = 8
        wanted.connectionsPerHost = 8
        wanted.limitRate = 1024
        wanted.deadline = .seconds(3600)
        wanted.patience = .seconds(20)
        #expect(said == wanted)
    }

    @Test(
        "Refused with 64, naming the option and no secret [S83]",
        arguments: [
            (["--rewrite", "a"], "--rewrite"), (["--rewrite", "~( http://b/?canary"], "--rewrite"),
            (["--header", "canary"], "--header: write it as Name: value."),
            (["--header", "Range: canary"], "--header: Range is set by syncagent itself; leave it out."),
            (["--header", "@"], "--header: a path is expected"),
            (["--proxy", "http://u:canary@p:1"], "--proxy: a proxy's user and password do not go into its URL"),
            (["--proxy", "ftp://p"], "--proxy: the scheme of a proxy"), (["--tls-min", "1.1"], "--tls-min"),
            (["--http2", "yes"], "--http2"), (["--key", "k"], "--key needs --cert"),
            (["--max-redirects", "51"], "--max-redirects takes 0 to 50, not 51."),
            (["--allow-private-redirect", "http://h"], "--allow-private-redirect: 'http://h' is not a host"),
            (["--allow-redirect-downgrade", ""], "--allow-redirect-downgrade"),
            (["--connect-timeout", "0"], "--connect-timeout"), (["--idle-timeout", "soon"], "--idle-timeout"),
            (["--speed-limit", "slow"], "--speed-limit"), (["--speed-time", "0"], "--speed-time"),
            (["--config", "c", "--no-config"], "--config and --no-config are mutually exclusive."),
            (["--credentials", ""], "--credentials: a path is expected, not an empty string."),
        ])
    func refused(arguments: [String], message: String) {
        for verb in ["pull", "plan", "verify"] {
            let error = #expect(throws: (any Error).self) { try SyncagentCommand.parseAsRoot([verb, "m"] + arguments) }
            guard let error else { continue }
            #expect(SyncagentCommand.exitCode(for: error).rawValue == ExitStatus.usage.rawValue)
            let text = SyncagentCommand.fullMessage(for: error)
            #expect(text.contains(message), "\(text)")
            #expect(!text.contains("canary"), "\(text)")
        }
    }

    @Test("The command line goes before the file, the file before the environment")
    func precedence() throws {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let file = directory.appendingPathComponent("syncagent/config.json")
        try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }  // A leftover harms nobody.
        let text = """
            { connections: 32, idle_timeout: "5s", connect_timeout: "6s", rewrite: ["~c d"], proxy: { url: "file:1" },
              hooks: { a: { program: "/a" } } }
            """
        try text.write(to: file, atomically: true, encoding: .utf8)
        let variables = [
            "XDG_CONFIG_HOME": directory.path, "https_proxy": "environment:1", "SSL_CERT_FILE": "/env-ca",
            "no_proxy": "*",
        ]
        let loaded = try settings(["--idle-timeout", "7s", "--rewrite", "~a b"], variables)
        #expect(loaded.transfer.idleTimeout == .seconds(7) && loaded.transfer.connectTimeout == .seconds(6))
        #expect(loaded.transfer.rewrite == ["~a b", "~c d"])
        #expect(loaded.transfer.secureProxy?.url == "http://file:1")
        #expect(loaded.transfer.proxyExceptions == ["*"] && loaded.transfer.authorities == "/env-ca")
        #expect(loaded.hooks.keys.sorted() == ["a"])
        #expect(loaded.said.connectTimeout == nil, "what is kept for a background run is the command line's")

        let none = try settings(["--no-config"], variables)
        #expect(none.transfer.secureProxy?.url == "http://environment:1" && none.hooks.isEmpty)
        let other = #expect(throws: (any Error).self) { try settings(["--config", "/no/such.json"], variables) }.flatMap
        { CommandFailure($0) }
        #expect(other?.status == .configuration)
        #expect(other?.message == "/no/such.json: there is no such configuration file")
        try "{ conections: 1 }".write(to: file, atomically: true, encoding: .utf8)
        let misspelt = #expect(throws: (any Error).self) { try settings([], variables) }.flatMap { CommandFailure($0) }
        #expect(misspelt?.status == .configuration)
        #expect(misspelt?.message == "\(file.path):1: conections: no such key; did you mean “connections”?")
    }

    @Test("Headers and the client's certificate are for the manifest's origin")
    func home() throws {
        func home(_ manifest: String) throws -> Origin? {
            EngineRequest(RunRecipe(manifest: manifest), try settings([])).home
        }
        #expect(try home("https://cdn.example:8443/m.json") == Origin(scheme: "https", host: "cdn.example", port: 8443))
        #expect(try home("./m.json") == nil)
    }

    @Test("The help has the options under headings of their own")
    func help() {
        let text = SyncagentCommand.helpMessage(for: PullCommand.self)
        let transfer = text.range(of: "TRANSFER:")
        #expect(transfer != nil && text.components(separatedBy: "TRANSFER:").count == 2)
        for name in ["--connections", "--rewrite", "--cacert"] {
            #expect(text.range(of: name).map { $0.lowerBound > text.startIndex } == true)
        }
        #expect(text.contains("HOOKS:"))
    }
}
