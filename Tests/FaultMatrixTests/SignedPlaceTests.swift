import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import SyncTransfer
import Testing

/// Places of a signed set that give too little: one that drips, one that is dead, and several that are of no use in ways of
/// their own.
@Suite("Places of signed sets", .timeLimit(.minutes(5)))
struct SignedPlaceTests {
    /// What is published, by the built program; served by servers of this process.
    private final class Published: Sendable {
        let root: TemporaryRoot
        private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("syncagent").path

        init(mirrors: [String]) throws {
            root = try TemporaryRoot()
            try run(
                ["keys", "new", root.path("keys"), "--project", "com.example.tower"]
                    + mirrors.flatMap { ["--mirror", $0 + "/"] })
            try publish("one")
        }

        func run(_ arguments: [String]) throws {
            let program = try ChildProgram(
                Self.program, arguments, output: root.path("said"),
                environment: ["HOME": root.path, "XDG_STATE_HOME": root.path("publishing")])
            try require(try program.wait(within: .seconds(60)) == 0, program.output)
        }

        func publish(_ text: String, to site: String = "site", keys: String = "keys") throws {
            try root.write(Array(text.utf8), to: "assets/a.txt")
            try run(["publish", root.path("assets"), "--to", root.path(site), "--sign", root.path(keys)])
        }

        func rotate(_ role: String) throws { try run(["keys", "rotate", root.path("keys"), "--role", role]) }

        func copy(_ site: String, to other: String) throws {
            try FileManager.default.copyItem(atPath: root.path(site), toPath: root.path(other))
        }

        /// Serves a directory, as it is at each request.
        func serve(
            _ site: String, on server: FaultServer,
            bending bend: @escaping @Sendable (String, FaultAnswer) -> FaultAnswer = { $1 }
        ) {
            server.respondToOthers { [root] request in
                guard let data = FileManager.default.contents(atPath: root.path(site) + request.path) else {
                    return .status(404)
                }
                return bend(request.path, .object(ServedObject([UInt8](data))))
            }
        }

        /// Believes these keys, and waits so long for each place.
        func trust(_ patience: Duration) throws -> TrustChoice {
            var trust = TrustChoice()
            let path = root.path("keys/1.root")
            let bytes = try #require(FileManager.default.contents(atPath: path))
            trust.anchor = .file(path: path, [UInt8](bytes))
            trust.patience = patience
            return trust
        }
    }

    /// A byte every 300 ms: never silent for long, and never at an end.
    private static func drip(_ answer: FaultAnswer) -> FaultAnswer { answer.dripping(1, every: .milliseconds(300)) }

    /// Where, and as what, places were refused.
    private static func refusals(_ runner: PullRunner) throws -> [String] {
        try runner.told.compactMap { line in
            let event = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
            guard event["event"] as? String == "trust.refused" else { return nil }
            return "\(event["url"] ?? "") \(event["cause"] ?? "")"
        }
    }

    private static func text(_ runner: PullRunner) -> String? {
        FileManager.default.contents(atPath: runner.destination + "/a.txt").map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "A place that drips a statement is left after its time, named, and asked last the next time",
        arguments: ["/trust/fresh", "/trust/2.root", "/trust/2.release", "/manifests/"])
    func drips(path: String)
        async throws
    {
        let (first, mirror) = (try FaultServer(), try FaultServer())
        let set = try Published(mirrors: [mirror.url("")])
        set.serve("site", on: first)
        set.serve("site", on: mirror)
        let runner = try PullRunner()
        let manifest = first.url("/manifest.json")
        guard case .report = try await runner.pull(manifest, trust: set.trust(.seconds(30))) else {
            Issue.record("the first pull was refused")
            return
        }
        try set.rotate("fresh")
        try set.publish("two")
        set.serve("site", on: first) { asked, answer in asked.hasPrefix(path) ? Self.drip(answer) : answer }
        let began = ContinuousClock.now
        let outcome = try await runner.pull(manifest, trust: set.trust(.seconds(1)))
        guard case .report(let report) = outcome, report.result == .ok else {
            Issue.record("\(outcome)")
            return
        }
        // A transfer of the transport alone would take minutes for the kilobyte.
        #expect(ContinuousClock.now - began < .seconds(15))
        #expect(Self.text(runner) == "two")
        let refusals = try Self.refusals(runner)
        #expect(refusals.count == 1 && refusals[0].hasPrefix(first.url(path)), "\(refusals)")
        #expect(refusals[0].hasSuffix(" slow"), "\(refusals)")

        let asked = first.log.requestCount
        guard case .report = try await runner.pull(manifest, trust: set.trust(.seconds(1))) else {
            Issue.record("the third pull was refused")
            return
        }
        #expect(try Self.refusals(runner) == [])
        #expect(first.log.requestCount == asked)
    }

    @Test("When every place drips, the pull ends with 69 after the time of each, and nothing is touched")
    func allDrip() async throws {
        let (first, mirror) = (try FaultServer(), try FaultServer())
        let set = try Published(mirrors: [mirror.url("")])
        set.serve("site", on: first)
        let runner = try PullRunner()
        let manifest = first.url("/manifest.json")
        _ = try await runner.pull(manifest, trust: set.trust(.seconds(30)))
        #expect(Self.text(runner) == "one")
        try set.publish("two")
        for server in [first, mirror] {
            set.serve("site", on: server) { asked, answer in asked.hasSuffix("/fresh") ? Self.drip(answer) : answer }
        }
        let began = ContinuousClock.now
        guard case .refused(let error) = try await runner.pull(manifest, trust: set.trust(.seconds(1))) else {
            Issue.record("it was believed")
            return
        }
        #expect(error.status == .unavailable)
        #expect(error.message.contains("/trust/fresh: it takes too long to arrive; nothing was changed"))
        #expect(ContinuousClock.now - began < .seconds(15))
        #expect(try Self.refusals(runner) == [first, mirror].map { $0.url("/trust/fresh") + " slow" })
        #expect(Self.text(runner) == "one")
    }

    @Test("A server that shows a page for whatever it lacks has no next root; a page in a statement's place is named")
    func pages() async throws {
        let server = try FaultServer()
        let set = try Published(mirrors: [])
        let page = FaultAnswer.object(ServedObject(text: "<!DOCTYPE html><p>App", contentType: "text/html"))
        func serve(without name: String) {
            server.respondToOthers { [root = set.root] request in
                let data = FileManager.default.contents(atPath: root.path("site") + request.path)
                guard let data, !request.path.hasSuffix(name) else { return page }
                return .object(ServedObject([UInt8](data)))
            }
        }
        serve(without: "/2.root")
        let runner = try PullRunner()
        let manifest = server.url("/manifest.json")
        guard case .report(let report) = try await runner.pull(manifest, trust: set.trust(.seconds(30))) else {
            Issue.record("it was refused")
            return
        }
        #expect(report.result == .ok && Self.text(runner) == "one")
        serve(without: "/fresh")
        guard case .refused(let error) = try await runner.pull(manifest, trust: set.trust(.seconds(30))) else {
            Issue.record("it was believed")
            return
        }
        #expect(error.status == .refused)
        #expect(error.message.contains("/trust/fresh: a web page came in its place"), "\(error.message)")
        // One of keys that are not there: the page is not taken for a root.
        var other = try set.trust(.seconds(30))
        other.anchor = .fingerprint(try #require(SHA256Digest(hex: String(repeating: "0", count: 64))))
        guard case .refused(let none) = try await runner.pull(manifest, trust: other) else {
            Issue.record("it was believed")
            return
        }
        #expect(none.message.contains("none of the roots there is"), "\(none.message)")
    }

    @Test("A place that says to come back later than it has is left and named; when all do, it ends with 69")
    func comeBackLater() async throws {
        let (first, mirror) = (try FaultServer(), try FaultServer())
        let set = try Published(mirrors: [mirror.url("")])
        for server in [first, mirror] { set.serve("site", on: server) }
        let runner = try PullRunner()
        let manifest = first.url("/manifest.json")
        _ = try await runner.pull(manifest, trust: set.trust(.seconds(30)))
        try set.publish("two")
        @Sendable func busy(_ asked: String, _ answer: FaultAnswer) -> FaultAnswer {
            asked.hasSuffix("/fresh") ? .unavailable(503, retryAfter: "90") : answer
        }
        set.serve("site", on: first, bending: busy)
        var configuration = TransportConfiguration.quick
        configuration.retry.retryAfterCap = .seconds(300)
        var began = ContinuousClock.now
        let outcome = try await runner.pull(manifest, configuration, trust: set.trust(.seconds(1)))
        guard case .report(let report) = outcome, report.result == .ok else {
            Issue.record("\(outcome)")
            return
        }
        #expect(ContinuousClock.now - began < .seconds(15))
        #expect(Self.text(runner) == "two")
        #expect(try Self.refusals(runner) == [first.url("/trust/fresh") + " slow"], "\(runner.told)")

        try set.publish("three")
        set.serve("site", on: mirror, bending: busy)
        began = .now
        let last = try await runner.pull(manifest, configuration, trust: set.trust(.seconds(1)))
        guard case .refused(let error) = last else {
            Issue.record("it was believed")
            return
        }
        #expect(error.status == .unavailable)
        #expect(ContinuousClock.now - began < .seconds(15))
        #expect(try Self.refusals(runner) == [mirror, first].map { $0.url("/trust/fresh") + " slow" })
        #expect(Self.text(runner) == "two")
    }

    @Test("Ten slow places have the time of all between them, and each is asked and named")
    func manySlowPlaces() async throws {
        let servers = try (0..<10).map { _ in try FaultServer() }
        let set = try Published(mirrors: servers.dropFirst().map { $0.url("") })
        for server in servers {
            set.serve("site", on: server) { asked, answer in asked.hasSuffix("/fresh") ? Self.drip(answer) : answer }
        }
        var trust = try set.trust(.seconds(60))
        trust.patienceWithAll = .seconds(6)
        let runner = try PullRunner()
        let began = ContinuousClock.now
        guard case .refused(let error) = try await runner.pull(servers[0].url("/manifest.json"), trust: trust) else {
            Issue.record("it was believed")
            return
        }
        #expect(error.status == .unavailable)
        #expect(ContinuousClock.now - began < .seconds(15))
        // The last one may no longer have its turn: the clock is looked at five times a second.
        let refusals = try Self.refusals(runner)
        #expect(refusals == servers.prefix(refusals.count).map { $0.url("/trust/fresh") + " slow" })
        #expect(refusals.count >= 7, "\(refusals)")
    }

    @Test("Where trust begins at first sight, a root that drips ends the pull with 69", arguments: [true, false])
    func beginning(isFirst: Bool) async throws {
        let server = try FaultServer()
        let set = try Published(mirrors: [])
        set.serve("site", on: server) { asked, answer in asked.hasSuffix(".root") ? Self.drip(answer) : answer }
        var trust = try set.trust(.seconds(1))
        trust.anchor = isFirst ? .first : .fingerprint(.zero)
        let runner = try PullRunner()
        let outcome = try await runner.pull(server.url("/manifest.json"), trust: trust)
        guard case .refused(let error) = outcome else {
            Issue.record("it was believed")
            return
        }
        #expect(error.status == .unavailable, "\(error)")
        #expect(error.message.contains("/trust/1.root: it takes too long to arrive"))
        #expect(!FileManager.default.fileExists(atPath: runner.destination))
    }

    @Test("One place old, one another's, one mixed, one slow, one dead: each is named once, and the last one counts")
    func manyPlaces() async throws {
        let servers = try (0..<5).map { _ in try FaultServer() }
        let dead = try ClosedPort()
        let deadURL = "http://127.0.0.1:\(dead.port)"
        let set = try Published(mirrors: [
            servers[1].url(""), servers[2].url(""), servers[3].url(""), deadURL, servers[4].url(""),
        ])
        set.serve("site", on: servers[0])
        let runner = try PullRunner()
        let manifest = servers[0].url("/manifest.json")
        try set.publish("two")
        try set.copy("site", to: "old")
        try set.publish("three")
        guard case .report = try await runner.pull(manifest, trust: set.trust(.seconds(30))) else {
            Issue.record("the first pull was refused")
            return
        }
        try set.publish("four")
        // Another project's keys; and a word without the release that it names.
        try set.run(["keys", "new", set.root.path("thief"), "--project", "com.example.tower"])
        try set.publish("evil", to: "wrong", keys: "thief")
        try set.copy("site", to: "mixed")
        try set.root.write(
            [UInt8](try #require(FileManager.default.contents(atPath: set.root.path("old/trust/2.release")))),
            to: "mixed/trust/4.release")
        set.serve("old", on: servers[0])
        set.serve("wrong", on: servers[1])
        set.serve("mixed", on: servers[2])
        set.serve("site", on: servers[3]) { asked, answer in asked.hasSuffix("/fresh") ? Self.drip(answer) : answer }
        set.serve("site", on: servers[4])
        var configuration = TransportConfiguration.quick
        configuration.patience = Patience(.seconds(1))
        let outcome = try await runner.pull(manifest, configuration, trust: set.trust(.seconds(2)))
        guard case .report(let report) = outcome, report.result == .ok else {
            Issue.record("\(outcome) \(runner.told)")
            return
        }
        #expect(Self.text(runner) == "four")
        #expect(
            try Self.refusals(runner) == [
                servers[0].url("/trust/fresh older"), servers[1].url("/trust/fresh signature"),
                servers[2].url("/trust/4.release mixed"), servers[3].url("/trust/fresh slow"),
                deadURL + "/trust/fresh unreachable",
            ])
        // All but the dead one, which may be back, are asked last from now on.
        guard case .report = try await runner.pull(manifest, configuration, trust: set.trust(.seconds(2))) else {
            Issue.record("the last pull was refused")
            return
        }
        #expect(try Self.refusals(runner) == [deadURL + "/trust/fresh unreachable"])
    }
}
