import Foundation
import SyncTestKit
import Synchronization
import Testing

/// Secrets that nobody else has, and a search for them wherever the program leaves something.
@Suite("Secrets stay where they belong", .timeLimit(.minutes(10)))
struct CanaryTests {
    private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("syncagent").path
    /// Every secret has the first; the second is how it begins in Base64.
    private static let marks = ["canary", "Y2FuYXJ5"]

    /// Credentials as their file has them.
    enum Kind: String, CaseIterable {
        case basic, bearer, sigv4

        var section: String {
            switch self {
            case .basic: "type = basic\nuser = canary-user\npassword = canary-password\n"
            case .bearer: "type = bearer\ntoken = canary-token\n"
            case .sigv4:
                "type = sigv4\naccess-key = canary-access\nsecret-key = canary-secret\n"
                    + "session-token = canary-session\nregion = r\nservice = s3\n"
            }
        }
    }

    /// A home, a configuration with secrets, and pulls that are watched from outside.
    private struct Place {
        let root: TemporaryRoot
        var arguments: [String] = []

        init(_ sections: [(origin: String, text: String)], configuration: String) throws {
            root = try TemporaryRoot()
            try root.write(sections.map { "[\($0.origin)]\n\($0.text)" }.joined(), to: "secret/credentials")
            try root.write("X-Private: canary-header\n", to: "secret/headers")
            try root.write(configuration, to: "secret/config.json")
            for name in ["credentials", "headers", "config.json"] { chmod(root.path("secret/\(name)"), 0o600) }
            arguments = [
                "--into", root.path("files"), "--config", root.path("secret/config.json"), "--credentials",
                root.path("secret/credentials"), "--header", "@\(root.path("secret/headers"))",
            ]
        }

        /// Pulls, looking at the process list meanwhile.
        func pull(_ manifest: String, _ more: [String], output: String) throws -> Int32 {
            let run = try ChildProgram(
                CanaryTests.program, ["pull", manifest] + arguments + more, output: root.path(output),
                environment: ["HOME": root.path("home"), "XDG_STATE_HOME": root.path("state")])
            var looks = 0
            while run.isRunning {
                for file in ["cmdline", "environ"] {
                    guard let seen = FileManager.default.contents(atPath: "/proc/\(run.processID)/\(file)"),
                        !seen.isEmpty
                    else { continue }
                    looks += 1
                    #expect(!CanaryTests.isFound(in: seen), "/proc/PID/\(file)")
                }
                usleep(2_000)
            }
            #expect(looks > 0, "the process list was looked at")
            return try run.wait()
        }

        /// Files with a secret in them; those that were given are not looked at.
        func findings(isWritten: Bool = true) throws -> [String] {
            let paths = try FileManager.default.subpathsOfDirectory(atPath: root.path)
            let written = paths.filter { !$0.hasPrefix("secret/") }
            #expect(!isWritten || written.contains { $0.hasPrefix("state/") })
            #expect(!isWritten || written.contains { $0.contains(".syncagent/") })
            return written.filter { path in
                CanaryTests.isFound(in: Data(path.utf8))
                    || FileManager.default.contents(atPath: root.path(path)).map(CanaryTests.isFound) == true
            }
        }
    }

    private static func isFound(in data: Data) -> Bool { marks.contains { data.range(of: Data($0.utf8)) != nil } }

    private static func published() throws -> PublishedSet {
        var tree = AssetTree.manySmall(20, largest: 9_000)
        tree.addFile("video/loose.mp4", size: 120_000, seed: 4)
        var builder = ManifestBuilder(tree)
        builder.looseAbove = 100_000
        return try builder.build()
    }

    /// Requests that have a secret in a header.
    private static func leaks(_ server: FaultServer) -> [String] {
        server.log.entries.filter { entry in
            entry.request.headers.contains { header in
                header.name.lowercased() == "authorization"
                    || isFound(in: Data(header.value.utf8)) && header.name.lowercased() != "host"
            }
        }.map(\.request.target)
    }

    @Test(
        "In no output, no file, no process list and no request elsewhere, through redirects and failures [S122 V64 V24]",
        arguments: Kind.allCases)
    func direct(kind: Kind) throws {
        let set = try Self.published()
        let objects = Dictionary(uniqueKeysWithValues: set.objects(under: "/tower").map { ($0.path, $0.object) })
        let (origin, other) = (try FaultServer(), try FaultServer())
        let isGood = Atomic(false)
        other.respondToOthers { request in
            guard let object = objects[request.path] else { return .status(404) }
            if isGood.load(ordering: .relaxed) { return .object(object) }
            if request.path.hasSuffix(".mp4") { return .status(404, text: "canary-answer") }
            switch request.ordinalAtPath {
            case 1: return .object(object).dropping(at: 20_000)
            case 2: return .status(403, text: "canary-answer")
            default: return .object(object)
            }
        }
        origin.respondToOthers { [elsewhere = other.localhostURL("")] request in
            guard request.query?.contains("canary-query") == true else { return .status(401) }
            if request.path == "/tower/manifest.json" {
                return request.query?.contains("hop") == true
                    ? objects[request.path].map { .object($0) } ?? .status(404)
                    : .redirect(to: "\(request.path)?hop=1&token=canary-query")
            }
            guard objects[request.path] != nil else { return .status(404) }
            if request.ordinalAtPath == 1 { return .unavailable(503, retryAfter: "0") }
            return .redirect(to: "\(elsewhere)\(request.path)?X-Amz-Signature=canary-signature")
        }
        let rule = "~^http://site[.]example/(.*)$ \(origin.url("/"))$1?token=canary-query"
        let place = try Place([(origin.url(""), kind.section)], configuration: "{ \"rewrite\": [\"\(rule)\"] }")
        let manifest = "http://site.example/tower/manifest.json"
        let first = try place.pull(manifest, ["--json"], output: "first")
        #expect(first == 2, "\(String(decoding: place.root.read("first") ?? [], as: UTF8.self))")
        isGood.store(true, ordering: .relaxed)
        #expect(try place.pull(manifest, [], output: "second") == 0)
        #expect(set.tree.problems(in: place.root.path("files")) == [])

        #expect(try place.findings() == [])
        #expect(!Self.leaks(origin).isEmpty, "the origin got what it is owed")
        #expect(origin.log.values(of: "x-private").contains("canary-header"))
        #expect(other.log.requestCount > 3)
        #expect(Self.leaks(other) == [])
        #expect(other.log.values(of: "referer") == [])
    }

    @Test("A proxy's password goes to the proxy alone, and what is asked inside a tunnel never to it [S122 V22 F054]")
    func proxied() throws {
        let set = try Self.published()
        let authority = try TestAuthority()
        let (proxy, origin) = (try FaultServer(), try FaultServer(tls: ServerTLS(try authority.issue())))
        let objects = Dictionary(uniqueKeysWithValues: set.objects(under: "/tower").map { ($0.path, $0.object) })
        proxy.respondToOthers { request in
            if request.method == "CONNECT" { return .status(403, text: "canary-answer") }
            guard request.header("proxy-authorization") != nil else { return .status(407) }
            return objects[request.path].map { .object($0) } ?? .status(404)
        }
        let place = try Place(
            [
                (proxy.url(""), "type = basic\nuser = canary-someone\npassword = canary-proxy\n"),
                (origin.url(""), Kind.bearer.section),
            ], configuration: "{ \"proxy\": { \"url\": \"\(proxy.url(""))\" } }")
        #expect(try place.pull("http://site.example/tower/manifest.json", [], output: "first") == 0)
        #expect(proxy.log.values(of: "proxy-authorization").count == proxy.log.requestCount)
        let second = try place.pull(
            origin.url("/tower/manifest.json"), ["--deadline", "2s", "--noproxy", "nothing.example"], output: "second")
        #expect(second != 0)
        let tunnels = proxy.log.entries.filter { $0.request.method == "CONNECT" }
        #expect(!tunnels.isEmpty)
        for tunnel in tunnels {
            #expect(tunnel.request.header("x-private") == nil && tunnel.request.header("authorization") == nil)
        }
        #expect(try place.findings() == [])
        #expect(origin.log.requestCount == 0)
    }

    @Test("A password in a URL is refused and not repeated, in the URL of a manifest or of a redirect [S122 V24]")
    func userInformation() throws {
        let origin = try FaultServer()
        origin.respondToOthers { [port = origin.port] in
            .redirect(to: "http://canary-user:canary-password@127.0.0.1:\(port)\($0.path)")
        }
        let place = try Place([], configuration: "{}")
        #expect(try place.pull(origin.url("/tower/manifest.json"), ["--json"], output: "first") != 0)
        #expect(origin.log.entries.allSatisfy { $0.request.header("authorization") == nil })
        let run = try ChildProgram(
            Self.program,
            ["pull", "http://canary-user:canary-password@127.0.0.1:\(origin.port)/manifest.json"] + place.arguments,
            output: place.root.path("second"),
            environment: ["HOME": place.root.path("home"), "XDG_STATE_HOME": place.root.path("state")])
        #expect(try run.wait() != 0)
        let said = String(decoding: place.root.read("second") ?? [], as: UTF8.self)
        #expect(said.contains("credentials file"), "\(said)")
        #expect(!Self.isFound(in: Data(said.utf8)))
        #expect(try place.findings(isWritten: false) == [])
    }
}
