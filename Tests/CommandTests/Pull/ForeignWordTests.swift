import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// What names, credentials and identities come from: the manifest, the user and the state, whatever a server says.
@Suite("What a server says changes no name, no credentials and no identity", .timeLimit(.minutes(10)))
struct ForeignWordTests {
    /// Files with URLs of their own; `more` stands behind the project.
    static func manifest(_ files: [(path: String, url: String, object: ServedObject)], _ more: String = "") -> Data {
        let entries = files.map { file in
            "{\"path\":\"\(file.path)\",\"size\":\(file.object.bytes.count),\"sha256\":\"\(file.object.sha256)\","
                + "\"urls\":[\"\(file.url)\"]}"
        }
        let text =
            "{\"format\":\"syncagent-manifest/1\",\"project\":\"com.example.words\",\(more)\"files\":["
            + entries.joined(separator: ",") + "]}"
        return Data(text.utf8)
    }

    static func pull(_ tool: Tool, _ more: String...) throws -> Tool.Outcome {
        try tool.run(["pull", "manifest.json", "--into", "tree", "--json"] + more)
    }

    @Test("A file has the name that the manifest says, whatever Content-Disposition or a redirect calls it [V11 S121]")
    func names() throws {
        let (tool, server) = (Tool(try Scratch()), try FaultServer())
        let object = ServedObject(patternedBytes(size: 4_000, seed: 1))
        let called = FaultAnswer.object(object).setting("Content-Disposition", "attachment; filename=\"../../evil\"")
        server.script("/a.bin", called)
        server.script("/b.bin", .redirect(to: "/.bashrc"))
        server.script("/.bashrc", called)
        let files = ["a.bin", "b.bin"].map { (path: $0, url: server.url("/" + $0), object: object) }
        try tool.scratch.write(Self.manifest(files), to: "manifest.json")
        let outcome = try Self.pull(tool)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(
            try tool.scratch.contents(of: "tree").filter { !$0.hasPrefix(".syncagent") }.sorted() == ["a.bin", "b.bin"])
        let around = try tool.scratch.contents(of: ".")
        #expect(!around.contains { $0.hasSuffix("evil") || $0.hasSuffix(".bashrc") }, "\(around)")
    }

    @Test("What ~/.netrc says is sent to nobody, whoever asks for it and wherever a redirect leads [V21]")
    func netrc() throws {
        let (tool, server, other) = (Tool(try Scratch()), try FaultServer(), try FaultServer())
        let object = ServedObject(patternedBytes(size: 4_000, seed: 2))
        try tool.scratch.write(
            Data("machine 127.0.0.1 login somebody password canary\ndefault login other password canary\n".utf8),
            to: ".netrc")
        let asks = FaultAnswer.status(401).setting("WWW-Authenticate", "Basic realm=\"x\"")
        server.script("/asked", asks)
        server.script("/led", .redirect(to: other.url("/asked")))
        other.script("/asked", asks)
        let files = ["asked", "led"].map { (path: $0, url: server.url("/" + $0), object: object) }
        try tool.scratch.write(Self.manifest(files), to: "manifest.json")
        #expect(try Self.pull(tool).status == 77)
        for log in [server.log, other.log] {
            #expect(log.requestCount > 0 && log.values(of: "Authorization").isEmpty, "\(log)")
        }
    }

    @Test("A hundred files whose URLs lead to one get the bytes of each; the query tells them apart [S78]")
    func oneTarget() throws {
        let (tool, server) = (Tool(try Scratch()), try FaultServer())
        let objects = (0..<100).map { ServedObject(patternedBytes(size: 1_000 + $0, seed: UInt64($0))) }
        for number in objects.indices { server.script("/f/\(number)", .redirect(to: "/one?file=\(number)")) }
        server.respond(to: "/one") { request in
            let number = request.query.flatMap { $0.split(separator: "=").last }.flatMap { Int($0) }
            return number.map { .object(objects[$0]) } ?? .status(404)
        }
        let files = objects.indices.map { (path: "\($0)", url: server.url("/f/\($0)"), object: objects[$0]) }
        try tool.scratch.write(Self.manifest(files), to: "manifest.json")
        let outcome = try Self.pull(tool)
        #expect(outcome.status == 0 && outcome.complaints.isEmpty, "\(outcome.error)")
        for (number, object) in objects.enumerated() {
            let path = tool.scratch.url.appendingPathComponent("tree/\(number)").path
            #expect(FileManager.default.contents(atPath: path) == Data(object.bytes))
        }
        #expect(server.log.requests(to: "/one").count == 100)
    }

    @Test("Two URLs of one content are one fetch; the second file is made of the first [S73]")
    func oneContent() throws {
        let (tool, server) = (Tool(try Scratch()), try FaultServer())
        let object = ServedObject(patternedBytes(size: 40_000, seed: 3))
        server.serve(object, at: "/a")
        let files = [
            (path: "a", url: server.url("/a"), object: object),
            (path: "b", url: server.localhostURL("/a"), object: object),
        ]
        try tool.scratch.write(Self.manifest(files), to: "manifest.json")
        #expect(try Self.pull(tool).status == 0)
        for path in ["tree/a", "tree/b"] {
            let path = tool.scratch.url.appendingPathComponent(path).path
            #expect(FileManager.default.contents(atPath: path) == Data(object.bytes))
        }
        #expect(server.log.bytesSent(to: "/a") == object.bytes.count)
    }

    @Test("Files that end at the same moment complete their group once, and all of the run once [F121]")
    func lastAtOnce() throws {
        let (tool, server) = (Tool(try Scratch()), try FaultServer())
        let objects = (0..<24).map { ServedObject(patternedBytes(size: 10, seed: UInt64($0))) }
        let files = objects.indices.map { (path: "g/\($0)", url: server.url("/\($0)"), object: objects[$0]) }
        for (number, object) in objects.enumerated() {
            // All are asked for before the first has come.
            server.script("/\(number)", .object(object).delayed(by: .milliseconds(200)))
        }
        try tool.scratch.write(
            Self.manifest(files, "\"groups\":[{\"name\":\"g\",\"include\":[\"g/**\"]}],"), to: "manifest.json")
        for round in 0..<5 {
            let outcome = try tool.run([
                "pull", "manifest.json", "--into", "tree-\(round)", "--session", "s-\(round)", "--connections", "24",
                "--json",
            ])
            #expect(outcome.status == 0 && outcome.complaints.isEmpty, "\(outcome.error)")
            let completed = try outcome.objects().filter { $0["event"] as? String == "group.completed" }
            #expect(completed.compactMap { $0["group"] as? String }.sorted() == ["all", "g"], "\(completed)")
        }
    }

    @Test(
        "The state directory may move while a run is half done: the next pull finds its session there, and what has come [S93]"
    )
    func movedState() throws {
        let wire = try Wire()
        wire.edge.script("/cdn/big.bin", .object(wire.big).stalling(at: 2_000_000))
        let pull = try wire.start()
        _ = try wire.look("--requests") { $0.contains { ($0["received"] as? Int ?? 0) >= 1_900_000 } }
        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()
        let (home, moved) = (wire.scratch.path + "/.local/state", wire.scratch.path + "/moved")
        try FileManager.default.moveItem(atPath: home, toPath: moved)
        let environment = ["XDG_STATE_HOME": moved]
        let seen = try wire.tool.run(["status", "com.example.wire", "--tasks", "--json"], environment: environment)
        #expect(
            try seen.objects().contains { $0["path"] as? String == "big.bin" && $0["state"] as? String == "waiting" })
        wire.edge.script("/cdn/big.bin", .object(wire.big))
        let before = wire.edge.log.bytesSent(to: "/cdn/big.bin")
        let outcome = try wire.tool.run(
            ["pull", "manifest.json", "--into", "tree", "--json"], environment: environment)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(wire.edge.log.bytesSent(to: "/cdn/big.bin") - before < 2_000_000)
        #expect(!FileManager.default.fileExists(atPath: home + "/syncagent"))
    }

    @Test("What a manifest says for users reaches the hook as it was written, after two kills, too [S67 S68]")
    func userData() throws {
        let (tool, server) = (Tool(try Scratch()), try FaultServer())
        let object = ServedObject(patternedBytes(size: 100_000, seed: 5))
        let said = #"{ "id":7.50,"n":"\u0000\u001b[2J \ud83d\ude00 ü" }"#
        try tool.scratch.write(
            Self.manifest([(path: "a", url: server.url("/a"), object: object)], "\"x-user-data\":\(said),"),
            to: "manifest.json")
        try tool.scratch.write(Data("#!/bin/sh\ncat > ../report\n".utf8), to: "hook")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o755], ofItemAtPath: tool.scratch.url.appendingPathComponent("hook").path)
        let arguments = ["pull", "manifest.json", "--into", "tree", "--hook", "./hook", "--quiet"]
        for _ in 0..<2 {
            server.script("/a", .object(object).stalling(at: 50_000))
            let asked = server.log.requestCount
            let pull = tool.process(arguments)
            pull.standardError = FileHandle.nullDevice
            try pull.run()
            let deadline = ContinuousClock.now + .seconds(20)
            while server.log.requestCount == asked, ContinuousClock.now < deadline { usleep(20_000) }
            #expect(server.log.requestCount > asked)
            kill(pull.processIdentifier, SIGKILL)
            pull.waitUntilExit()
            server.releaseStalls()
        }
        server.script("/a", .object(object))
        let outcome = try tool.run(arguments)
        #expect(outcome.status == 0, "\(outcome.error)")
        let report = FileManager.default.contents(atPath: tool.scratch.url.appendingPathComponent("report").path)
        let text = String(decoding: try #require(report), as: UTF8.self)
        #expect(
            text.contains("\"user_data\":" + said.replacing(" \"id\"", with: "\"id\"").replacing("\" }", with: "\"}"))
                || text.contains("\"user_data\":" + said), "\(text)")
    }
}
