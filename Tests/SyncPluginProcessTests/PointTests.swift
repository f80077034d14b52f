import Foundation
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncSystem
import SyncTestKit
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct PointTests {
    // MARK: Credentials

    struct CredentialRow: Sendable, CustomTestStringConvertible {
        let json: String
        /// `nil` for a refusal.
        let means: Credential??
        var testDescription: String { json }
    }

    @Test(
        "Each kind of credential; one with a line end in it is refused whole [V28]",
        arguments: [
            CredentialRow(json: "{'credential': None}", means: .some(nil)),
            CredentialRow(
                json: "{'credential': {'kind': 'basic', 'user': 'u', 'password': 'p:q'}}",
                means: Credential(.basic(user: "u", password: "p:q"))),
            CredentialRow(
                json: "{'credential': {'kind': 'bearer', 'token': 't', 'expires': 17}}",
                means: Credential(.bearer(token: "t"), expires: 17)),
            CredentialRow(
                json: "{'credential': {'kind': 'sigv4', 'access_key': 'a', 'secret_key': 's', 'region': 'r', "
                    + "'service': 's3'}}",
                means: Credential(.sigV4(accessKey: "a", secretKey: "s", sessionToken: nil, region: "r", service: "s3"))
            ),
            CredentialRow(
                json: "{'credential': {'kind': 'headers', 'headers': {'X-Key': 'k'}}}",
                means: Credential(.headers([HeaderField("X-Key", "k")]))), CredentialRow(json: "{}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'basic', 'user': 'u'}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'basic', 'user': 'u:v', 'password': 'p'}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'bearer', 'token': 't\\r\\nHost: b'}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'basic', 'user': 'u\\n', 'password': 'p'}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'headers', 'headers': {'X': 'a\\nb'}}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'headers', 'headers': {'Host': 'b'}}}", means: nil),
            CredentialRow(json: "{'credential': {'kind': 'password'}}", means: nil),
        ]) func credential(row: CredentialRow) async throws
    {
        let fixture = try PluginFixture()
        let provider = try fixture.client("serve(lambda m: answer(m, \(row.json)))", point: .credential)
        let result = await outcome { try provider.credential(for: CredentialRequest(origin: "https://a.example")) }
        if let means = row.means {
            #expect(try result.get() == means)
        } else {
            #expect(result.code == .badAnswer)
            #expect(!result.message.contains("Host:"), "no secret in \(result.message)")
        }
    }

    @Test("A provider is told the origin and the refusal")
    func credentialRequest() async throws {
        let fixture = try PluginFixture()
        let body = "serve(lambda m: answer(m, {'credential': {'kind': 'bearer', 'token': json.dumps(m['params'])}}))"
        let provider = try fixture.client(body, point: .credential)
        let result = await outcome {
            try provider.credential(for: CredentialRequest(origin: "https://a.example:8443", refused: 401))
        }
        #expect(try result.get()?.kind == .bearer(token: #"{"origin": "https://a.example:8443", "refused": 401}"#))
    }

    // MARK: Conditions

    @Test(
        "Each state of a condition",
        arguments: [
            ("{'state': 'ok'}", ConditionState.ok),
            ("{'state': 'blocked', 'reason': 'busy\\x07', 'until': 5}", .blocked(reason: "busy\\u{7}", until: 5)),
            ("{'state': 'blocked'}", .blocked(reason: "plugin test gave no reason")),
            ("{'state': 'blocked', 'reason': 'x', 'until': 1e300}", .blocked(reason: "x")),
            ("{'state': 'blocked', 'reason': 'x', 'until': 'soon'}", .blocked(reason: "x")),
            ("{'state': 'blocked', 'reason': 'x', 'until': -(1 << 63)}", .blocked(reason: "x", until: .min)),
            ("{'state': 'unknown', 'reason': 'no answer'}", .unknown(reason: "no answer")),
            ("{'state': 'perhaps'}", nil), ("7", nil),
        ] as [(String, ConditionState?)])
    func condition(json: String, means: ConditionState?) async throws {
        let fixture = try PluginFixture()
        let condition = PluginCondition(try fixture.client("serve(lambda m: answer(m, \(json)))", point: .condition))
        #expect(condition.name == "test")
        let result = await outcome { try condition.state(in: ConditionContext(destination: "/d", now: 1)) }
        if let means { #expect(try result.get() == means) } else { #expect(result.code == .badAnswer) }
    }

    // MARK: Verifiers

    @Test("Files are verified in batches; their verdicts come in their order, and one missing fails all")
    func verifier() async throws {
        let fixture = try PluginFixture()
        let body = """
            def verdict(file):
                if "bad" in file["path"]:
                    return {"verdict": "refused", "reason": "%s at %s" % (file["path"], file["staged_path"])}
                return {"verdict": "accepted"}
            def handler(message):
                files = message["params"]["files"]
                answer(message, {"verdicts": [verdict(f) for f in files if "lost" not in f["path"]]})
            serve(handler)
            """
        let verifier = try fixture.client(body, point: .verifier)
        let files = (0..<150).map { number in
            StagedFile(
                path: number == 100 ? "bad" : "\(number)", stagedPath: "/s/\(number)", size: 1,
                sha256: String(repeating: "0", count: 64))
        }
        let verdicts = try await outcome { try verifier.verify(files) }.get()
        #expect(verdicts.count == 150)
        #expect(verdicts[100] == .refused(reason: "bad at /s/100"))
        #expect(verdicts.filter { $0 == .accepted }.count == 149)
        let lost = StagedFile(path: "lost", stagedPath: "/s", size: 1, sha256: "")
        #expect(await outcome { try verifier.verify([lost]) }.code == .badAnswer)
    }

    // MARK: Observers

    @Test("Events arrive in their order and are waited for")
    func observer() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                with open("\(fixture.root.path)/events", "a") as log:
                    for event in message["params"]["events"]:
                        log.write("%s %d\\n" % (event["name"], event["event"]["n"]))
                answer(message, None)
            serve(handler)
            """
        let observer = try fixture.client(body, point: .observer)
        let events = (0..<1_200).map { SessionEvent(json: #"{"event":"task.installed","n":\#($0)}"#) }
        try await outcome { try observer.observe(events) }.get()
        let wanted = (0..<1_200).map { "task.installed \($0)\n" }.joined()
        #expect(fixture.text("events") == wanted)
    }

    @Test("An observer that reads the fields that an event always has keeps its contract")
    func strictObserver() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                for event in (entry["event"] for entry in message["params"]["events"]):
                    if event["event"] == "pull.finished":
                        event["files"]["installed"] + event["bytes"]["received"] + event["elapsed_ms"]
                    if event["event"] == "task.installed":
                        len(event["path"] + event["source"]) + event["size"]
                answer(message, None)
            serve(handler)
            """
        let observer = try fixture.client(body, point: .observer)
        let results = await blocking { check(observer: observer) }
        #expect(results.failures == [])
    }

    @Test("An event with more of a hook's output than a line holds arrives with the end of it")
    func longEvent() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                with open("\(fixture.root.path)/events", "a") as log:
                    for event in message["params"]["events"]:
                        output = event["event"]["output"]
                        log.write("%s %d %s\\n" % (event["event"]["event"], len(output), output[-4:]))
                answer(message, None)
            serve(handler)
            """
        let observer = try fixture.client(body, point: .observer)
        let output = String(repeating: "\\u0001", count: 1_114_112) + "done"
        let event = SessionEvent(json: #"{"event":"hook.finished","output":"\#(output)"}"#)
        try await outcome { try observer.observe([event]) }.get()
        #expect(fixture.text("events") == "hook.finished 65537 done\n")
    }

    // MARK: Hooks

    @Test(
        "How a hook ends [F095]",
        arguments: [
            ("answer(message, {'status': 0, 'output': 'done'})", HookOutcome.End.exited(0), "done", false),
            ("answer(message, {'status': 3})", .exited(3), "", false),
            ("answer(message, {'status': 75})", .exited(75), "", true),
            (
                "send({'id': message['id'], 'error': {'code': 1, 'message': 'no disk'}})", .exited(1),
                "plugin test: no disk", false
            ), ("answer(message, 'fine')", .exited(70), "plugin test: its answer has no number 'status'", false),
            ("time.sleep(100)", .timedOut, "plugin test: no answer to hook.run within 1 s", false),
            ("os._exit(4)", .unknown("plugin test: it exited with status 4, before it answered"), "", true),
        ] as [(String, HookOutcome.End, String, Bool)])
    func hook(
        act: String, end: HookOutcome.End, output: String, isTransient: Bool
    ) async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                if message["method"] != "hook.run": return
                \(act)
            serve(handler)
            """
        let hook = try fixture.client(body, point: .hook)
        let result = await blocking { hook.run(invocation(timeout: 1)) }
        #expect(result.end == end)
        #expect(result.output == output)
        #expect(result.isTransient == isTransient)
    }

    @Test("A hook gets words, variables and the report; the report is gone afterwards")
    func hookRequest() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                p = message["params"]
                path = p.pop("report_path")
                answer(message, {"status": 0, "output": json.dumps(
                    [p, open(path).read(), oct(os.stat(os.path.dirname(path)).st_mode)], sort_keys=True)})
            serve(handler)
            """
        let client = try fixture.client(body, point: .hook)
        let hook = client
        let result = await blocking { hook.run(invocation(timeout: 60)) }
        #expect(
            result.output
                == #"[{"arguments": ["--fast"], "directory": "/d", "environment": {"SYNCAGENT_GROUP": "all"}, "#
                + #""timeout": 60}, "{\"report\":1}", "0o40700"]"#)
        await blocking { client.close() }
        let left = try FileManager.default.contentsOfDirectory(atPath: fixture.root.path)
        #expect(left == ["plugins"], "the report and its directory are gone")
    }

    @Test(
        "Nothing is put into a directory that others may swap for theirs: XDG_RUNTIME_DIR after sudo -E",
        .enabled(if: geteuid() == 0, "only root can give directories away"))
    func foreignDirectory() async throws {
        let fixture = try PluginFixture()
        let runtime = fixture.root.path("runtime")
        #expect(mkdir(runtime, 0o700) == 0 && chown(runtime, 4242, 4242) == 0)
        let body = "serve(lambda message: answer(message, {'status': 0, 'output': 'asked'}))"
        let client = try fixture.client(fixture.configuration(body, point: .hook) { $0.runtimeDirectory = runtime })
        let hook = client
        let result = await blocking { hook.run(invocation(timeout: 60)) }
        #expect("\(result.end) \(result.output)".contains("belongs to another user (uid 4242)"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: runtime) == [])
    }

    @Test("A hook plugin for which the system has nothing was not called; one that does not come up failed [F095]")
    func hookExhaustion() async throws {
        let fixture = try PluginFixture()
        let noThread = try fixture.client("serve(proceed)", point: .hook) {
            $0.startThread = { _, _ throws(ThreadError) in throw ThreadError(code: .resourceTemporarilyUnavailable) }
        }
        // A program that somebody has open for writing cannot be started for now: ETXTBSY, execve(2).
        let busy = try fixture.client("serve(proceed)", named: "busy", point: .hook)
        let writer = try #require(FileHandle(forWritingAtPath: fixture.root.path("plugins/syncagent-plugin-busy")))
        let broken = try fixture.client("sys.exit(3)", named: "broken", point: .hook)
        for (client, isExhaustion) in [(noThread, true), (busy, true), (broken, false)] {
            let result = await blocking { client.run(invocation(timeout: 60)) }
            guard case .notStarted = result.end else {
                Issue.record("\(client.name): \(result)")
                continue
            }
            #expect(result.isTransient && result.isExhaustion == isExhaustion, "\(client.name): \(result)")
        }
        try writer.close()
    }

    @Test("A hook is stopped when the caller stops")
    func hookStopped() async throws {
        let fixture = try PluginFixture()
        let body = """
            def handler(message):
                if message["method"] == "hook.run": open("\(fixture.root.path)/running", "w").write("x")
            serve(handler)
            """
        let hook = try fixture.client(body, point: .hook)
        let root = fixture.root
        var call = invocation(timeout: 60)
        call.isStopped = { root.read("running") != nil }
        let result = await blocking { [call] in hook.run(call) }
        #expect(result.end == .stopped)
    }
}

private func invocation(timeout: Int) -> HookInvocation {
    HookInvocation(
        arguments: ["plugin:test", "--fast"], directory: "/d", environment: ["SYNCAGENT_GROUP": "all"],
        input: Array(#"{"report":1}"#.utf8), timeout: timeout)
}
