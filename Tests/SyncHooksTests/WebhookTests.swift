import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

@Suite("Webhooks", .timeLimit(.minutes(10)))
struct WebhookTests {
    private let server: FaultServer
    private let hook: WebhookHook

    init() throws {
        server = try FaultServer()
        hook = WebhookHook(userAgent: "syncagent", connectTimeout: .seconds(30))
    }

    private func call(
        _ url: String? = nil, input: [UInt8] = Array("{\"a\":1}".utf8), timeout: Int = 20,
        batch: [String: String] = [:], isStopped: @escaping @Sendable () -> Bool = { false }
    ) -> HookOutcome {
        hook.run(
            HookInvocation(
                arguments: [url ?? server.url("/hook")], directory: "/",
                environment: [
                    "SYNCAGENT_RUN_ID": "run-1", "SYNCAGENT_GROUP": "all", "SYNCAGENT_RESULT": "ok",
                    "SYNCAGENT_ATTEMPT": "2", "SYNCAGENT_SESSION": "tower\r\nX-Evil: 1",
                ].merging(batch) { $1 }, input: input, timeout: timeout, isStopped: isStopped))
    }

    @Test("The report is posted with what tells a repetition, and nothing can add a header [V27]")
    func posts() throws {
        let seen = Mutex<[ServedRequest]>([])
        server.respond(to: "/hook") { request in
            seen.withLock { $0.append(request) }
            return .status(204)
        }
        let report = (0..<200_000).map { UInt8($0 % 251) }
        #expect(call(input: report).succeeded)
        let request = try #require(seen.withLock { $0.first })
        #expect(request.method == "POST" && request.body == report)
        #expect(request.header("content-type") == "application/json")
        #expect(request.header("idempotency-key") == "run-1/all" && request.header("syncagent-attempt") == "2")
        #expect(request.header("x-evil") == nil)
        #expect(request.header("authorization") == nil && request.header("cookie") == nil)
    }

    @Test("Each batch of files has a key of its own; so has what is sent late, and each of several webhooks [S131 V27]")
    func batches() throws {
        let seen = Mutex<[ServedRequest]>([])
        server.respond(to: "/hook") { request in
            seen.withLock { $0.append(request) }
            return .status(204)
        }
        let second = ["SYNCAGENT_BATCH": "2", "SYNCAGENT_BATCHES": "3"]
        #expect(call(batch: second).succeeded)
        #expect(call(batch: second.merging(["SYNCAGENT_LATE": "1"]) { $1 }).succeeded)
        #expect(call(batch: ["SYNCAGENT_HOOK": "7", "SYNCAGENT_ROLLBACK": "1"]).succeeded)
        let requests = seen.withLock { $0 }
        let keys = requests.map { $0.header("idempotency-key") }
        #expect(keys == ["run-1/all/2-of-3", "run-1/all/late/2-of-3", "run-1/all/7"])
        #expect(requests.first?.header("syncagent-batch") == "2" && requests.first?.header("syncagent-batches") == "3")
        #expect(requests.map { $0.header("syncagent-rollback") } == [nil, nil, "1"])
    }

    @Test("What is posted for no run has no key: a receiver would take the second request for a repetition")
    func withoutRun() throws {
        let seen = Mutex<[ServedRequest]>([])
        server.respond(to: "/hook") { request in
            seen.withLock { $0.append(request) }
            return .status(204)
        }
        let outcome = hook.run(
            HookInvocation(
                arguments: [server.url("/hook")], directory: "/", environment: [:], input: Array("{}".utf8), timeout: 20
            ))
        #expect(outcome.succeeded)
        let request = try #require(seen.withLock { $0.first })
        #expect(request.header("idempotency-key") == nil && request.header("content-type") == "application/json")
    }

    @Test(
        "What an answer means",
        arguments: [
            (200, 0, false), (204, 0, false), (302, 1, false), (400, 1, false), (404, 1, false), (408, 75, true),
            (429, 75, true), (500, 75, true), (503, 75, true),
        ])
    func answers(status: Int, exit: Int32, isTransient: Bool) {
        server.script("/hook", .status(status, text: "because").setting("Location", server.url("/other")))
        let outcome = call()
        #expect(outcome.end == .exited(exit) && outcome.isTransient == isTransient)
        #expect(outcome.output.hasPrefix("HTTP \(status)"))
        #expect(server.log.requests(to: "/other").isEmpty, "no redirect is followed")
    }

    @Test("What a server repeats of the URL is not kept [V64]")
    func repeated() {
        let page = "Cannot POST /hook/s3cret?token=abc&amp;b=2, that is /hook/s3cret?token=abc&b=2"
        server.script("/hook/s3cret", .status(404, text: page))
        #expect(call(server.url("/hook/s3cret?token=abc&b=2")).output == "HTTP 404\nCannot POST …?…&amp;b=2, that is …")
        let message = #"{"message":"The route hook\/s3cret-9f8a could not be found."}"#
        server.script("/hook/s3cret-9f8a", .status(404, text: message))
        let told = call(server.url("/hook/s3cret-9f8a")).output
        #expect(told == "HTTP 404\n" + #"{"message":"The route hook\/… could not be found."}"#)
    }

    @Test("A server that is not there asks to be called again")
    func unreachable() throws {
        try server.closePort()
        let outcome = call()
        #expect(outcome.end == .exited(75) && outcome.isTransient)
        #expect(outcome.output.contains("127.0.0.1"))
    }

    @Test("A deadline and a stop end it [S34]")
    func ends() {
        server.script("/hook", .status(200, text: "slow").stalling(at: 1))
        #expect(call(timeout: 1).end == .timedOut)
        #expect(call(isStopped: { true }).end == .stopped)
        server.releaseStalls()
    }

    @Test("A text that is no URL is not called, and the outcome says so", arguments: ["", "ftp://a/", "http://"])
    func noURL(text: String) {
        guard case .notStarted = call(text).end else {
            Issue.record("\(text) was called")
            return
        }
    }

    @Test("Logs show of a webhook only where it is [V64]")
    func shown() {
        #expect(shownHookProgram("https://u:p@chat.example:8443/secret?t=1") == "https://chat.example:8443/…")
        #expect(shownHookProgram("/opt/http://x") == "/opt/http://x")
        #expect(shownHookProgram("plugin:reindex") == "plugin:reindex")
        #expect(isHookProgram("HTTPS://chat.example/secret") && !isHookProgram("https:/chat.example/secret"))
    }
}
