import SyncAgent
import SyncControlFixture
import SyncModel
import Testing

@testable import SyncDaemon
@testable import SyncServer

/// Sends a request, with a body where its command needs one.
///
/// - Returns: What the agent was asked, and the answer.
func ask(_ method: String, _ target: String) async -> (asked: [String], status: Int, text: String, allow: String?) {
    let bodies = [
        "POST /v1/agent/stop": #"{"mode":"release"}"#, "POST /v1/runs": #"{"manifest":"/m","destination":"/d"}"#,
        "POST /v1/sessions/tower/prioritize": #"{"paths":["b"]}"#,
    ]
    let agent = FakeAgent()
    let body = Array((bodies["\(method) \(target)"] ?? "").utf8)
    let answer = await server(at: "/none", of: agent).respond(
        to: HTTPRequest(method: method, target: target, headers: [:], body: body, client: "-", peerUser: 0))
    var text = ""
    if case .bytes(let bytes) = answer.body { text = String(decoding: bytes, as: UTF8.self) }
    return (await agent.asked, answer.status, text, answer.headers[.allow])
}

@Suite(.timeLimit(.minutes(10)))
struct RouteTests {
    @Test(
        "Every route of the API is found",
        arguments: [
            ("GET", "/v1/agent", "status"), ("POST", "/v1/agent/stop", "stop release"),
            ("GET", "/v1/sessions", "sessions"),
            ("GET", "/v1/sessions/com.example.tower", "session com.example.tower"),
            ("GET", "/v1/sessions/a%2Fb%20%C3%A4", "session a/b ä"),
            ("GET", "/v1/sessions/events", "session events"), ("POST", "/v1/runs", "enqueue"),
            ("POST", "/v1/sessions/a/pause", "pause a"), ("POST", "/v1/sessions/a/resume", "resume a"),
            ("POST", "/v1/sessions/a/cancel", "cancel a"),
            ("POST", "/v1/sessions/tower/prioritize", "prioritize tower b"),
            ("DELETE", "/v1/sessions/a", "remove a false"), ("DELETE", "/v1/sessions/a?files=1", "remove a true"),
            ("GET", "/v1/sessions/a/requests", "requests a"), ("GET", "/v1/sessions/a/tasks", "tasks a - -"),
            ("GET", "/v1/sessions/a/tasks?state=failed&path=b%2F*", "tasks a failed b/*"),
            ("GET", "/v1/sessions/a/events", "events a since 0 follow false progress false"),
            (
                "GET", "/v1/sessions/a/events?since=7&follow=1&progress=1",
                "events a since 7 follow true progress true"
            ), ("GET", "/v1/metrics", "metrics"), ("GET", "/v1/hooks", "hooks -"),
            ("GET", "/v1/hooks?session=a%20b", "hooks a b"), ("POST", "/v1/hooks/12/replay", "replay 12"),
        ]) func routes(method: String, target: String, asked: String) async
    { #expect(await ask(method, target).asked == [asked]) }

    @Test(
        "What is no route says why",
        arguments: [
            ("GET", "/", 404, "There is no / here."), ("GET", "/v2/agent", 404, "There is no /v2/agent here."),
            ("GET", "/v1/sessions/a/b/c", 404, ""), ("POST", "/v1/sessions/a/explode", 404, ""),
            ("POST", "/v1/hooks/x/replay", 404, ""), ("GET", "/v1/sessions/%zz", 404, ""),
            ("GET", "/v1/sessions/%00", 404, ""), ("GET", "/v1/sessions/%ff", 404, ""),
            ("GET", "/v1/sessions/%+1", 404, ""),
            ("GET", "/v1/hooks?session=%+1", 400, "The query has broken percent-encoding, or a NUL character."),
            ("GET", "/v1/agent?x=1", 400, "Unknown parameter 'x'."),
            ("GET", "/v1/sessions/a?files=1", 400, "Unknown parameter 'files'."),
            (
                "GET", "/v1/sessions/a/tasks?state=odd", 400,
                "'state' must be one of waiting, running, paused, installed, unchanged, failed, cancelled."
            ), ("GET", "/v1/sessions/a/events?since=-1", 400, "'since' must be a number, 0 or more."),
            ("GET", "/v1/sessions/a/events?follow=yes", 400, "'follow' must be 0 or 1."),
            ("GET", "/v1/sessions/a/events?since=1&since=2", 400, "'since' is given twice."),
        ])
    func refusals(method: String, target: String, status: Int, message: String) async {
        let answer = await ask(method, target)
        #expect(answer.asked == [] && answer.status == status && answer.text.contains(message), "\(answer)")
        #expect(answer.text.contains(status == 404 ? #""code":"not_found""# : #""code":"invalid""#))
    }

    @Test(
        "A route's other methods are not allowed, whatever else is wrong",
        arguments: [
            ("POST", "/v1/agent", "GET"), ("POST", "/v1/agent?x=1", "GET"), ("PUT", "/v1/sessions/a", "GET, DELETE"),
            ("GET", "/v1/runs", "POST"), ("PUT", "/v1/sessions/a/tasks?state=odd", "GET"),
        ])
    func methods(method: String, target: String, allowed: String) async {
        let answer = await ask(method, target)
        #expect(answer.asked == [] && answer.status == 405 && answer.allow == allowed)
        #expect(answer.text.contains("\(method) is not allowed here; \(allowed) is."))
    }

    @Test(
        "Nothing that configures the agent has a route [V57]",
        arguments: [
            "config", "configuration", "settings", "plugins", "credentials", "proxy", "rewrite", "schedules", "trust",
            "environment", "agent/config", "agent/settings", "agent/plugins", "sessions/a/config",
            "sessions/a/settings", "sessions/a/hooks",
        ], ["GET", "POST", "PUT", "PATCH", "DELETE"])
    func noConfiguration(path: String, method: String) async {
        let answer = await ask(method, "/v1/" + path)
        #expect(answer.asked == [] && answer.status == 404)
    }
}
