import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Files with a checksum list beside them, and a user with an agent.
private final class BackgroundList {
    let scratch: Scratch
    let server: FaultServer
    var tool: Tool { Tool(scratch) }

    init() throws {
        (scratch, server) = (try Scratch(), try FaultServer())
        try list(["a.txt": "one", "north/b.txt": "two"])
    }

    deinit {
        // None may be running.
        _ = try? tool.run(["agent", "stop"])
    }

    func list(_ files: [String: String]) throws {
        for (path, text) in files { server.serve(ServedObject(text: text), at: "/maps/" + path) }
        let lines = files.sorted { $0.key < $1.key }.map { "\(ServedObject(text: $0.value).sha256)  \($0.key)\n" }
        server.serve(ServedObject(text: lines.joined()), at: "/maps/SHA256SUMS")
    }

    var url: String { server.url("/maps/SHA256SUMS") }

    func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: scratch.path + "/" + path).map { String(decoding: $0, as: UTF8.self) }
    }

    /// What the control API answers.
    func control(_ method: String, _ path: String, _ body: String? = nil) throws -> [String: Any] {
        let process = tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/curl")
        process.arguments =
            ["-sS", "--unix-socket", scratch.path + "/.local/state/syncagent/agent.sock", "-X", method]
            + (body.map { ["-H", "Content-Type: application/json", "-d", $0] } ?? []) + ["http://syncagent" + path]
        let outcome = try tool.run(process)
        return try outcome.objects().first ?? [:]
    }
}

@Suite("Sets that others list, in the background", .timeLimit(.minutes(10)))
struct SourceTests {
    private let set: BackgroundList

    init() throws { set = try BackgroundList() }

    private func source(of status: [String: Any]) -> [String: String]? {
        (status["source"] as? [String: String])
            ?? ((status["run"] as? [String: Any])?["source"] as? [String: String])
    }

    @Test("--background brings them, status and report say where they are from, and a new list brings what changed")
    func background() throws {
        let started = try set.tool.run(["pull", set.url, "--into", "maps", "--background"])
        #expect(started.status == 0, "\(started.error)")
        #expect(try set.tool.run(["wait"]).status == 0)
        #expect(set.text("maps/north/b.txt") == "two")
        let status = try #require(try set.tool.run(["status", "maps", "--json"]).objects().first)
        #expect(source(of: status)?["kind"] == "sums" && source(of: status)?["url"] == set.url, "\(status)")
        #expect(try set.tool.run(["report", "--json"]).output.contains("\"kind\":\"sums\""))

        try set.list(["a.txt": "three", "north/b.txt": "two"])
        let before = set.server.log.requestCount
        #expect(try set.tool.run(["pull", set.url, "--into", "maps", "--background"]).status == 0)
        #expect(try set.tool.run(["wait"]).status == 0)
        #expect(set.text("maps/a.txt") == "three")
        // The list, and the file with its size.
        #expect(set.server.log.requestCount - before == 2)
    }

    @Test("The control API takes a source where it takes a manifest, and says what a run was made of")
    func api() throws {
        #expect(try set.tool.run(["pull", set.url, "--into", "maps", "--background", "--paused"]).status == 0)
        let body = "{\"manifest\":\"\(set.url)\",\"destination\":\"\(set.scratch.path)/other\",\"session\":\"other\"}"
        let made = try set.control("POST", "/v1/runs", body)
        #expect(made["run"] != nil, "\(made)")
        #expect(try set.tool.run(["wait", "other"]).status == 0)
        #expect(set.text("other/a.txt") == "one")
        let session = try set.control("GET", "/v1/sessions/other")
        #expect(source(of: session)?["kind"] == "sums", "\(session)")
    }

    @Test("A schedule takes them as it takes manifests")
    func schedule() throws {
        let added = try set.tool.run([
            "schedule", "add", set.url, "--into", "maps", "--nightly", "02:00", "--backend", "agent", "--interactive",
        ])
        #expect(added.status == 0, "\(added.error)")
        let run = try set.tool.run(["schedule", "run", "maps", "--now"])
        #expect(run.status == 0, "\(run.error)")
        #expect(set.text("maps/a.txt") == "one")
        try set.list(["a.txt": "four", "north/b.txt": "two"])
        #expect(try set.tool.run(["schedule", "run", "maps", "--now"]).status == 0)
        #expect(set.text("maps/a.txt") == "four")
        set.server.stop()
        let gone = try set.tool.run(["schedule", "run", "maps", "--now"])
        #expect(gone.status != 0 && set.text("maps/a.txt") == "four", "\(gone.error)")
    }
}
