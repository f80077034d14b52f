import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// A source that is a script: it prints `listing` beside it, unless that is the state that is known already.
private final class ProgramSet {
    let scratch: Scratch
    let server: FaultServer
    private let tool: Tool

    init(_ configuration: String = "") throws {
        (scratch, server) = (try Scratch(), try FaultServer())
        tool = Tool(scratch)
        let use = """
            { plugins: { use: [ { plugin: "demo", point: "source", for: ["demo:"]\(configuration) } ] } }
            """
        try scratch.write(Data(use.utf8), to: ".config/syncagent/config.json")
        try script(
            """
            echo "$1 $SYNCAGENT_AT" >> \(scratch.path)/asked
            [ "$SYNCAGENT_AT" = "$(cat \(scratch.path)/at)" ] || cat \(scratch.path)/listing
            """)
        try write("", to: "asked")
    }

    func write(_ text: String, to path: String) throws { try scratch.write(Data(text.utf8), to: path) }

    func script(_ body: String) throws {
        let file = try scratch.write(
            Data("#!/bin/sh\n\(body)\n".utf8), to: ".config/syncagent/plugins/syncagent-plugin-demo")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
    }

    /// Publishes a state of the set. Of every other file its MD5 is known, of the rest nothing.
    func list(_ at: String, _ files: [String: String], more: String = "") throws {
        let entries = files.sorted { $0.key < $1.key }.enumerated().map { number, file -> String in
            let object = ServedObject(text: file.value)
            server.serve(object, at: "/\(at)/\(file.key)")
            let known =
                number % 2 == 0 ? "\"size\":\(object.bytes.count),\"sha256\":\"\(object.sha256)\"" : "\"x-learn\":{}"
            return "{\"path\":\"\(file.key)\",\(known),\"urls\":[\"\(server.url("/\(at)/\(file.key)"))\"]}"
        }
        try write(
            """
            {"format":"syncagent-manifest/1","project":"demo.set","source":{"at":"\(at)"},
             "files":[\((entries + (more.isEmpty ? [] : [more])).joined(separator: ",\n"))]}
            """, to: "listing")
        try write(at, to: "at")
    }

    func run(_ arguments: String...) throws -> Tool.Outcome { try tool.run(arguments) }

    func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: "\(scratch.path)/\(path)").map { String(decoding: $0, as: UTF8.self) }
    }

    /// What the program was asked since the last time: the URL and the state.
    func asked() throws -> [String] {
        defer { try? write("", to: "asked") }
        return (text("asked") ?? "").split(separator: "\n").map(String.init)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ProgramSourceTests {
    @Test("A program's set stands wherever a manifest does, and costs no request where nothing is new")
    func everywhere() throws {
        let set = try ProgramSet()
        try set.list("s1", ["a.txt": "one", "b.txt": "two", "sub/c.txt": "three"])
        let first = try set.run("pull", "demo://shelf/x?token=canary", "--into", "d", "--json")
        #expect(first.status == 0, "\(first.output)\(first.error)")
        #expect(set.text("d/b.txt") == "two" && set.text("d/sub/c.txt") == "three")
        let source = try first.objects().last?["source"] as? [String: String]
        #expect(source == ["kind": "demo", "url": "demo://shelf/x", "at": "s1"])
        #expect(set.server.log.requestCount == 3)
        #expect(try set.asked() == ["demo://shelf/x?token=canary "])

        let again = try set.run("pull", "demo://shelf/x?token=canary", "--into", "d")
        #expect(again.status == 0 && again.error.contains("3 unchanged"), "\(again.error)")
        #expect(try set.asked() == ["demo://shelf/x?token=canary s1"])
        #expect(set.server.log.requestCount == 3)

        let plan = try set.run("plan", "demo:shelf", "--into", "other")
        #expect(plan.status == 0, "\(plan.error)")
        #expect(try set.asked() == ["demo:///shelf "])
        for arguments in [
            ["verify", "demo://shelf/x?token=canary", "--into", "d"], ["ls", "demo://shelf/x"],
            [
                "schedule", "add", "demo://shelf/x", "--into", "d", "--nightly", "02:00", "--backend", "agent",
                "--dry-run",
            ],
        ] {
            let outcome = try Tool(set.scratch).run(arguments)
            #expect(outcome.status == 0, "\(arguments): \(outcome.error)")
        }
        #expect(try set.run("status", "demo.set").output.contains("demo, demo://shelf/x"))

        // A new state brings what has changed.
        try set.list("s2", ["a.txt": "one", "b.txt": "two", "sub/c.txt": "four"])
        let difference = try set.run("diff", "demo://shelf/x?token=canary", "demo://shelf/y")
        #expect(difference.status == 0, "\(difference.output)\(difference.error)")
        let next = try set.run("pull", "demo://shelf/x?token=canary", "--into", "d")
        #expect(next.status == 0 && set.text("d/sub/c.txt") == "four", "\(next.error)")

        let imported = try set.run("import", "demo://shelf/x")
        #expect(imported.status == 0, "\(imported.error)")
        #expect(imported.output.contains(#""source":{"kind":"demo","url":"demo://shelf/x","at":"s2"}"#))
        #expect(!imported.output.contains("x-learn"))
        for text in [first, again, plan, next, imported].map({ $0.output + $0.error }) {
            #expect(!text.contains("canary"))
        }
    }

    @Test("Who says no state is asked every time, and the same text is nothing new")
    func withoutState() throws {
        let set = try ProgramSet()
        try set.list("s1", ["a.txt": "one", "b.txt": "two"])
        let text = try #require(set.text("listing")).replacing(#""source":{"at":"s1"},"#, with: "")
        try set.write(text, to: "listing")
        #expect(try set.run("pull", "demo:x", "--into", "d").status == 0)
        #expect(set.server.log.requestCount == 2)
        let again = try set.run("pull", "demo:x", "--into", "d", "--json")
        #expect(again.status == 0 && set.server.log.requestCount == 2, "\(again.error)")
        let source = try again.objects().last?["source"] as? [String: String]
        #expect(source?["at"] == ServedObject(text: text).sha256)
    }

    @Test("Bytes that change where nothing says so are refused by name, and what is there stays")
    func wrong() throws {
        let set = try ProgramSet()
        try set.list("s1", ["a.txt": "one", "b.txt": "two"])
        #expect(try set.run("pull", "demo:x", "--into", "d").status == 0)
        try FileManager.default.removeItem(atPath: set.scratch.path + "/d/b.txt")
        set.server.serve(ServedObject(text: "tow"), at: "/s1/b.txt")
        let outcome = try set.run("pull", "demo:x", "--into", "d", "--json")
        #expect(outcome.status != 0 && outcome.output.contains("b.txt"), "\(outcome.output)\(outcome.error)")
        #expect(set.text("d/b.txt") == nil && set.text("d/a.txt") == "one")
    }

    @Test(
        "A listing that no destination may have is refused whole, before anything is changed",
        arguments: [
            (#"{"path":"../x","x-learn":{},"urls":["http://h/x"]}"#, "../x"),
            (#"{"path":"/etc/x","x-learn":{},"urls":["http://h/x"]}"#, "path"),
            (#"{"path":"a.txt","x-learn":{},"urls":["http://h/x"]}"#, "a.txt"),
            (#"{"path":"c","x-learn":{},"urls":["c"]}"#, "absolute"),
            (#"{"path":"c","x-learn":{},"urls":["file:///etc/passwd"]}"#, "file"),
            (#"{"path":"c","x-learn":{}}"#, "URLs"),
            (#"{"path":"c","x-learn":{"crc":"1"},"urls":["http://h/x"]}"#, "crc"),
            ("{]", "demo"),
        ])
    func hostile(entry: String, words: String) throws {
        let set = try ProgramSet()
        try set.list("s1", ["a.txt": "one"], more: entry)
        let outcome = try set.run("pull", "demo:x", "--into", "d")
        #expect(outcome.status == 65 && outcome.error.contains(words), "\(outcome.status) \(outcome.error)")
        #expect(set.text("d/a.txt") == nil && set.server.log.requestCount == 0)
    }

    @Test(
        "A program that fails ends a pull as it says, and without the URL's secrets",
        arguments: [
            ("exit 66", 66, "status 66"), ("exit 77", 77, "status 77"), ("exit 1", 69, "status 1"),
            ("echo \"no $1\" >&2; exit 69", 69, "no demo://h/x?…"), ("kill -9 $$", 69, "signal 9"),
            ("echo '<html>'", 65, "refused at $ (line 1"), ("true", 65, "printed nothing"), ("yes", 65, "more than 64"),
            ("sleep 1000", 69, "wrote nothing for 1 s"),
        ])
    func failing(script: String, status: Int, words: String) throws {
        let set = try ProgramSet()
        try set.script(script)
        let begun = ContinuousClock.now
        let outcome = try set.run("pull", "demo://u:canary@h/x?t=canary", "--into", "d", "--patience", "1s")
        #expect(outcome.status == status && outcome.error.contains(words), "\(outcome.status) \(outcome.error)")
        #expect(!outcome.error.contains("canary") && ContinuousClock.now - begun < .seconds(60))
    }

    @Test(
        "The longest list that is taken needs less than 300 MiB of memory, and one of 200 MB is refused",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/time"), "SKIPPED: time is not installed"))
    func memory() throws {
        let set = try ProgramSet()
        for (script, words) in [
            ("exec head -c 200000000 /dev/zero", "more than 64"),
            (#"printf '{"format":"'; head -c 60000000 /dev/zero | tr '\0' a; printf '"}'"#, "the format is"),
        ] {
            try set.script(script)
            let process = Tool(set.scratch).process([])
            process.executableURL = URL(fileURLWithPath: "/usr/bin/time")
            process.arguments = ["-f", "%M", "-o", "peak", Tool.url.path, "pull", "demo:x", "--into", "d"]
            let outcome = try Tool(set.scratch).run(process)
            #expect(outcome.status == 65 && outcome.error.contains(words), "\(outcome.error.prefix(2_000))")
            let peak = set.text("peak")?.split(separator: "\n").last.flatMap { Int($0) }
            #expect(try #require(peak) < 300 << 10)
        }
    }

    @Test("A command is a source as well, and settings reach a program")
    func setup() throws {
        let set = try ProgramSet(#", settings: { a: 1 }"#)
        try set.script(#"echo "$SYNCAGENT_SETTINGS" >&2; exit 66"#)
        #expect(try set.run("pull", "demo:x", "--into", "d").error.contains(#"{"a":1}"#))
        let use = """
            { plugins: { use: [ { plugin: "program", point: "source", for: ["demo:"],
                settings: { command: ["/bin/sh", "\(set.scratch.path)/list", "fixed"] } } ] } }
            """
        try set.write(use, to: ".config/syncagent/config.json")
        try set.list("s1", ["a.txt": "one"])
        try set.write("[ \"$1 $2\" = 'fixed demo:///x' ] && cat \(set.scratch.path)/listing", to: "list")
        let pulled = try set.run("pull", "demo:x", "--into", "d")
        #expect(pulled.status == 0 && set.text("d/a.txt") == "one", "\(pulled.error)")
    }

    @Test("plugins list shows a source and does not start it; plugins check tries its rules")
    func listed() throws {
        let set = try ProgramSet()
        try set.list("s1", ["a.txt": "one"])
        let row = try set.run("plugins", "list", "--json").objects().first { $0["name"] as? String == "demo" }
        #expect(row?["points"] as? [String] == ["source"] && row?["fault"] == nil, "\(String(describing: row))")
        #expect(try set.asked() == [])
        for (url, asked) in [("demo://x", "demo://x"), ("demo:x", "demo:///x")] {
            try set.script(
                """
                [ "$1" = \(asked) ] || { echo "there is no $1" >&2; exit 66; }
                [ "$SYNCAGENT_AT" = s1 ] || cat \(set.scratch.path)/listing
                """)
            let checked = try set.run("plugins", "check", "demo", "--url", url)
            let said = checked.output + checked.error
            #expect(checked.status == 0 && checked.output.contains("rules followed."), "\(said)")
        }
        try set.script("cat \(set.scratch.path)/listing")
        let wrong = try set.run("plugins", "check", "demo", "--point", "source", "--url", "demo://x")
        #expect(wrong.status == 2 && wrong.output.contains("What is not there is an error"), "\(wrong.output)")
        #expect(try set.run("plugins", "check", "demo").error.contains("it needs --url, "))
    }

    @Test(
        "The example for directories of web servers brings what nginx lists, and what changes in it",
        .enabled(
            if: ExternalServer.has("nginx") && FileManager.default.isExecutableFile(atPath: "/usr/bin/python3"),
            "SKIPPED: nginx or python3 is not installed"))
    func webDirectory() throws {
        let set = try ProgramSet()
        for (path, text) in [("a b.txt", "one"), ("sub/ä#%.txt", "two"), ("sub/deep/c", "three"), ("empty", "")] {
            try set.write(text, to: "www/maps/\(path)")
        }
        let example = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Examples/plugins/syncagent-plugin-webdir")
        let file = try set.scratch.write(
            try Data(contentsOf: example), to: ".config/syncagent/plugins/syncagent-plugin-webdir")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        let use = """
            { plugins: { use: [ { plugin: "webdir", point: "source", for: ["dir+http:", "dir+https:"] } ] } }
            """
        try set.write(use, to: ".config/syncagent/config.json")
        let nginx = try ExternalServer.nginx(serving: set.scratch.path + "/www", lists: true)
        let url = "dir+" + nginx.url("/maps/")
        let first = try set.run("pull", url, "--into", "d", "--json")
        #expect(first.status == 0, "\(first.output)\(first.error)")
        #expect(set.text("d/a b.txt") == "one" && set.text("d/sub/ä#%.txt") == "two" && set.text("d/empty") == "")
        #expect(set.text("d/sub/deep/c") == "three")
        #expect((try first.objects().last?["session"] as? String) == "maps")
        func requests() -> Int { nginx.file("access.log").split(separator: "\n").count }
        var before = requests()
        #expect(try set.run("pull", url, "--into", "d").status == 0)
        // The three directories.
        #expect(requests() - before == 3)
        try set.write("three and a half", to: "www/maps/sub/deep/c")
        before = requests()
        #expect(try set.run("pull", url, "--into", "d").status == 0)
        #expect(requests() - before == 4 && set.text("d/sub/deep/c") == "three and a half")
        let checked = try set.run("plugins", "check", "webdir", "--url", url)
        #expect(checked.status == 0, "\(checked.output)\(checked.error)")
        let gone = try set.run("pull", "dir+" + nginx.url("/none/"), "--into", "e")
        #expect(gone.status == 66 && gone.error.contains("404"), "\(gone.error)")
        // A page that lists nothing is no empty set.
        try set.write("<p>closed</p>", to: "www/closed/index.html")
        let closed = try set.run("pull", "dir+" + nginx.url("/closed/"), "--into", "e")
        #expect(closed.status == 65, "\(closed.error)")
        // Nor is a part of a list the whole of it.
        let page = ServedObject(text: "<a href=\"one\">one</a> <a href=\"two\">two</a>", contentType: "text/html")
        set.server.script("/maps/", .object(page).dropping(at: 25))
        let part = try set.run("pull", "dir+" + set.server.url("/maps/"), "--into", "e")
        #expect(part.status == 69 && part.error.contains("only a part of the list"), "\(part.error)")
        nginx.stop()
        #expect(try set.run("pull", url, "--into", "d").status == 69)
    }

    @Test(
        "The example for rclone brings what a remote has, with its digests",
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/rclone"), "SKIPPED: rclone is not installed"))
    func rclone() throws {
        let set = try ProgramSet()
        for (path, text) in [("a b.txt", "one"), ("sub/c", "two")] { try set.write(text, to: "remote/\(path)") }
        try set.write("[store]\ntype = alias\nremote = \(set.scratch.path)/remote\n", to: "rclone.conf")
        let example = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Examples/plugins/syncagent-plugin-rclone")
        let file = try set.scratch.write(
            try Data(contentsOf: example), to: ".config/syncagent/plugins/syncagent-plugin-rclone")
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        let settings = "settings: { config: \"\(set.scratch.path)/rclone.conf\" }"
        let use = """
            { plugins: { use: [
                { plugin: "rclone", point: "transport", for: ["rclone:"], \(settings) },
                { plugin: "rclone", point: "source", for: ["rclone-tree:"], \(settings) },
            ] } }
            """
        try set.write(use, to: ".config/syncagent/config.json")
        let pulled = try set.run("pull", "rclone-tree://store/", "--into", "d")
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(set.text("d/a b.txt") == "one" && set.text("d/sub/c") == "two")
        let again = try set.run("pull", "rclone-tree://store/", "--into", "d")
        #expect(again.status == 0 && again.error.contains("2 unchanged"), "\(again.error)")
        #expect(try set.run("pull", "rclone-tree://store/none", "--into", "e").status == 66)
    }
}
