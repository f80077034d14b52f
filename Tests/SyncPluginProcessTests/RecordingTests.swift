import Foundation
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

/// The checker of recorded conversations.
private enum SchemaCheck {
    static let canRun = PluginFixture.hasPython && run(["-c", "import jsonschema"]).status == 0

    /// Runs /usr/bin/python3 and returns what it wrote.
    static func run(_ arguments: [String]) -> (status: Int32, output: String) {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = arguments
        process.standardOutput = pipe
        process.standardError = pipe
        guard (try? process.run()) != nil else { return (-1, "") }
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}

/// Conversations with the example plugins, taken down on the way and checked against the protocol's JSON Schema.
@Suite(
    .timeLimit(.minutes(10)),
    .enabled(if: SchemaCheck.canRun, "no /usr/bin/python3 with jsonschema: apt-get install python3-jsonschema"))
struct RecordingTests {
    /// A client for an example behind a program that writes down every message in both directions.
    private func client(_ fixture: PluginFixture, _ name: String, _ point: PluginPoint, _ settings: String = "{}")
        throws -> PluginClient
    {
        let program = try fixture.example(name)
        let body = """
            import json, subprocess, threading, sys
            real = subprocess.Popen(["\(program.path)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            record = open("\(fixture.root.path)/record-\(name)", "a")
            lock = threading.Lock()
            def copy(source, target, direction):
                for line in source:
                    with lock:
                        record.write(json.dumps([direction, json.loads(line)]) + "\\n")
                        record.flush()
                    target.write(line)
                    target.flush()
            threading.Thread(target=copy, args=(real.stdout, sys.stdout.buffer, "from"), daemon=True).start()
            copy(sys.stdin.buffer, real.stdin, "to")
            real.stdin.close()
            real.wait()
            """
        return fixture.client(
            try fixture.configuration(body, named: "tee-\(name)", point: point, prelude: "#!/usr/bin/python3\n") {
                $0.settings = settings
            })
    }

    @Test("Recorded conversations with a plugin of each kind keep to the JSON Schema of the protocol")
    func conversations() async throws {
        let fixture = try PluginFixture()
        let server = try FaultServer()
        let object = ServedObject.patterned(size: 50_000)
        server.serve(object, at: "/a")
        server.script("/room", .status(200, text: "ok"))
        try fixture.root.write("t", to: "token")
        let origin = "https://assets.example.com"
        let now = Int64(Date().timeIntervalSince1970)

        let mirror = try client(
            fixture, "lan-mirror", .resolver, #"{"from":"\#(origin)/","to":"\#(server.url("/"))","token":"k"}"#)
        let token = try client(
            fixture, "token", .credential, #"{"origin":"\#(origin)","file":"\#(fixture.root.path("token"))"}"#)
        let interface = try client(fixture, "interface-up", .condition, #"{"interface":"none0"}"#)
        let shell = try client(fixture, "template-sh", .condition, #"{"file":"/none"}"#)
        let structure = try client(fixture, "file-structure", .verifier)
        let index = try client(fixture, "sqlite-index", .hook, #"{"database":"\#(fixture.root.path("index.sqlite"))"}"#)
        let chat = try client(fixture, "chat", .observer, #"{"url":"\#(server.url("/room"))"}"#)
        let http = try client(fixture, "http-python", .transport)
        try fixture.root.write("not a picture", to: "a.png")
        let picture = StagedFile(path: "a.png", stagedPath: fixture.root.path("a.png"), size: 13, sha256: "00")
        let root = fixture.root
        await blocking {
            _ = check(resolver: mirror, url: origin + "/a")
            _ = check(credentials: token, origin: origin, now: now)
            _ = check(condition: PluginCondition(interface), now: now * 1_000)
            _ = check(condition: PluginCondition(shell), now: now * 1_000)
            _ = check(verifier: structure, files: [picture]) { _ in true }
            _ = index.run(
                HookInvocation(
                    arguments: ["plugin:sqlite-index", "--x"], directory: root.path,
                    environment: ["SYNCAGENT_GROUP": "all"], input: Array("{}".utf8), timeout: 20))
            _ = check(observer: chat)
        }
        let transport = PluginTransport(http)
        let runs = [
            TransferRequest(id: TransferID(rawValue: 1), urls: [server.url("/a")], limit: 50_000),
            TransferRequest(
                id: TransferID(rawValue: 2), urls: [server.url("/a")], range: 10..<20, objectSize: 50_000, limit: 10,
                validator: Validator(etag: object.etag)),
            TransferRequest(
                id: TransferID(rawValue: 3), urls: [server.url("/a")], limit: 50_000,
                knownValidator: Validator(etag: object.etag), reload: true),
            TransferRequest(id: TransferID(rawValue: 4), urls: [server.url("/none")], limit: 9),
            TransferRequest(id: TransferID(rawValue: 5), urls: [server.url("/a")], limit: 9),
        ].map { request in
            var behaviour = CollectingSink.Behaviour()
            behaviour.start = request.range?.lowerBound ?? 0
            return TransferRun(request, on: transport, sink: CollectingSink(behaviour))
        }
        for run in runs { _ = try await run.end() }
        await blocking {
            transport.shutdown()
            for client in [mirror, token, interface, shell, structure, index, chat] { client.close() }
        }
        #expect(fixture.notices() == [])

        let records = try FileManager.default.contentsOfDirectory(atPath: fixture.root.path).filter {
            $0.hasPrefix("record-")
        }.map { fixture.root.path($0) }
        let script = URL(fileURLWithPath: PluginFixture.examples).deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Tests/schema/plugins.py").path
        let checked = SchemaCheck.run([script] + records)
        #expect(checked.status == 0, "\(checked.output)")
        #expect(
            checked.output
                == "8 conversations, methods: condition.state credential.get hook.run initialize observer.events "
                + "resolver.resolve shutdown transport.fetch verifier.verify\n")
    }

    @Test(
        "The schema refuses what the protocol does",
        arguments: [
            #"["from",{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}]"#,
            #"["from",{"jsonrpc":"1.0","id":1,"result":{}}]"#,
            #"["from",{"jsonrpc":"2.0","method":"host.secrets","id":1}]"#,
            #"["from",{"jsonrpc":"2.0","method":"transport.head","params":{"id":1,"status":206}}]"#,
            #"["from",{"jsonrpc":"2.0","method":"transport.head","params":{"id":1,"status":200,"object_size":-1}}]"#,
            #"["to",{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":2}}]"#,
        ])
    func refusals(line: String) throws {
        let root = try TemporaryRoot()
        try root.write(line + "\n", to: "record")
        let script = URL(fileURLWithPath: PluginFixture.examples).deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Tests/schema/plugins.py").path
        #expect(SchemaCheck.run([script, root.path("record")]).status == 1)
    }
}
