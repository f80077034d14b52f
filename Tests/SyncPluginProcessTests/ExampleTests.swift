import Foundation
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

private let rclone = ["/usr/bin/rclone", "/usr/local/bin/rclone"].first {
    FileManager.default.isExecutableFile(atPath: $0)
}

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct ExampleTests {
    private func client(_ fixture: PluginFixture, _ name: String, _ point: PluginPoint, _ settings: String = "{}")
        throws -> PluginClient
    { fixture.client(fixture.configuration(try fixture.example(name), point: point) { $0.settings = settings }) }

    /// Nothing failed, nothing was told, and the plugin ends by itself.
    private func expectGood(_ results: [CheckResult], _ client: PluginClient, _ fixture: PluginFixture) async {
        #expect(results.failures == [])
        #expect(results.count >= 5)
        await blocking { client.close() }
        #expect(fixture.notices().isEmpty, "\(fixture.notices())")
    }

    @Test("Every example tells its name and points without settings, and stays below 80 lines where it is a template")
    func descriptions() async throws {
        let fixture = try PluginFixture()
        let points: [String: PluginPoint] = [
            "chat": .observer, "file-structure": .verifier, "http-python": .transport, "interface-up": .condition,
            "lan-mirror": .resolver, "rclone": .transport, "sqlite-index": .hook, "token": .credential,
            "template-sh": .condition, "template-python": .observer, "webdir": .source, "template-source": .source,
        ]
        let names = PluginProgram.all(in: PluginFixture.examples).map(\.name)
        #expect(Set(names) == Set(points.keys))
        #expect(Set(points.values) == Set(PluginPoint.allCases), "one of each kind")
        for (name, point) in points {
            let program = try fixture.example(name)
            let lines = fixture.text("plugins/\(PluginProgram.prefix)\(name)").split(separator: "\n").count
            if name.hasPrefix("template") { #expect(lines < 80) }
            // Those speak no protocol.
            if point == .source { continue }
            let client = fixture.client(fixture.configuration(program, point: nil))
            let description = try await outcome { try client.describe() }.get()
            #expect(description.name == name)
            #expect(description.points.contains(point))
        }
    }

    @Test("The mirror's resolver keeps its contract, and asks the mirror only while it can be reached")
    func mirror() async throws {
        let fixture = try PluginFixture()
        let server = try FaultServer()
        let origin = "https://assets.example.com/"
        let settings = #"{"from":"\#(origin)","to":"\#(server.url("/m/"))","token":"k"}"#
        let client = try client(fixture, "lan-mirror", .resolver, settings)
        let resolver = client
        let results = await blocking { check(resolver: resolver, url: origin + "a.bin") }
        let request = ResolverRequest(url: origin + "a.bin", original: origin + "a.bin")
        #expect(
            try await outcome { try resolver.resolve([request]) }.get() == [
                .replace(url: server.url("/m/a.bin"), headers: [HeaderField("X-Mirror-Token", "k")])
            ])
        let expired = ResolverRequest(url: request.url, original: request.url, reason: .expired(status: 404))
        let afterwards = try await outcome { try resolver.resolve([expired]) }.get()
        #expect(afterwards == [.proceed])
        await expectGood(results, client, fixture)

        let closed = try ClosedPort()
        let down = try self.client(
            fixture, "lan-mirror", .resolver, #"{"from":"\#(origin)","to":"\#(closed.url("/m/"))"}"#)
        #expect(try await outcome { try down.resolve([request]) }.get() == [.proceed])
    }

    @Test("The token's provider keeps its contract, with a file and with a program")
    func token() async throws {
        let fixture = try PluginFixture()
        try fixture.root.write("s3cret\n", to: "token")
        let origin = "https://assets.example.com"
        for source in [#""file":"\#(fixture.root.path("token"))""#, #""command":["/bin/echo","s3cret"]"#] {
            let client = try client(fixture, "token", .credential, #"{"origin":"\#(origin)",\#(source)}"#)
            let provider = client
            let now = Int64(Date().timeIntervalSince1970)
            let results = await blocking { check(credentials: provider, origin: origin, now: now) }
            let answer = await blocking { Result { try provider.credential(for: CredentialRequest(origin: origin)) } }
            let credential = try #require(try answer.get())
            #expect(credential.kind == .bearer(token: "s3cret"))
            #expect((now + 200...now + 400).contains(credential.expires ?? 0))
            await expectGood(results, client, fixture)
        }
    }

    @Test("The conditions keep their contract, in each state")
    func conditions() async throws {
        let fixture = try PluginFixture()
        try fixture.root.write("", to: "lock")
        let rows: [(name: String, settings: String, state: ConditionState)] = [
            ("interface-up", #"{"interface":"lo"}"#, .ok),
            ("interface-up", #"{"interface":"lo","up":false}"#, .blocked(reason: "lo is up")),
            ("interface-up", #"{"interface":"none0"}"#, .blocked(reason: "none0 is not up")),
            ("template-sh", #"{"file":"\#(fixture.root.path("none"))"}"#, .ok),
            ("template-sh", #"{"file":"\#(fixture.root.path("lock"))"}"#, .blocked(reason: "the lock file is there")),
        ]
        for row in rows {
            let client = try client(fixture, row.name, .condition, row.settings)
            let condition = PluginCondition(client)
            let now = Int64(Date().timeIntervalSince1970 * 1_000)
            let results = await blocking { check(condition: condition, now: now) }
            let context = ConditionContext(destination: "/tmp", now: now)
            #expect(try await outcome { try condition.state(in: context) }.get() == row.state)
            await expectGood(results, client, fixture)
        }
    }

    @Test("The verifier keeps its contract, and finds what is broken in files of each kind")
    func verifier() async throws {
        let fixture = try PluginFixture()
        let client = try client(fixture, "file-structure", .verifier)
        let verifier = client
        let samples = VerifierSamples.all
        let files = try samples.map { sample in
            try fixture.root.write(sample.bytes, to: "staged/\(sample.name)")
            return StagedFile(
                path: sample.name, stagedPath: fixture.root.path("staged/\(sample.name)"),
                size: UInt64(sample.bytes.count), sha256: "")
        }
        let root = fixture.root
        let results = await blocking {
            check(verifier: verifier, files: files) { file in
                root.read("staged/\(file.path)") == samples.first { $0.name == file.path }?.bytes
            }
        }
        let verdicts = try await outcome { try verifier.verify(files) }.get()
        for (sample, verdict) in zip(samples, verdicts) {
            #expect((verdict == .accepted) == sample.isWhole, "\(sample.name): \(verdict)")
        }
        await expectGood(results, client, fixture)
    }

    @Test("The hook keeps its contract, and its table has the files")
    func hook() async throws {
        let fixture = try PluginFixture()
        try fixture.root.write("x", to: "dest/a.png")
        let database = fixture.root.path("index.sqlite")
        let client = try client(fixture, "sqlite-index", .hook, #"{"database":"\#(database)"}"#)
        let hook = client
        let report = #"{"revision":"7","entries":[{"path":"a.png","state":"installed","size":1,"sha256":"00"}]}"#
        let invocation = HookInvocation(
            arguments: ["plugin:sqlite-index"], directory: fixture.root.path("dest"),
            environment: ["SYNCAGENT_GROUP": "all"], input: Array(report.utf8), timeout: 30)
        let results = await blocking { check(hook: hook, invocation: invocation) }
        let again = await blocking { hook.run(invocation) }
        #expect(again.output == "files indexed: 1")
        // What could not be fetched keeps the row of what is there.
        var partial = invocation
        partial.input = Array(report.replacing("installed", with: "failed").utf8)
        let incomplete = partial
        let failed = await blocking { hook.run(incomplete) }
        #expect(failed.output == "files indexed: 0")
        // Sent after a crash: what is there counts, except for what is not of the set.
        try fixture.root.write("y", to: "dest/sub/b.png")
        try fixture.root.write("y", to: "dest/.syncagent/index")
        var late = invocation
        late.input = Array(#"{"revision":"7","late":true}"#.utf8)
        let afterwards = late
        let all = await blocking { hook.run(afterwards) }
        #expect(all.output == "files indexed: 2")
        // Behind links, they are not below the destination for programs that do not follow links.
        try fixture.root.write("z", to: "linked/.syncagent/rev/8/maps/c.png")
        for (link, target) in [(".syncagent/now", "rev/8"), ("maps", ".syncagent/now/maps")] {
            try FileManager.default.createSymbolicLink(
                atPath: fixture.root.path("linked/\(link)"), withDestinationPath: target)
        }
        late.directory = fixture.root.path("linked")
        let behindLinks = late
        let linked = await blocking { hook.run(behindLinks) }
        #expect(linked.output == "files indexed: 1")
        await expectGood(results, client, fixture)
        #expect(fixture.exists("index.sqlite"))
    }

    @Test("The observers keep their contract, and the room is told of the end of a run only")
    func observers() async throws {
        let fixture = try PluginFixture()
        let server = try FaultServer()
        let told = PostLog()
        server.respond(to: "/room") { request in
            told.add(request.method)
            return .status(200, text: "ok")
        }
        let chat = try client(fixture, "chat", .observer, #"{"url":"\#(server.url("/room"))"}"#)
        let observer = chat
        let results = await blocking { check(observer: observer) }
        #expect(results.failures == [])
        await blocking { chat.close() }
        #expect(told.methods == ["POST"])

        let template = try client(fixture, "template-python", .observer)
        let yes = template
        await expectGood(await blocking { check(observer: yes) }, template, fixture)
    }

    @Test("The transport keeps the contract that plugins check asks of any transport")
    func transport() async throws {
        let fixture = try PluginFixture()
        let server = try FaultServer()
        let object = ServedObject.patterned(size: 400_000)
        server.serve(object, at: "/a")
        let (url, missing) = (server.url("/a"), server.url("/none"))
        let program = try fixture.example("http-python")
        let results = await blocking {
            check(transport: url, holding: object.bytes, missing: missing, patience: .seconds(20)) {
                PluginTransport(fixture.client(fixture.configuration(program, point: .transport)))
            }
        }
        #expect(results.failures == [])
        #expect(results.count == 9)
    }

    @Test(
        "rclone brings what any of its remotes has, as a transport should [S80]",
        .enabled(if: rclone != nil, "SKIPPED: rclone is not installed"))
    func rcloneTransport() async throws {
        let fixture = try PluginFixture()
        let object = ServedObject.patterned(size: 400_000)
        try fixture.root.write(object.bytes, to: "remote/a b.bin")
        let remote = "[store]\ntype = alias\nremote = \(fixture.root.path)/remote\n"
        try fixture.root.write(Array(remote.utf8), to: "rclone.conf")
        let (url, missing) = ("rclone://store/a%20b.bin", "rclone://store/none")
        let settings = #"{"program":"\#(rclone ?? "")","config":"\#(fixture.root.path)/rclone.conf"}"#
        let program = try fixture.example("rclone")
        let results = await blocking {
            check(transport: url, holding: object.bytes, missing: missing, patience: .seconds(30)) {
                PluginTransport(
                    fixture.client(fixture.configuration(program, point: .transport) { $0.settings = settings }))
            }
        }
        #expect(results.failures == [])
        #expect(results.count >= 7)
    }

    @Test("Settings that are missing are refused with words that say what is missing")
    func missingSettings() async throws {
        let fixture = try PluginFixture()
        let rows: [(String, PluginPoint, String)] = [
            ("lan-mirror", .resolver, "the setting 'from' is missing"), ("token", .credential, "'origin' is missing"),
            ("interface-up", .condition, "'interface' is missing"), ("chat", .observer, "'url' is missing"),
            ("sqlite-index", .hook, "'database' is missing"), ("template-sh", .condition, "file is missing"),
        ]
        for (name, point, words) in rows {
            let client = try client(fixture, name, point)
            let result = await outcome { try client.describe() }
            #expect(result.code == .unavailable)
            #expect(result.message.contains(words), "\(result)")
        }
    }
}
