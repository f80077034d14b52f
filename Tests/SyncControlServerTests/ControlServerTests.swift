import Foundation
import SyncAgent
import SyncControlFixture
import SyncDaemon
import SyncModel
import Testing

private let needsCurl = ConditionTrait.enabled(if: Curl.path != nil, "SKIPPED: no curl")

private let tower = """
    {"destination":"/srv/tower","is_interrupted":false,"last_sequence":3,"limiter_delay_seconds":0,"owed_hooks":0,\
    "project":"com.example.tower","session":"com.example.tower","state":"STATE"}\n
    """

@Suite(.timeLimit(.minutes(10)))
struct ControlServerTests {
    @Test(
        "curl --unix-socket reaches every command, and the answer is what the documents say", needsCurl,
        arguments: [
            (["GET", "/v1/sessions/com.example.tower"], "session com.example.tower", 200, "running"),
            (["POST", "/v1/sessions/com.example.tower/pause"], "pause com.example.tower", 200, "paused"),
            (["POST", "/v1/sessions/com.example.tower/resume"], "resume com.example.tower", 200, "running"),
            (["POST", "/v1/sessions/com%2Eexample.tower/cancel"], "cancel com.example.tower", 200, "idle"),
            (
                ["POST", "/v1/sessions/com.example.tower/prioritize", #"{"paths":["a/b","c"]}"#],
                "prioritize com.example.tower a/b|c", 200, "running"
            ), (["DELETE", "/v1/sessions/com.example.tower?files=1"], "remove com.example.tower true", 204, nil),
        ] as [([String], String, Int, String?)])
    func commands(
        request: [String], asked: String, status: Int, state: String?
    ) async throws {
        let agent = FakeAgent()
        let answer = try await withServer(of: agent) { socket in
            let body = request.count > 2 ? ["--data-binary", request[2]] : []
            return try await Curl(socket).run(["-X", request[0]] + body, request[1])
        }
        #expect(answer.status == status)
        #expect(answer.body == (state.map { tower.replacing("STATE", with: $0) } ?? ""))
        #expect(answer.headers["syncagent-version"] == "9.8.7")
        #expect(answer.headers["date"] == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(await agent.asked == [asked])
    }

    @Test("Metrics are text in the format that Prometheus reads", needsCurl)
    func metrics() async throws {
        let agent = FakeAgent()
        let answer = try await withServer(of: agent) { socket in try await Curl(socket).run([], "/v1/metrics") }
        #expect(answer.status == 200 && answer.body == "# HELP up Always 1.\n# TYPE up gauge\nup 1\n")
        #expect(answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
        #expect(await agent.asked == ["metrics"])
    }

    @Test("The agent, sessions and hooks are listed; a hook is replayed", needsCurl)
    func lists() async throws {
        let agent = FakeAgent()
        let bodies = try await withServer(of: agent) { socket in
            let curl = Curl(socket)
            var bodies: [String] = []
            for target in ["/v1/agent", "/v1/sessions", "/v1/hooks?session=a"] {
                bodies.append(try await curl.run([], target).body)
            }
            bodies.append(try await curl.run(["-X", "POST"], "/v1/hooks/7/replay").body)
            let stop = try await curl.run(["-d", #"{"mode":"release"}"#], "/v1/agent/stop")
            #expect(stop.status == 202)
            return bodies
        }
        #expect(
            bodies[0] == """
                {"maximum_runs":2,"on_demand":false,"process":42,"running":1,"sessions":1,\
                "started":"1970-01-01T00:00:00.000Z","state":"running","state_directory":"/state","version":"0.0.0"}\n
                """)
        #expect(bodies[1] == #"{"sessions":[\#(tower.dropLast().replacing("STATE", with: "running"))]}"# + "\n")
        #expect(bodies[2].hasPrefix(#"{"hooks":[{"arguments":["/bin/true"],"attempt":2,"ended":"exit 3""#))
        #expect(bodies[3].contains(#""state":"pending""#))
        #expect(await agent.asked == ["status", "sessions", "hooks a", "replay 7", "stop release"])
    }

    @Test("A run is enqueued with 201, the same again with 200; what is left out has its default", needsCurl)
    func enqueue() async throws {
        let agent = FakeAgent()
        let request = """
            {"manifest":"https://example.org/m.json","destination":"/srv/tower","session":"t",
             "hooks":[{"arguments":["/bin/true"]}],"limit_rate":1000,"not_before":"2026-11-20T02:00:00+01:00",
             "user_data":{"a\\u0000":["\\u0000"]}}
            """
        try await withServer(of: agent) { socket in
            let first = try await Curl(socket).run(["--data-binary", request], "/v1/runs")
            #expect(first.status == 201)
            #expect(
                first.body == """
                    {"is_new":true,"not_before":"2026-11-20T01:00:00.000Z","run":"run-1","session":"t",\
                    "state":"waiting","superseded":[]}\n
                    """)
            #expect(try await Curl(socket).run(["--data-binary", request], "/v1/runs").status == 200)
        }
        var expected = EnqueueRequest(manifest: "https://example.org/m.json", destination: "/srv/tower")
        expected.session = "t"
        expected.hooks = [RunHook(arguments: ["/bin/true"])]
        expected.settings.limitRate = 1000
        expected.notBefore = WallTime(milliseconds: 1_795_136_400_000)
        expected.userData = .object(["a\u{0}": .array([.string("\u{0}")])])
        #expect(await agent.requests.first == expected)
    }

    @Test(
        "A body that makes no sense is refused and says what is wrong with it", needsCurl,
        arguments: [
            (#"{"manifest":"m","destination":"/d","colour":1}"#, "Unknown key 'colour'."),
            (#"{"manifest":"m","destination":"/d","limitRate":1}"#, "Unknown key 'limitRate'."),
            (
                #"{"manifest":"m","destination":"/d","hooks":[{"arguments":[],"shell":"x"}]}"#,
                "Unknown key 'hooks.shell'."
            ), (#"{"manifest":"m"}"#, "'destination' is missing"),
            (#"{"manifest":1,"destination":"/d"}"#, "'manifest' has the wrong type"),
            (#"{"manifest":"m","destination":"/d","not_before":"soon"}"#, "not a time such as"),
            (#"{"manifest":"m","destination":"/d","origin":"me"}"#, "'origin' has a value that is not known"),
            (#"{"manifest":"m","destination":"/d","umask":"9"}"#, "'umask' is not one to three octal digits"),
            (#"{"manifest":"m","destination":"/d","limit_rate":-5}"#, "a number in it is negative"),
            (#"{"manifest":"m""#, "not one JSON object"),
            (#"{"manifest":"m","destination":"/tmp/\u0000x"}"#, "'destination' has a NUL character"),
            (
                #"{"manifest":"m","destination":"/d","hooks":[{"arguments":["/x","a\u0000"]}]}"#,
                "'hooks.arguments' has a NUL character"
            ),
            (
                #"{"manifest":"m","destination":"/d","configuration":{"hooks":{"user_data":{"arguments":["\u0000"]}}}}"#,
                "'configuration.hooks.user_data.arguments' has a NUL character"
            ), (#"{"manifest":"m","destination":"/d","destination":"/e"}"#, "'destination' appears twice"),
            (
                #"{"manifest":"m","destination":"/d","hooks":[{"arguments":[],"group":"a","gr\u006fup":"b"}]}"#,
                "'group' appears twice"
            ), ("[]", "not one JSON object"), ("", "not one JSON object"),
        ]) func badBodies(body: String, words: String) async throws
    {
        let agent = FakeAgent()
        let answer = try await withServer(of: agent) { socket in
            try await Curl(socket).run(["-X", "POST", "--data-binary", body], "/v1/runs")
        }
        #expect(answer.status == 400)
        let error = try #require(ControlError(body: Array(answer.body.utf8)))
        #expect(error.code == .invalid)
        #expect(error.exitStatus == .usage)
        #expect(error.message.contains(words), "\(error.message)")
        #expect(await agent.asked == [])
    }

    @Test(
        "A command that takes nothing refuses what is said to it, by name", needsCurl,
        arguments: [
            ("POST", "sessions/a/pause"), ("POST", "sessions/a/resume"), ("POST", "sessions/a/cancel"),
            ("POST", "hooks/7/replay"), ("DELETE", "sessions/a"),
        ])
    func unasked(method: String, command: String) async throws {
        let agent = FakeAgent()
        let answer = try await withServer(of: agent) { socket in
            try await Curl(socket).run(["-X", method, "--data-binary", #"{"deadline":1}"#], "/v1/\(command)")
        }
        #expect(answer.status == 400 && answer.body.contains("Unknown key 'deadline'"), "\(answer.body)")
        #expect(await agent.asked == [])
    }

    @Test("A run brings no configuration, and the words of its hook stay words [V57]", needsCurl)
    func requestsOnly() async throws {
        let agent = FakeAgent()
        let words = ["/bin/echo", "$(touch x)", "`id`", "a; b", "|", "*", "\\'\""]
        try await withServer(of: agent) { socket in
            let start = #"{"manifest":"https://example.org/m.json","destination":"/d""#
            for key in ["plugins", "credentials", "proxy", "rewrite", "environment", "state_directory", "config"] {
                let answer = try await Curl(socket).run(["-d", #"\#(start),"\#(key)":{}}"#], "/v1/runs")
                #expect(answer.status == 400 && answer.body.contains("Unknown key '\(key)'"), "\(answer.body)")
            }
            let list = JSONValue.array(words.map { .string($0) }).text
            let body = #"\#(start),"hooks":[{"arguments":\#(list)}]}"#
            #expect(try await Curl(socket).run(["--data-binary", body], "/v1/runs").status == 201)
        }
        #expect(await agent.requests.map(\.hooks) == [[RunHook(arguments: words)]])
    }

    @Test("A body above 1 MiB is refused", needsCurl)
    func longBody() async throws {
        let agent = FakeAgent()
        let file = FileManager.default.temporaryDirectory.path + "/sa-body-\(UUID().uuidString)"
        try Data(repeating: 0x20, count: 1_100_000).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let answer = try await withServer(of: agent) { socket in
            try await Curl(socket).run(["--data-binary", "@\(file)"], "/v1/runs")
        }
        #expect(answer.status == 400)
        #expect(answer.body.contains("longer than 1 MiB"))
    }

    @Test(
        "The code of an error decides the status, and the exit status goes with it", needsCurl,
        arguments: [
            (ControlError.Code.unknownSession, 404), (.notFound, 404), (.busy, 409), (.refused, 409), (.invalid, 400),
            (.stopping, 503), (.unreachable, 502), (.failed, 422), (.internal, 500),
        ])
    func errors(code: ControlError.Code, status: Int) async throws {
        let agent = FakeAgent()
        await agent.fail(code, "It went \"wrong\".", .busy)
        let answer = try await withServer(of: agent) { try await Curl($0).run([], "/v1/sessions") }
        #expect(answer.status == status)
        #expect(
            answer.body == #"{"error":{"code":"\#(code.rawValue)","exit_status":75,"message":"It went \"wrong\"."}}"#
                + "\n")
    }

    @Test("The cause of an error crosses the wire; the exit status implies it where nothing says more")
    func causes() throws {
        for (error, cause) in [
            (ControlError(.failed, "x", exitStatus: .refused, cause: .signature), FailureCause.signature),
            (ControlError(.failed, "x", exitStatus: .ioError, cause: .diskFull), .diskFull),
            (ControlError(.busy, "x", exitStatus: .busy), .busy),
        ] {
            let bytes = try ["error": error].controlJSON()
            #expect(ControlError(body: bytes)?.cause == cause)
        }
    }

    @Test("What is not there is 404, a wrong method 405 with what is allowed", needsCurl)
    func notThere() async throws {
        try await withServer(of: FakeAgent()) { socket in
            let missing = try await Curl(socket).run([], "/v1/nothing")
            #expect(missing.status == 404)
            #expect(missing.body.contains("not_found"))
            let method = try await Curl(socket).run(["-X", "DELETE"], "/v1/agent")
            #expect(method.status == 405)
            #expect(method.headers["allow"] == "GET")
        }
    }
}
