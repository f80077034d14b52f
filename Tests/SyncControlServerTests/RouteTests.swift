import SyncModel
import Testing

@testable import SyncDaemon

@Suite(.timeLimit(.minutes(10)))
struct RouteTests {
    @Test(
        "Every route of the API is found",
        arguments: [
            ("GET", "/v1/agent", Route.agent), ("POST", "/v1/agent/stop", .stopAgent),
            ("GET", "/v1/sessions", .sessions),
            ("GET", "/v1/sessions/com.example.tower", .session("com.example.tower")),
            ("GET", "/v1/sessions/a%2Fb%20%C3%A4", .session("a/b ä")),
            ("GET", "/v1/sessions/events", .session("events")), ("POST", "/v1/runs", .enqueue),
            ("POST", "/v1/sessions/a/pause", .pause("a")), ("POST", "/v1/sessions/a/resume", .resume("a")),
            ("POST", "/v1/sessions/a/cancel", .cancel("a")), ("POST", "/v1/sessions/a/prioritize", .prioritize("a")),
            ("DELETE", "/v1/sessions/a", .remove("a", files: false)),
            ("DELETE", "/v1/sessions/a?files=1", .remove("a", files: true)),
            ("GET", "/v1/sessions/a/requests", .requests("a")),
            ("GET", "/v1/sessions/a/tasks", .tasks("a", state: nil, path: nil)),
            ("GET", "/v1/sessions/a/tasks?state=failed&path=b%2F*", .tasks("a", state: .failed, path: "b/*")),
            ("GET", "/v1/sessions/a/events", .events("a", since: 0, follow: false, progress: false)),
            (
                "GET", "/v1/sessions/a/events?since=7&follow=1&progress=1",
                .events("a", since: 7, follow: true, progress: true)
            ), ("GET", "/v1/metrics", .metrics), ("GET", "/v1/hooks", .hooks(session: nil)),
            ("GET", "/v1/hooks?session=a%20b", .hooks(session: "a b")), ("POST", "/v1/hooks/12/replay", .replay(12)),
        ]) func routes(method: String, target: String, route: Route) throws
    { #expect(try Route(method: method, target: target) == route) }

    @Test(
        "What is no route says why",
        arguments: [
            ("GET", "/", Route.Refusal.notFound), ("GET", "/v2/agent", .notFound),
            ("GET", "/v1/sessions/a/b/c", .notFound), ("POST", "/v1/sessions/a/explode", .notFound),
            ("POST", "/v1/hooks/x/replay", .notFound), ("GET", "/v1/sessions/%zz", .notFound),
            ("GET", "/v1/sessions/%00", .notFound), ("GET", "/v1/sessions/%ff", .notFound),
            ("GET", "/v1/sessions/%+1", .notFound),
            ("GET", "/v1/hooks?session=%+1", .badQuery("The query has broken percent-encoding, or a NUL character.")),
            ("POST", "/v1/agent", .methodNotAllowed(allowed: "GET")),
            ("PUT", "/v1/sessions/a", .methodNotAllowed(allowed: "GET, DELETE")),
            ("GET", "/v1/runs", .methodNotAllowed(allowed: "POST")),
            ("GET", "/v1/agent?x=1", .badQuery("Unknown parameter 'x'.")),
            (
                "GET", "/v1/sessions/a/tasks?state=odd",
                .badQuery("'state' must be one of waiting, running, paused, installed, unchanged, failed, cancelled.")
            ), ("GET", "/v1/sessions/a/events?since=-1", .badQuery("'since' must be a number, 0 or more.")),
            ("GET", "/v1/sessions/a/events?follow=yes", .badQuery("'follow' must be 0 or 1.")),
            ("GET", "/v1/sessions/a/events?since=1&since=2", .badQuery("'since' is given twice.")),
        ])
    func refusals(method: String, target: String, refusal: Route.Refusal) {
        #expect(throws: refusal) { try Route(method: method, target: target) }
    }

    @Test(
        "Nothing that configures the agent has a route [V57]",
        arguments: [
            "config", "configuration", "settings", "plugins", "credentials", "proxy", "rewrite", "schedules", "trust",
            "environment", "agent/config", "agent/settings", "agent/plugins", "sessions/a/config",
            "sessions/a/settings", "sessions/a/hooks",
        ], ["GET", "POST", "PUT", "PATCH", "DELETE"])
    func noConfiguration(path: String, method: String) {
        #expect(throws: Route.Refusal.notFound) { try Route(method: method, target: "/v1/" + path) }
    }
}
