import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

@Suite("Where a manifest may send a pull", .timeLimit(.minutes(10)))
struct NamedSourceTests {
    @Test(
        "What a public manifest names at a private address is not asked; a host can be allowed [V29]",
        arguments: ["http://169.254.169.254/", "http://localhost:1/", "http://[::ffff:10.0.0.1]/"])
    func privateTargets(
        place: String
    ) throws {
        let set = try ScriptedSet { $0.replacing("\"url\":\"packs/", with: "\"url\":\"\(place)packs/") }
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let object = ServedObject(
            Array(try #require(FileManager.default.contents(atPath: "\(set.scratch.path)/site/packs/\(pack)"))))
        // The server is the proxy of both names.
        set.server.respond(to: "/packs/\(pack)") { _ in .object(object) }
        let arguments = ["http://files.example/site/manifest.json", "--proxy", set.server.url("")]
        let refused = try set.pull(arguments)
        #expect(refused.status == 77, "\(refused.output)\(refused.error)")
        #expect(refused.output.contains("private address"))
        #expect(set.server.log.requests(to: "/packs/\(pack)").isEmpty)
        let plan = try set.tool.run(["plan", "--explain"] + arguments)
        #expect(plan.output.contains("private address"), "\(plan.output)")
        #expect(set.server.log.requests(to: "/packs/\(pack)").isEmpty)

        let host = try #require(URL(string: place)?.host)
        let allowed = try set.pull(arguments + ["--allow-private-redirect", host])
        #expect(allowed.status == 0 && set.isPulled(), "\(allowed.error)")
        let ruled = try set.pull(
            arguments + ["--into", "other", "--session", "other", "--rewrite", "\(place)packs/ http://10.1.1.1/packs/"])
        #expect(ruled.status == 0, "\(ruled.error)")
        // A manifest of this machine names what it likes.
        let text = try String(contentsOfFile: set.scratch.path + "/site/manifest.json", encoding: .utf8)
        try set.scratch.write(
            Data(text.replacing("\"url\":\"packs/", with: "\"url\":\"\(place)packs/").utf8), to: "alone/manifest.json")
        let local = try set.pull([
            "alone/manifest.json", "--into", "third", "--session", "third", "--proxy", set.server.url(""),
        ])
        #expect(local.status == 0, "\(local.error)")
    }

    @Test("An https manifest that names http is refused unless the host is allowed [V25]")
    func namedDowngrade() throws {
        let authority = try TestAuthority()
        var options = FaultServer.Options()
        options.tls = ServerTLS(try authority.issue())
        let plain = try FaultServer()
        let set = try ScriptedSet(options) { [url = plain.url("/")] in
            $0.replacing("\"url\":\"packs/", with: "\"url\":\"\(url)packs/")
        }
        for pack in try set.scratch.contents(of: "site/packs") {
            let bytes = FileManager.default.contents(atPath: "\(set.scratch.path)/site/packs/\(pack)")
            plain.serve(ServedObject(Array(try #require(bytes))), at: "/packs/\(pack)")
        }
        try set.scratch.write(Data(authority.certificate.utf8), to: "ca.pem")
        let refused = try set.pull([set.manifest, "--cacert", "ca.pem"])
        #expect(refused.status == 77 && plain.log.requestCount == 0, "\(refused.error)")
        #expect(refused.output.contains("--allow-redirect-downgrade"))
        let allowed = try set.pull([set.manifest, "--cacert", "ca.pem", "--allow-redirect-downgrade", "127.0.0.1"])
        #expect(allowed.status == 0 && set.isPulled(), "\(allowed.error)")
    }

    @Test(
        "A set below a directory with characters that mean something in URLs is pulled where it lies",
        arguments: ["set #2", "set?x=1", "%41", "a b", "Länge", "a;b&c=d+e@f:g[h]"])
    func localSet(name: String) throws {
        let set = try ScriptedSet()
        let place = "\(set.scratch.path)/data/\(name)"
        try FileManager.default.createDirectory(atPath: "\(set.scratch.path)/data", withIntermediateDirectories: true)
        try FileManager.default.moveItem(atPath: set.scratch.path + "/site", toPath: place)
        for manifest in [place + "/manifest.json", "data/\(name)/manifest.json.zst"] {
            try? FileManager.default.removeItem(atPath: set.scratch.path + "/tower")
            let outcome = try set.pull([manifest])
            #expect(outcome.status == 0 && set.isPulled(), "\(outcome.output)\(outcome.error)")
        }
    }

    @Test("A FIFO or a device in the place of a local pack is no pack, and nobody waits for it")
    func localFIFO() throws {
        let set = try ScriptedSet()
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let path = "\(set.scratch.path)/site/packs/\(pack)"
        try FileManager.default.removeItem(atPath: path)
        try #require(mkfifo(path, 0o600) == 0)
        let outcome = try set.pull(["site/manifest.json"])
        #expect(outcome.status == 2 && outcome.output.contains("not a regular file"), "\(outcome.output)")
    }

    @Test("A webhook that is told events is reached through the proxy of the configuration")
    func observerProxy() throws {
        let set = try ScriptedSet()
        set.server.respond(to: "/hook") { _ in .status(204) }
        try set.secret(
            """
            { proxy: { url: '\(set.server.url(""))' }, plugins: { use: [
              { plugin: 'webhook', point: 'observer', events: ['pull.finished'],
                settings: { url: 'http://hooks.example/hook' } },
            ] } }
            """, to: ".config/syncagent/config.json")
        let outcome = try set.pull([set.manifest])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(set.server.log.requests(to: "/hook").map(\.request.target) == ["http://hooks.example/hook"])
    }
}
