import Foundation
import SyncModel
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@testable import SyncAssembly

@Suite("Who may read what holds secrets", .timeLimit(.minutes(10)))
struct FileAccessTests {
    let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    func write(_ text: String, to name: String, mode: Int) throws -> String {
        try root.write(text, to: name)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: root.path(name))
        return root.path(name)
    }

    func message(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch { return "\(error)" }
    }

    @Test(
        "A file with a secret in it is its owner's alone",
        arguments: [
            ("{headers: ['Authorization: Bearer canary']}", "it holds the header Authorization"),
            ("{rewrite: ['http://a/ http://b/?sig=canary']}", "it holds rewriting rule 1"),
        ])
    func secrets(text: String, what: String) throws {
        let path = try write(text, to: "config.json", mode: 0o644)
        #expect(
            message { _ = try ConfigurationFile.read(path, home: nil) }
                == "\(path): \(what), and others may read it; run: chmod 600 \(path)")
        _ = try write(text, to: "config.json", mode: 0o600)
        #expect(try ConfigurationFile.read(path, home: nil) != nil)
    }

    @Test("Without a secret anyone may read it; nobody else may write to it or to its directory")
    func hooks() throws {
        let path = try write("{headers: ['Accept: */*'], hooks: {a: {program: '/b'}}}", to: "c", mode: 0o644)
        #expect(try ConfigurationFile.read(path, home: nil)?.hooks.count == 1)
        _ = try write("{}", to: "c", mode: 0o666)
        #expect(
            message { _ = try ConfigurationFile.read(path, home: nil) }
                == "\(path): others may write to it; run: chmod go-w \(path)")
        _ = try write("{}", to: "c", mode: 0o644)
        #expect(chmod(root.path, 0o775) == 0)
        #expect(
            message { _ = try ConfigurationFile.read(path, home: nil) }
                == "\(path): its directory \(root.path): others may write to it; run: chmod go-w \(root.path)")
    }

    @Test("The machine's configuration counts where the user's says nothing; a file that is named stands alone")
    func machine() throws {
        let machine = try write(
            """
            {connections: 3, limit_rate: '1M', rewrite: ['http://a/ http://b/'], max_delete: 5, trust: {unsigned: 'refuse',
             pins: {tower: 'SHA256:\(String(repeating: "1", count: 64))', bridge: '/machine.root'}},
             hooks: {index: {program: '/machine'}, mail: {program: '/mail'}}, metrics: {textfile: '/m.prom'},
             plugins: {use: [{plugin: 'low', point: 'verifier'}]}}
            """, to: "machine.json", mode: 0o644)
        let own = try write(
            """
            {connections: 7, rewrite: ['http://c/ http://d/'], trust: {pins: {bridge: '/own.root'}},
             hooks: {index: {program: '/own'}}, plugins: {use: [{plugin: 'high', point: 'verifier'}]}}
            """, to: "own.json", mode: 0o644)
        let both = try ConfigurationFile.usual([own, machine], home: nil)
        #expect(both.transfer.connections == 7)
        #expect(both.transfer.limitRate == 1 << 20)
        #expect(both.transfer.rewrite == ["http://c/ http://d/", "http://a/ http://b/"])
        #expect(both.maxDelete == 5)
        #expect(both.unsigned == .refuse)
        #expect(both.pins["bridge"] == "/own.root" && both.pins["tower"] != nil)
        #expect(both.hooks["index"]?.arguments == ["/own"] && both.hooks["mail"] != nil)
        #expect(both.metricsFile == "/m.prom")
        #expect(both.plugins.uses.map(\.plugin) == ["high", "low"])

        var environment = HostEnvironment(base: PathBase(directory: "/", home: nil), variables: [:])
        environment.files = [root.path("none"), machine]
        #expect(try RunSettings(TransferSettings(), .usual, environment).transfer.connections == 3)
        let named = try RunSettings(TransferSettings(), .named(own), environment)
        #expect(named.transfer.connections == 7 && named.transfer.limitRate == nil)
        #expect(try RunSettings(TransferSettings(), .none, environment).transfer.connections == nil)
    }

    @Test("A file that is not there is none; one that is no file, or too long, is refused")
    func others() throws {
        #expect(try ConfigurationFile.read(root.path("none"), home: nil) == nil)
        #expect(
            message { _ = try ConfigurationFile.read(root.path, home: nil) } == "\(root.path): it is not a regular file"
        )
        let long = try write(String(repeating: " ", count: (1 << 20) + 1), to: "long", mode: 0o600)
        #expect(
            message { _ = try ConfigurationFile.read(long, home: nil) }
                == "\(long): it has 1.00 MiB, above the limit of 1.00 MiB")
        #expect(mkfifo(root.path("fifo"), 0o600) == 0)
        let fifo = root.path("fifo")
        #expect(message { _ = try ConfigurationFile.read(fifo, home: nil) } == "\(fifo): it is not a regular file")
    }

    @Test("Files with a password, headers or credentials are read when they are needed, and are their owner's alone")
    func files() throws {
        var settings = TransferSettings()
        settings.setProxy(ProxySettings(url: "http://p:1", user: "u"))
        settings.plainProxy?.passwordFile = try write("canary\n", to: "password", mode: 0o640)
        var configuration = configuration()
        #expect(
            message { try settings.apply(to: &configuration) }
                == "the proxy's password file \(root.path("password")): others may read it; run: chmod 600 \(root.path("password"))"
        )
        _ = try write("\n", to: "password", mode: 0o600)
        #expect(
            message { try settings.apply(to: &configuration) }
                == "\(root.path("password")): the first line is empty; the proxy's password belongs there")
        _ = try write("canary\r\nmore\n", to: "password", mode: 0o600)
        try settings.apply(to: &configuration)
        #expect(configuration.plainProxy?.password == "canary")

        settings.headers = [.file(try write("X-A: canary\n\nbroken canary\n", to: "headers", mode: 0o600))]
        #expect(
            message { try settings.apply(to: &configuration) } == "\(root.path("headers")):3: write it as Name: value")
        _ = try write("X-A: canary\nX-B: 2\n", to: "headers", mode: 0o600)
        try settings.apply(to: &configuration)
        #expect(configuration.headers == ["X-A: canary", "X-B: 2"])

        settings.credentialsFile = try write("[http://p:1]\ntype = basic\nuser = v\n", to: "cred", mode: 0o600)
        #expect(
            message { try settings.apply(to: &configuration) }
                == "\(root.path("cred")): line 1: http://p:1 lacks password")
        settings.credentialsFile = root.path("gone")
        #expect(
            message { try settings.apply(to: &configuration) }
                == "the credentials file \(root.path("gone")): No such file or directory")
    }

    @Test("A FIFO or a monster in the place of a secret ends at once, with its name [F099]")
    func otherKinds() throws {
        let fifo = root.path("fifo")
        #expect(mkfifo(fifo, 0o600) == 0)
        let monster = try write("", to: "monster", mode: 0o600)
        #expect(truncate(monster, 1 << 40) == 0)
        for (path, reason) in [(fifo, "it is not a regular file"), (monster, "it has 1.00 TiB, above the limit")] {
            for place in 0..<3 {
                var settings = TransferSettings()
                if place == 0 { settings.credentialsFile = path }
                if place == 1 { settings.headers = [.file(path)] }
                if place == 2 {
                    settings.setProxy(ProxySettings(url: "http://p:1", user: "u"))
                    settings.plainProxy?.passwordFile = path
                }
                var configuration = configuration()
                let said = message { try settings.apply(to: &configuration) }
                #expect(said?.contains("file \(path): \(reason)") == true, "\(said ?? "nothing")")
            }
        }
    }

    @Test("A proxy without a user of its own is who the credentials file says for its origin")
    func proxyCredentials() throws {
        var settings = TransferSettings()
        settings.setProxy(ProxySettings(url: "http://p:1"))
        settings.credentialsFile = try write(
            "[http://p:1]\ntype = basic\nuser = v\npassword = w\n", to: "cred", mode: 0o600)
        var configuration = configuration()
        try settings.apply(to: &configuration)
        #expect(configuration.proxy?.user == "v" && configuration.proxy?.password == "w")
    }

    func configuration() -> TransportConfiguration {
        TransportConfiguration(clock: TransportClock(now: { .zero }, unixTime: { 0 }), random: { 0 })
    }
}
