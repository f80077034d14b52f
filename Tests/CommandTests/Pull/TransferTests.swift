import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// A published set on a scripted server.
struct ScriptedSet {
    let scratch: Scratch
    let tool: Tool
    let server: FaultServer
    var manifest: String { server.url("/site/manifest.json") }

    /// Publishes two files in a pack and one loose-sized group; `edit` changes the manifest before it is served.
    init(_ options: FaultServer.Options = .init(), files: [String: Data] = [:], edit: ((String) -> String)? = nil)
        throws
    {
        scratch = try Scratch()
        tool = Tool(scratch)
        server = try FaultServer(options)
        try scratch.write(Data("one".utf8), to: "assets/a.txt")
        try scratch.write(Data("two".utf8), to: "assets/sheets/b.txt")
        for (path, data) in files { try scratch.write(data, to: "assets/\(path)") }
        let outcome = try tool.run([
            "publish", "assets", "--to", "site", "--project", "com.example.tower", "--group", "sheets=sheets/**",
        ])
        try #require(outcome.status == 0, "\(outcome.error)")
        for path in try scratch.contents(of: "site") {
            let file = scratch.url.appendingPathComponent("site/\(path)")
            guard var data = FileManager.default.contents(atPath: file.path) else { continue }
            if path == "manifest.json.zst", edit != nil { continue }
            if path == "manifest.json", let edit { data = Data(edit(String(decoding: data, as: UTF8.self)).utf8) }
            server.serve(ServedObject(Array(data)), at: "/site/\(path)")
        }
    }

    /// Serves everything only in answer to requests that `isAllowed` accepts; others get a 401.
    func demand(_ isAllowed: @escaping @Sendable (ServedRequest) -> Bool) throws {
        for path in try scratch.contents(of: "site") {
            let file = scratch.url.appendingPathComponent("site/\(path)")
            guard let data = FileManager.default.contents(atPath: file.path) else { continue }
            let object = ServedObject(Array(data))
            server.respond(to: "/site/\(path)") { isAllowed($0) ? .object(object) : .status(401) }
        }
    }

    func pull(_ arguments: [String], environment: [String: String] = [:]) throws -> Tool.Outcome {
        try tool.run(["pull", "--into", "tower", "--json"] + arguments, environment: environment)
    }

    /// Writes a file that only its owner may read.
    func secret(_ text: String, to path: String) throws {
        let file = try scratch.write(Data(text.utf8), to: path)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }

    func isPulled() -> Bool {
        let file = scratch.url.appendingPathComponent("tower/sheets/b.txt")
        return FileManager.default.contents(atPath: file.path) == Data("two".utf8)
    }

    /// The redirects and rules that were told, as `hop reason from -> to`.
    func moves(_ outcome: Tool.Outcome) throws -> [String] {
        try outcome.events().filter { $0["event"] as? String == "task.redirected" }.map { event in
            "\(event["hop"] ?? "") \(event["reason"] ?? "") \(event["from"] ?? "") -> \(event["to"] ?? "")"
        }
    }
}

@Suite("Transfers as they are configured", .timeLimit(.minutes(10)))
struct TransferTests {
    @Test("By a clock that is behind, certificates begin later: refused until it is right, and then good [F101]")
    func earlyCertificate() throws {
        let authority = try TestAuthority()
        var options = FaultServer.Options()
        options.tls = ServerTLS(try authority.issue(.notYetValid))
        let set = try ScriptedSet(options)
        try set.scratch.write(Data(authority.certificate.utf8), to: "ca.pem")
        let refused = try set.pull([set.manifest, "--cacert", "ca.pem", "--deadline", "20s"])
        #expect(refused.status == 69 && !set.isPulled(), "\(refused.error)")
        #expect(refused.error.contains("not yet valid"), "\(refused.error)")
        try set.server.changeTLS(ServerTLS(try authority.issue()))
        let outcome = try set.pull([set.manifest, "--cacert", "ca.pem"])
        #expect(outcome.status == 0 && set.isPulled(), "\(outcome.error)")
    }

    @Test(
        "Nothing is trusted but what is said: a private authority by option, file and environment; a client certificate [F055]"
    )
    func privateAuthority() throws {
        let authority = try TestAuthority()
        var options = FaultServer.Options()
        options.tls = ServerTLS(try authority.issue())
        let set = try ScriptedSet(options)
        try set.scratch.write(Data(authority.certificate.utf8), to: "ca.pem")
        try set.scratch.write(Data("{ tls: { ca_file: 'ca.pem', minimum_version: 1.3 } }".utf8), to: "config.json")
        let refused = try set.pull([set.manifest, "--deadline", "20s"])
        #expect(refused.status == 69, "\(refused.error)")
        #expect(refused.error.contains("certificate"), "\(refused.error)")
        for (arguments, variables) in [
            (["--cacert", "ca.pem"], [:]), (["--config", "config.json"], [:]),
            ([], ["SSL_CERT_FILE": set.scratch.path + "/ca.pem"]),
        ] as [([String], [String: String])] {
            // What a run before has brought goes first.
            try? FileManager.default.removeItem(at: set.scratch.url.appendingPathComponent("tower"))
            let outcome = try set.pull([set.manifest] + arguments, environment: variables)
            #expect(outcome.status == 0, "\(arguments): \(outcome.error)")
            #expect(set.isPulled())
        }
        options.tls?.clientAuthority = authority.certificate
        let demanding = try ScriptedSet(options)
        let client = try authority.issue(commonName: "client")
        try demanding.scratch.write(Data(authority.certificate.utf8), to: "ca.pem")
        try demanding.scratch.write(Data(client.certificate.utf8), to: "client.pem")
        try demanding.scratch.write(Data(client.privateKey.utf8), to: "client.key")
        let known = ["--cacert", "ca.pem", "--cert", "client.pem", "--key", "client.key", "--tls-min", "1.3"]
        let shown = try demanding.pull([demanding.manifest] + known)
        #expect(shown.status == 0 && demanding.isPulled(), "\(shown.error)")
        let nobody = try demanding.pull([demanding.manifest, "--cacert", "ca.pem", "--deadline", "5s"])
        #expect(nobody.status == 69, "\(nobody.error)")
        try demanding.scratch.write(Data(try authority.issue().privateKey.utf8), to: "client.key")
        let other = try demanding.pull([demanding.manifest] + known)
        #expect(other.status == 69 && other.error.contains("do --cert and --key name"), "\(other.error)")
        let missing = try set.pull([set.manifest, "--cacert", "gone.pem"])
        #expect(missing.status == 78)
        #expect(missing.error.contains("\(set.scratch.path)/gone.pem: No such file"), "\(missing.error)")
    }

    @Test("Rules of the command line go before those of the file, and each is told")
    func rewriting() throws {
        let set = try ScriptedSet()
        let moved = "http://moved.example/site/manifest.json"
        try set.scratch.write(Data("{ rewrite: ['http://moved.example/ http://wrong.example:9/'] }".utf8), to: "c.json")
        let outcome = try set.pull([
            moved, "--config", "c.json", "--rewrite", "~^http://moved\\.example/(.*) \(set.server.url("/"))$1",
        ])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(set.isPulled())
        let moves = try set.moves(outcome)
        #expect(moves.contains("0 rewrite \(moved).zst -> \(set.manifest).zst"), "\(moves)")
    }

    @Test("Credentials, headers and a proxy's password reach who they are for, and nobody reads them elsewhere [V64]")
    func secrets() throws {
        let set = try ScriptedSet()
        try set.demand {
            $0.header("authorization") == "Basic Y2FuYXJ5OmNhbmFyeS1zZWNyZXQ=" && $0.header("x-key") == "canary-header"
        }
        try set.secret(
            "[\(set.server.url(""))]\ntype = basic\nuser = canary\npassword = canary-secret\n", to: "credentials")
        try set.secret("X-Key: canary-header\n", to: "headers")
        var said = ""
        let without = try set.pull([set.manifest])
        #expect(without.status != 0)
        let with = try set.pull([set.manifest, "--credentials", "credentials", "--header", "@headers"])
        #expect(with.status == 0, "\(with.error)")
        #expect(set.isPulled())
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o644], ofItemAtPath: set.scratch.path + "/credentials")
        let open = try set.pull([set.manifest, "--credentials", "credentials"])
        #expect(open.status == 78)
        #expect(open.error.contains("others may read it; run: chmod 600"), "\(open.error)")
        let broken = try set.pull([set.manifest, "--header", "X-Key canary-header"])
        #expect(broken.status == 64)
        let inline = try set.pull([set.manifest, "--proxy", "http://canary:canary-secret@127.0.0.1:1"])
        #expect(inline.status == 64)
        let environment = try set.pull(
            [set.manifest, "--deadline", "3s"], environment: ["http_proxy": "http://canary:canary-secret@127.0.0.1:1"])
        #expect(environment.status == 69)
        for outcome in [without, with, open, broken, inline, environment] { said += outcome.output + outcome.error }
        #expect(!said.contains("canary-secret") && !said.contains("canary-header"), "\(said)")
        // Neither in what is kept for the next run.
        for path in try set.scratch.contents(of: ".local") {
            let file = set.scratch.url.appendingPathComponent(".local/\(path)")
            guard let data = FileManager.default.contents(atPath: file.path) else { continue }
            #expect(data.range(of: Data("canary".utf8)) == nil, "\(path)")
        }
    }

    @Test("A redirect is told with its hop; one from https to http is refused unless the host is allowed")
    func redirects() throws {
        let authority = try TestAuthority()
        var options = FaultServer.Options()
        options.tls = ServerTLS(try authority.issue())
        let secure = try FaultServer(options)
        let set = try ScriptedSet()
        for path in ["manifest.json", "manifest.json.zst"] {
            secure.script("/\(path)", .redirect(to: set.server.url("/site/\(path)")))
        }
        secure.respondToOthers { [base = set.server.url("/site")] in .redirect(to: base + $0.path) }
        try set.scratch.write(Data(authority.certificate.utf8), to: "ca.pem")
        let manifest = secure.url("/manifest.json")
        let refused = try set.pull([manifest, "--cacert", "ca.pem"])
        #expect(refused.status == 77, "\(refused.error)")
        let allowed = try set.pull([manifest, "--cacert", "ca.pem", "--allow-redirect-downgrade", "127.0.0.1"])
        #expect(allowed.status == 0, "\(allowed.error)")
        #expect(set.isPulled())
        #expect(try set.moves(allowed).first == "1 redirect \(manifest).zst -> \(set.manifest).zst")
        let none = try set.pull([
            manifest, "--cacert", "ca.pem", "--allow-redirect-downgrade", "all", "--max-redirects", "0",
        ])
        #expect(none.status == 77, "\(none.error)")
    }

    @Test("A pack that becomes another one half-way costs bytes, and no wrong byte is shown [F019]")
    func changedPack() throws {
        let data = Data(patternedBytes(size: 3_000_000, seed: 7))
        let set = try ScriptedSet(files: ["big.bin": data])
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let path = "/site/packs/\(pack)"
        let right = try #require(FileManager.default.contents(atPath: set.scratch.path + path))
        var wrong = ServedObject(patternedBytes(size: right.count, seed: 8))
        wrong.etag = "\"wrong\""
        let (good, bad) = (ServedObject(Array(right)), wrong)
        set.server.respond(to: path) { request in
            // The first span, the first time; later it is asked for past caches.
            let isFirst =
                request.header("range")?.hasPrefix("bytes=0-") == true && request.header("cache-control") == nil
            return isFirst ? .object(bad).dropping(at: 500_000) : .object(good)
        }
        let outcome = try set.pull([set.manifest])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(FileManager.default.contents(atPath: set.scratch.path + "/tower/big.bin") == data)
        #expect(set.isPulled())
        let ranges = set.server.log.requests(to: path).map { entry in
            [entry.request.header("range") ?? "", entry.request.header("if-range") ?? ""]
        }
        #expect(ranges.contains { $0[1] == "\"wrong\"" }, "\(ranges)")
    }

    @Test(
        "Each stretch of wrong bytes is blamed on who sent it, not on who came before or after [S128 F043]",
        arguments: [false, true])
    func liar(isFirst: Bool) throws {
        var files: [String: Data] = [:]
        for number in 0..<12 { files["f\(number).bin"] = Data(patternedBytes(size: 50_000, seed: UInt64(number + 1))) }
        let set = try ScriptedSet(files: files) { text in
            guard let start = text.range(of: "\"url\":\"packs/"),
                let end = text[start.upperBound...].firstIndex(of: "\"")
            else { return text }
            let pack = text[start.upperBound..<end]
            let urls = (isFirst ? ["liar", "honest"] : ["honest", "liar"]).map { "\"\($0)/\(pack)\"" }
            return text.replacingCharacters(
                in: start.lowerBound...end, with: "\"urls\":[\(urls.joined(separator: ","))]")
        }
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        let right = try #require(FileManager.default.contents(atPath: set.scratch.path + "/site/packs/\(pack)"))
        let (liar, honest) = ("/site/liar/\(pack)", "/site/honest/\(pack)")
        let good = FaultAnswer.object(ServedObject(Array(right)))
        // It breaks off behind the byte that is wrong, and has nothing more to say.
        set.server.script(liar, good.flippingByte(at: 20_000).dropping(at: 300_000), .status(404))
        // The other is asked before it and has nothing yet, or goes on behind it.
        set.server.script(honest, isFirst ? good : .status(404), good)
        let outcome = try set.pull([set.manifest])
        let sources = try outcome.events().filter { $0["event"] as? String == "source.wrong_bytes" }.compactMap {
            $0["source"] as? String
        }
        #expect(Set(sources) == [set.server.url(liar)], "\(sources) \(outcome.error)")
        guard isFirst else { return }
        #expect(outcome.status == 0 && set.isPulled(), "\(outcome.error)")
        #expect(set.server.log.requests(to: liar).count == 2, "asked again only after the honest one")
    }

    @Test("plan --explain tells rules, credentials and redirects of each place, and fetches one byte of each [S130]")
    func explain() throws {
        let set = try ScriptedSet { text in
            text.replacingOccurrences(of: "\"url\":\"packs/", with: "\"url\":\"http://packs.example/packs/")
        }
        let pack = try #require(try set.scratch.contents(of: "site/packs").first)
        set.server.script("/old/\(pack)", .redirect(to: "/hop?sig=canary"))
        set.server.script("/hop", .redirect(to: set.server.localhostURL("/site/packs/\(pack)"), status: 307))
        try set.secret("[\(set.server.url(""))]\ntype = bearer\ntoken = canary-secret\n", to: "credentials")
        let arguments = [
            "plan", set.manifest, "--explain", "--credentials", "credentials", "--rewrite",
            "http://packs.example/packs/ \(set.server.url("/old/"))",
        ]
        let outcome = try set.tool.run(arguments)
        #expect(outcome.status == 0, "\(outcome.error)")
        let place = """
            from       http://packs.example/packs/: 1 object, 1 request
              rule 1   http://packs.example/packs/, so requests go to \(set.server.url("/old/\(pack)"))
              as       bearer credentials
              through  no proxy
              302      \(set.server.url("/old/\(pack)")) -> \(set.server.url("/hop"))?…
              307      \(set.server.url("/hop"))?… -> \(set.server.localhostURL("/site/packs/\(pack)"))
              answer   206, ranges work (3 requests sent to find out)
            """
        #expect(outcome.output.contains(place), "\(outcome.output)")
        #expect(set.server.log.requests(to: "/site/packs/\(pack)").map { $0.request.header("range") } == ["bytes=0-0"])
        let json = try set.tool.run(arguments + ["--json"])
        let route = try #require(try json.events().first { $0["event"] as? String == "plan.route" })
        #expect(route["prefix"] as? String == "http://packs.example/packs/")
        #expect(route["rule"] as? Int == 1 && route["credentials"] as? String == "bearer")
        let hops = try #require(route["hops"] as? [[String: Any]])
        #expect(hops.map { $0["reason"] as? String } == ["rewrite", "redirect", "redirect"])
        #expect(!(outcome.output + outcome.error + json.output + json.error).contains("canary"))
        let silent = try set.tool.run([
            "plan", set.manifest, "--explain", "--proxy", "http://127.0.0.1:9", "--noproxy", "127.0.0.1",
        ])
        #expect(
            silent.status == 0 && silent.output.contains("through  the proxy http://127.0.0.1:9"), "\(silent.output)")
    }

    @Test("plan --explain says of a place whose URL is none that it is skipped")
    func explainNoURL() throws {
        let set = try ScriptedSet { text in
            text.replacingOccurrences(of: "\"url\":\"packs/", with: "\"url\":\"http://[bad/packs/")
        }
        let plan = ["plan", set.manifest, "--explain"]
        let outcome = try set.tool.run(plan)
        #expect(outcome.output.contains("\n  skipped  this is not a URL"), "\(outcome.output)\(outcome.error)")
        let route = try #require(
            try set.tool.run(plan + ["--json"]).events().first { $0["event"] as? String == "plan.route" })
        #expect(route["skipped"] as? Bool == true && route["plugin"] == nil, "\(route)")
    }

    @Test(
        "A proxy from the file, with its password in a file; exceptions and the environment as in curl [F054]",
        .enabled(if: ChildProgram.find("tinyproxy") != nil, "SKIPPED: no tinyproxy"))
    func proxy() async throws {
        let set = try ScriptedSet()
        let port = try freePort()
        try set.scratch.write(
            Data("Port \(port)\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nBasicAuth someone canary\n".utf8),
            to: "tinyproxy.conf")
        let program = try ChildProgram(
            try #require(ChildProgram.find("tinyproxy")), ["-d", "-c", set.scratch.path + "/tinyproxy.conf"],
            output: set.scratch.path + "/tinyproxy.log")
        defer { program.stop() }
        let client = HTTPClient(port: port)
        while program.isRunning, (try? client.send("GET", "/")) == nil { try await Task.sleep(for: .milliseconds(20)) }
        try #require(program.isRunning, "\(program.output)")
        try set.secret("canary\n", to: "password")
        try set.scratch.write(
            Data("{ proxy: { url: '127.0.0.1:\(port)', user: 'someone', password_file: 'password' } }".utf8),
            to: "config.json")
        func viaProxy() -> Int { set.server.log.values(of: "via").count }
        let first = try set.pull([set.manifest, "--config", "config.json"])
        #expect(first.status == 0, "\(first.error)")
        let proxied = viaProxy()
        #expect(proxied > 0 && proxied == set.server.log.requestCount)

        // The environment: a proxy with user and password in its URL, and an exception to it.
        let variables = ["http_proxy": "http://someone:canary@127.0.0.1:\(port)"]
        let second = try set.pull([set.manifest], environment: variables)
        #expect(second.status == 0, "\(second.error)")
        #expect(viaProxy() == proxied + 1)
        let third = try set.pull([set.manifest], environment: variables.merging(["NO_PROXY": "*"]) { $1 })
        #expect(third.status == 0 && viaProxy() == proxied + 1)
        let fourth = try set.pull([set.manifest, "--proxy", ""], environment: variables)
        #expect(fourth.status == 0 && viaProxy() == proxied + 1)
        let wrong = try set.pull([set.manifest, "--proxy", "127.0.0.1:\(port)", "--deadline", "5s"])
        #expect(wrong.status != 0, "without the password the proxy does nothing")
        for outcome in [first, second, third, fourth, wrong] {
            #expect(!(outcome.output + outcome.error).contains("canary"))
        }
    }

    @Test("A manifest names hooks, the configuration says what they are; an unknown one is a warning [V55]")
    func namedHooks() throws {
        let set = try ScriptedSet { text in
            text.replacingOccurrences(
                of: "\"name\":\"sheets\"", with: "\"name\":\"sheets\",\"hooks\":[\"reindex\",\"nobody\"]")
        }
        let script = try set.scratch.write(
            Data("#!/bin/sh\necho \"$1 $SYNCAGENT_GROUP $SYNCAGENT_RESULT\" >> ../ran\n".utf8), to: "hook.sh")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: script.path)
        try set.scratch.write(
            Data("{ hooks: { reindex: { program: '\(script.path)', arguments: ['fast'], timeout: '30s' } } }".utf8),
            to: ".config/syncagent/config.json")
        let outcome = try set.tool.run(["pull", set.manifest, "--into", "tower"])
        #expect(outcome.status == 0, "\(outcome.error)")
        let ran = try String(contentsOf: set.scratch.url.appendingPathComponent("ran"), encoding: .utf8)
        #expect(ran == "fast sheets ok\n")
        let warnings = outcome.error.split(separator: "\n").filter { $0.contains("nobody") }
        #expect(warnings.count == 1)
        #expect(warnings.first?.contains("warning: the manifest's group 'sheets' names the hook 'nobody'") == true)
        let again = try set.tool.run(["pull", set.manifest, "--into", "tower"])
        #expect(again.status == 0, "\(again.error)")
        let both = try String(contentsOf: set.scratch.url.appendingPathComponent("ran"), encoding: .utf8)
        #expect(both == "fast sheets ok\nfast sheets ok\n", "also when nothing changed")
        let other = try set.tool.run(["pull", set.manifest, "--into", "other", "--no-config"])
        #expect(other.status == 0 && other.error.contains("'reindex'"), "\(other.error)")
    }

    /// A port that was free a moment ago.
    private func freePort() throws -> UInt16 {
        let server = try FaultServer()
        defer { server.stop() }
        return server.port
    }
}
