import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

private let examples = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Examples/plugins")

private let hasPython = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

extension Scratch {
    private static let plugins = ".config/syncagent/plugins/syncagent-plugin-"

    /// Puts a program into the plugin directory.
    fileprivate func plugin(_ name: String, _ text: String, mode: Int = 0o755) throws {
        let file = try write(Data(text.utf8), to: Self.plugins + name)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
    }

    /// What a file says; `nil` where there is none.
    fileprivate func text(_ name: String) -> String? {
        FileManager.default.contents(atPath: "\(path)/\(name)").map { String(decoding: $0, as: UTF8.self) }
    }

    /// Puts an example into the plugin directory.
    fileprivate func example(_ name: String) throws {
        let file = examples.appendingPathComponent("syncagent-plugin-\(name)")
        try plugin(name, try String(contentsOf: file, encoding: .utf8))
    }
}

/// A transport that reads `store:///PATH` below its setting `root`.
private let storePlugin = """
    #!/usr/bin/python3
    import json, os, sys, urllib.parse
    def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "initialize":
            settings = message["params"].get("settings") or {}
            send({"id": message["id"], "result": {"protocol": 1, "name": "store", "version": "1", "points": ["transport"]}})
        elif message["method"] == "transport.fetch":
            wanted = message["params"]
            try:
                data = open(settings["root"] + urllib.parse.urlsplit(wanted["url"]).path, "rb").read()
            except OSError as error:
                send({"id": message["id"], "error": {"code": 1, "message": error.strerror,
                                                     "data": {"code": "status-404", "requests": 1}}})
                continue
            span = wanted.get("range")
            head = {"id": message["id"], "status": 206 if span else 200, "object_size": len(data)}
            if span: head["offset"] = span[0]
            send({"method": "transport.head", "params": head})
            with open(wanted["into"], "wb") as pipe: pipe.write(data[span[0]:span[1]] if span else data)
            send({"id": message["id"], "result": {"requests": 1}})
        elif message["method"] == "shutdown":
            send({"id": message["id"], "result": None})
            break
    """

@Suite(.timeLimit(.minutes(10)))
struct PluginsCommandTests {
    @Test("Without programs, plugins list has the built-ins of every point that has one")
    func builtIns() throws {
        let scratch = try Scratch()
        let outcome = try Tool(scratch).run(["plugins", "list", "--json"])
        #expect(outcome.status == 0, "\(outcome.error)")
        let points = try outcome.objects().flatMap { $0["points"] as? [String] ?? [] }
        #expect(
            Set(points) == [
                "transport", "resolver", "credential", "condition", "verifier", "hook", "observer", "source",
            ],
            "\(points)")
        #expect(try outcome.objects().allSatisfy { $0["built_in"] as? Bool == true })
        let text = try Tool(scratch).run(["plugins", "list"])
        #expect(text.error.contains("No programs in \(scratch.path)/.config/syncagent/plugins"))
        #expect(text.output.contains("metered"))
    }

    @Test("Programs are listed with what they say of themselves, those that cannot be used with the reason [V55]")
    func programs() throws {
        let scratch = try Scratch()
        try scratch.example("template-sh")
        try scratch.plugin("dead", "#!/bin/sh\nexit 3\n")
        try scratch.plugin("open", "#!/bin/sh\n", mode: 0o777)
        let later = #"'{"jsonrpc":"2.0","id":%s,"result":{"protocol":2,"name":"later","points":[]}}\n'"#
        let cut = #"id=${line#*'"id":'}; id=${id%%,*}"#
        try scratch.plugin("later", "#!/bin/sh\nread -r line\n\(cut)\nprintf \(later) $id\nread -r line\n")
        let rows = try Tool(scratch).run(["plugins", "list", "--json"]).objects()
        func row(_ name: String) -> [String: Any] { rows.first { $0["name"] as? String == name } ?? [:] }
        #expect(row("template-sh")["points"] as? [String] == ["condition"])
        #expect(row("template-sh")["protocol"] as? Int == 1)
        #expect((row("dead")["fault"] as? String)?.contains("status 3") == true, "\(row("dead"))")
        #expect((row("open")["fault"] as? String)?.contains("chmod go-w") == true, "\(row("open"))")
        #expect((row("later")["fault"] as? String)?.contains("update syncagent") == true, "\(row("later"))")
    }

    @Test(
        "Every example passes plugins check", .enabled(if: hasPython, "there is no /usr/bin/python3"),
        arguments: [
            ("chat", #"{"url":"http://127.0.0.1:9/none"}"#), ("file-structure", "{}"), ("http-python", "{}"),
            ("interface-up", #"{"interface":"lo"}"#), ("sqlite-index", #"{"database":"HOME/index.sqlite"}"#),
            ("lan-mirror", #"{"from":"https://assets.example.com/","to":"http://127.0.0.1:9/"}"#),
            ("template-python", "{}"), ("template-sh", #"{"file":"/none"}"#),
            ("token", #"{"origin":"https://assets.example.com","command":["/bin/echo","t"]}"#),
        ])
    func examplesPass(name: String, settings: String) throws {
        let scratch = try Scratch()
        try scratch.example(name)
        let outcome = try Tool(scratch).run([
            "plugins", "check", name, "--settings", settings.replacing("HOME", with: scratch.path),
        ])
        #expect(outcome.status == 0, "\(outcome.output)\(outcome.error)")
        #expect(outcome.output.contains("rules followed."))
        #expect(!outcome.output.contains("FAILED"))
    }

    @Test(
        "Every built-in passes plugins check",
        arguments: [
            ["http"], ["file", "--point", "transport"], ["power"], ["metered"], ["load"], ["idle"], ["space"],
            ["window"], ["program"], ["program", "--point", "verifier", "--settings", #"{"command":["/bin/true"]}"#],
            ["rewrite", "--settings", #"{"rules":["https://a/ https://b/"]}"#],
        ])
    func builtInsPass(arguments: [String]) throws {
        let outcome = try Tool(try Scratch()).run(["plugins", "check"] + arguments)
        #expect(outcome.status == 0, "\(outcome.output)\(outcome.error)")
        #expect(!outcome.output.contains("FAILED"))
    }

    @Test("A program that is not there is no verifier that passes, and neither is none", arguments: ["/no/such", nil])
    func missingVerifier(program: String?) throws {
        let settings = program.map { ["--settings", #"{"command":["\#($0)"]}"#] } ?? []
        let outcome = try Tool(try Scratch()).run(["plugins", "check", "program", "--point", "verifier"] + settings)
        #expect(outcome.status == 78, "\(outcome.output)\(outcome.error)")
    }

    @Test(
        "A plugin that does wrong is told what, and what to do; the status is 2", .enabled(if: hasPython, "no python3"))
    func failing() throws {
        let scratch = try Scratch()
        let text = try String(
            contentsOf: examples.appendingPathComponent("syncagent-plugin-template-python"), encoding: .utf8)
        try scratch.plugin("wrong", text.replacing(#"for file in params["files"]]"#, with: "]"))
        let outcome = try Tool(scratch).run(["plugins", "check", "wrong", "--point", "verifier"])
        #expect(outcome.status == 2, "\(outcome.output)\(outcome.error)")
        #expect(outcome.output.contains("FAILED  Each file gets one verdict\n"), "\(outcome.output)")
        #expect(outcome.output.contains("Answer with a list as long as the list of files."))
        let json = try Tool(scratch).run(["plugins", "check", "wrong", "--point", "verifier", "--json"])
        let failed = try json.objects().first { $0["passed"] as? Bool == false }
        #expect(failed?["rule"] as? String == "Each file gets one verdict")
        #expect(failed?["advice"] is String)
    }

    @Test("A name that nobody knows ends with 78 and lists the built-ins; wrong arguments end with 64")
    func unknown() throws {
        let tool = Tool(try Scratch())
        let unknown = try tool.run(["plugins", "check", "nothing"])
        #expect(unknown.status == 78)
        #expect(unknown.error.contains("built in: "), "\(unknown.error)")
        for (arguments, words) in [
            (["check"], "<plugin>"), (["check", "power", "--point", "nose"], "transport, resolver"),
            (["check", "power", "--settings", "[]"], "JSON object"),
            (["check", "power", "--timeout", "0"], "1 to 3600"),
        ] {
            let outcome = try tool.run(["plugins"] + arguments)
            #expect(outcome.status == 64)
            #expect(outcome.error.contains(words), "\(outcome.error)")
        }
    }

    @Test(
        "A pull through plugins of every kind: each is asked about what is its own, and for nothing else",
        .enabled(if: hasPython, "there is no /usr/bin/python3"))
    func pull() throws {
        let set = try ScriptedSet(files: ["b.json": Data("{}".utf8), "c.json": Data("{".utf8)])
        for name in ["http-python", "file-structure", "sqlite-index", "lan-mirror", "token"] {
            try set.scratch.example(name)
        }
        try set.secret("s3cret\n", to: "token")
        let origin = set.server.url("")
        // A file that only the resolver's mirror has, in a manifest that only whoever has the token gets.
        let digest = "8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"
        let entry =
            "{\"path\":\"d.txt\",\"size\":5,\"sha256\":\"\(digest)\",\"urls\":[\"http://nowhere.invalid/d.txt\"]},"
        let text = try String(contentsOfFile: set.scratch.path + "/site/manifest.json", encoding: .utf8)
        let edited = text.replacing("\"files\":[", with: "\"files\":[" + entry)
        try #require(edited != text)
        let manifest = ServedObject(Array(edited.utf8))
        set.server.respond(to: "/site/manifest.json") {
            $0.header("authorization") == "Bearer s3cret" ? .object(manifest) : .status(401)
        }
        set.server.respond(to: "/site/manifest.json.zst") { _ in .status(404) }
        set.server.serve(ServedObject(Array("three".utf8)), at: "/mirror/d.txt")
        try set.secret(
            """
            { plugins: { use: [
                { plugin: "http-python", point: "transport", for: ["\(origin)/site/packs/"],
                  settings: { user_agent: "the plugin" } },
                { plugin: "file-structure", point: "verifier", include: ["**/*.json", "*.json"] },
                { plugin: "sqlite-index", point: "hook", settings: { database: "\(set.scratch.path)/index.sqlite" } },
                { plugin: "lan-mirror", point: "resolver",
                  settings: { from: "http://nowhere.invalid/", to: "\(origin)/mirror/" } },
                { plugin: "token", point: "credential", for: ["\(origin)"],
                  settings: { origin: "\(origin)", file: "\(set.scratch.path)/token" } },
            ] } }
            """, to: ".config/syncagent/config.json")
        let outcome = try set.pull([set.manifest, "--hook", "plugin:sqlite-index"])
        #expect(outcome.status == 2, "the broken file is not installed: \(outcome.output)\(outcome.error)")
        for (path, text) in [("a.txt", "one"), ("b.json", "{}"), ("d.txt", "three")] {
            #expect(set.scratch.text("tower/\(path)") == text)
        }
        #expect(set.scratch.text("tower/c.json") == nil)
        #expect(FileManager.default.fileExists(atPath: set.scratch.path + "/index.sqlite"))
        for entry in set.server.log.entries {
            let isPack = entry.request.path.hasPrefix("/site/packs/")
            #expect((entry.request.header("user-agent") == "the plugin") == isPack, "\(entry.request.path)")
        }
        #expect(set.server.log.entries.contains { $0.request.path.hasPrefix("/site/packs/") })
        #expect(set.server.log.requests(to: "/mirror/d.txt").count == 1)
    }

    @Test(
        "A transport brings a manifest and its packs by a scheme of its own; without one that scheme is refused [S80]",
        .enabled(if: hasPython, "there is no /usr/bin/python3"))
    func scheme() throws {
        let set = try ServedSet()
        let url = "store:///site/manifest.json"
        for verb in ["pull", "plan", "verify"] {
            let refused = try set.tool.run([verb, url, "--into", "tower"])
            #expect(refused.status == 64 && refused.error.contains("handles store:"), "\(refused.error)")
        }
        try set.scratch.plugin("store", storePlugin)
        let configuration = """
            { plugins: { use: [ { plugin: "store", point: "transport", for: ["STORE:"],
                settings: { root: "\(set.scratch.path)" } } ] } }
            """
        try set.scratch.write(Data(configuration.utf8), to: ".config/syncagent/config.json")
        let pulled = try set.tool.run(["pull", url, "--into", "tower", "--json"])
        #expect(pulled.status == 0, "\(pulled.output)\(pulled.error)")
        #expect(try set.text("tower/sheets/b.txt") == "two")
        #expect(try pulled.objects().last?["requests"] as? Int == 2, "the manifest, and a pack")
        let again = try set.tool.run(["pull", url, "--into", "tower"])
        #expect(again.status == 0 && again.error.contains("2 unchanged"), "\(again.error)")
        let routes = try set.tool.run(["plan", url, "--into", "elsewhere", "--explain"])
        #expect(routes.output.contains("handled by a transport plugin"), "\(routes.output)\(routes.error)")
        #expect(try set.tool.run(["verify", url, "--into", "tower"]).status == 0)
    }

    @Test(
        "A URL needs no authority where its scheme has a transport; elsewhere it is a path [S80]",
        .enabled(if: hasPython, "there is no /usr/bin/python3"))
    func withoutAuthority() throws {
        let set = try ServedSet()
        let manifest = try #require(set.scratch.text("site/manifest.json"))
        try set.scratch.write(Data(manifest.utf8), to: "site/store:m.json")
        let urls = ["store:/site/manifest.json", "store:site/manifest.json"]
        for url in urls {
            let refused = try set.tool.run(["ls", url])
            #expect(refused.status == 66 && refused.error.contains("handles store:"), "\(refused.error)")
        }
        let typo = try set.tool.run(["ls", "https:/host/manifest.json"])
        #expect(typo.status == 66 && typo.error.contains("https://host/path"), "\(typo.error)")
        // Without a transport of that scheme it is a file's name.
        #expect(try set.tool.run(["ls", "site/store:m.json"]).status == 0)
        try set.scratch.write(Data(manifest.utf8), to: "store:m.json")
        #expect(try set.tool.run(["ls", "store:m.json"]).status == 0)

        try set.scratch.plugin("store", storePlugin)
        let configuration = """
            { plugins: { use: [ { plugin: "store", point: "transport", for: ["store:"],
                settings: { root: "\(set.scratch.path)" } } ] } }
            """
        try set.scratch.write(Data(configuration.utf8), to: ".config/syncagent/config.json")
        for (number, url) in urls.enumerated() {
            let pulled = try set.tool.run(["pull", url, "--into", "tower-\(number)"])
            #expect(pulled.status == 0, "\(pulled.error)")
            #expect(try set.text("tower-\(number)/sheets/b.txt") == "two")
            #expect(try set.tool.run(["cat", url, "sheets/b.txt"]).output == "two")
        }
        #expect(try set.tool.run(["diff", urls[0], urls[1]]).status == 0)
        // URLs in a manifest, too.
        let named = manifest.replacing("\"packs/", with: "\"store:/site/packs/")
        #expect(named != manifest)
        try set.scratch.write(Data(named.utf8), to: "elsewhere.json")
        let pulled = try set.tool.run(["pull", "elsewhere.json", "--into", "third"])
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(try set.text("third/sheets/b.txt") == "two")
    }

    @Test(
        "Whatever looks at a manifest does so through the configured plugins, as a pull does",
        .enabled(if: hasPython, "there is no /usr/bin/python3"))
    func everyCommand() throws {
        let set = try ServedSet()
        try set.scratch.example("lan-mirror")
        let origin = set.url.split(separator: "/").prefix(2).joined(separator: "//")
        let configuration = """
            { plugins: { use: [ { plugin: "lan-mirror", point: "resolver",
                settings: { from: "http://nowhere.invalid/", to: "\(origin)/" } } ] } }
            """
        try set.scratch.write(Data(configuration.utf8), to: ".config/syncagent/config.json")
        let url = "http://nowhere.invalid/manifest.json"
        for arguments in [
            ["pull", url, "--into", "tower"], ["plan", url, "--into", "tower"], ["verify", url, "--into", "tower"],
            ["schedule", "add", url, "--nightly", "02:00", "--backend", "agent", "--dry-run"],
        ] {
            let outcome = try set.tool.run(arguments)
            #expect(outcome.status == 0, "\(arguments): \(outcome.error)")
        }
    }
}
