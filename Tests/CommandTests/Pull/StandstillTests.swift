import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

@Suite("What is said while nothing comes", .timeLimit(.minutes(10)))
struct StandstillTests {
    @Test("A server that asks for a pause, and one that falls silent: since when, until when, what is behind [S27 S53]")
    func told() throws {
        let wire = try Wire()
        wire.edge.script("/cdn/big.bin", .unavailable(503, retryAfter: "30"))
        var pull = try wire.start()
        let asked = try #require(try wire.look { $0.first?["until"] is String }.first)
        // RFC 3339 in UTC: as text they are in the order of time.
        let (since, until) = (asked["since"] as? String ?? "?", asked["until"] as? String ?? "")
        #expect(since <= Date().ISO8601Format(), "not in the future")
        #expect(since < until, "\(asked)")
        let text = try wire.tool.run(["status", "com.example.wire"]).output
        #expect(text.contains("waiting for \(wire.edge.url("")): ") && text.contains(" until 2"), "\(text)")
        kill(pull.processIdentifier, SIGKILL)
        pull.waitUntilExit()

        let silent = try Wire()
        silent.edge.script("/cdn/big.bin", .object(silent.big).stalling(at: 1_000_000))
        silent.origin.script("/small.bin", .redirect(to: silent.edge.url("/small.bin")))
        silent.edge.script("/small.bin", .object(silent.small).stalling(at: 1_000))
        pull = try silent.start(["--connections", "1"])
        let requests = try silent.look("--requests") { $0.contains { $0["state"] as? String == "stalled" } }
        let queued = try #require(requests.first { $0["state"] as? String == "queued" }, "\(requests)")
        #expect((queued["reason"] as? String)?.hasPrefix("behind 1 at ") == true, "\(queued)")
        let still = try #require(try silent.look { $0.first?["reason"] as? String == "connectivity" }.first)
        let waits = (still["run"] as? [String: Any])?["waits"] as? [String]
        #expect(waits == ["waiting for \(silent.edge.url("")): no data arrives"])
        // Once data arrives again, the state says so.
        silent.edge.script("/small.bin", .object(silent.small))
        silent.edge.script("/cdn/big.bin", .object(silent.big).stalling(at: 2_000_000))
        silent.edge.releaseStalls()
        _ = try silent.look { $0.first?["reason"] == nil }
        silent.edge.script("/cdn/big.bin", .object(silent.big))
        silent.edge.releaseStalls()
        pull.waitUntilExit()
        #expect(pull.terminationStatus == 0)
    }

    @Test("A log-in page that comes again and again is no progress: no bytes, no rate, and what is waited for [S53]")
    func loginPage() throws {
        let wire = try Wire()
        wire.edge.script("/cdn/big.bin", .captivePortal())
        wire.origin.script("/small.bin", .captivePortal())
        let pull = try wire.pull(["--progress", "--patience", "3s"])
        #expect([2, 69].contains(pull.status), "\(pull.error)")
        let told = try pull.objects().filter { $0["phase"] as? String == "fetching" }
        #expect(told.count > 5)
        #expect(told.allSatisfy { $0["bytes_done"] as? Int == 0 && $0["received"] as? Int == 0 }, "\(told)")
        #expect(told.contains { $0["host"] as? String == "127.0.0.1" && $0["until"] is String }, "\(told)")
        let end = try #require(try pull.objects().last)
        let received = (end["bytes"] as? [String: Any])?["received"] as? Int ?? 0
        #expect(received > 0, "what is counted off the wire counts it")
    }
}
