import CommandTestSupport
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ServeTests {
    /// Reproducible bytes that do not repeat within a block.
    static func bytes(_ count: Int) -> Data {
        var state: UInt64 = 42
        return Data(
            (0..<count).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 33)
            })
    }

    static let packName = "packs/\(String(repeating: "ab", count: 32)).pack"

    /// A published directory with things that must not be served.
    static func site(_ pack: Data = bytes(1000)) throws -> Scratch {
        let scratch = try Scratch()
        try scratch.write(Data("{}".utf8), to: "site/manifest.json")
        try scratch.write(pack, to: "site/\(packName)")
        try scratch.write(Data("hi".utf8), to: "site/a b/é.txt")
        try scratch.write(Data(), to: "site/empty")
        try scratch.write(Data("secret".utf8), to: "site/.hidden")
        try scratch.write(Data("secret".utf8), to: "site/.git/config")
        try scratch.write(Data("secret".utf8), to: "outside/secret.txt")
        let site = scratch.url.appendingPathComponent("site").path
        for (name, target) in [("link", "../outside/secret.txt"), ("dirlink", "../outside"), ("inner", "empty")] {
            try FileManager.default.createSymbolicLink(atPath: "\(site)/\(name)", withDestinationPath: target)
        }
        #expect(mkfifo("\(site)/fifo", 0o600) == 0)
        return scratch
    }

    @Test("It prints the URL to pull from and answers whole files and ranges")
    func answers() throws {
        let pack = Self.bytes(1000)
        let scratch = try Self.site(pack)
        let server = try RunningServer(scratch)
        #expect(server.firstLine == "http://127.0.0.1:\(server.client.port)/manifest.json")

        let whole = try server.client.send("GET", "/\(Self.packName)")
        #expect(whole.status == 200)
        #expect(Data(whole.body) == pack)
        #expect(whole.headers["content-length"] == "1000")
        #expect(whole.headers["accept-ranges"] == "bytes")
        #expect(whole.headers["cache-control"]?.contains("immutable") == true)
        let etag = try #require(whole.headers["etag"])
        #expect(etag.hasPrefix("\""), "the tag is strong")

        let part = try server.client.send("GET", "/\(Self.packName)", ["Range": "bytes=10-19", "If-Range": etag])
        #expect(part.status == 206)
        #expect(part.headers["content-range"] == "bytes 10-19/1000")
        #expect(Data(part.body) == pack[10..<20])

        let suffix = try server.client.send("GET", "/\(Self.packName)", ["Range": "bytes=-3"])
        #expect(Data(suffix.body) == pack.suffix(3))

        let changed = try server.client.send("GET", "/\(Self.packName)", ["Range": "bytes=10-19", "If-Range": "\"x\""])
        #expect(changed.status == 200)
        #expect(Data(changed.body) == pack)

        let beyond = try server.client.send("GET", "/\(Self.packName)", ["Range": "bytes=1000-"])
        #expect(beyond.status == 416)
        #expect(beyond.headers["content-range"] == "bytes */1000")
        #expect(beyond.body.isEmpty)

        let head = try server.client.send("HEAD", "/\(Self.packName)")
        #expect(head.status == 200)
        #expect(head.headers["content-length"] == "1000")
        #expect(head.body.isEmpty)
        #expect(head.headers["etag"] == etag)
    }

    @Test("What has not changed is not sent again")
    func conditions() throws {
        let scratch = try Self.site()
        let server = try RunningServer(scratch)
        let first = try server.client.send("GET", "/manifest.json")
        #expect(first.headers["content-type"] == "application/json")
        #expect(first.headers["cache-control"]?.contains("no-cache") == true)
        let etag = try #require(first.headers["etag"])
        let modified = try #require(first.headers["last-modified"])
        for condition in [["If-None-Match": etag], ["If-Modified-Since": modified]] {
            let again = try server.client.send("GET", "/manifest.json", condition)
            #expect(again.status == 304)
            #expect(again.body.isEmpty)
            #expect(again.headers["etag"] == etag)
            // RFC 9110 §8.6: that of 200, or none.
            #expect([nil, "2"].contains(again.headers["content-length"]))
        }
        try scratch.write(Data("[]".utf8), to: "site/manifest.json")
        let changed = try server.client.send("GET", "/manifest.json", ["If-None-Match": etag])
        #expect(changed.status == 200)
        #expect(changed.body == Array("[]".utf8))
    }

    @Test("Nothing but regular files below the directory is served [V1 V3]")
    func traversal() throws {
        let scratch = try Self.site()
        let server = try RunningServer(scratch)
        for target in [
            "/../outside/secret.txt", "/%2e%2e/outside/secret.txt", "/a%20b/../../outside/secret.txt", "/link",
            "/dirlink/secret.txt", "/inner", "/.hidden", "/.git/config", "/fifo", "/packs", "/packs/",
            "//manifest.json", "/manifest.json/", "/nothing",
        ] {
            let answer = try server.client.send("GET", target)
            #expect(answer.status == 404, "\(target)")
            #expect(answer.body.isEmpty, "\(target)")
        }
        for target in ["/%zz", "/a%00b", "/..%2foutside%2fsecret.txt"] {
            #expect(try server.client.send("GET", target).status == 400, "\(target)")
        }
        let method = try server.client.send("DELETE", "/manifest.json")
        #expect(method.status == 405)
        #expect(method.headers["allow"] == "GET, HEAD")
        #expect(try server.client.send("GET", "/a%20b/%C3%A9.txt").body == Array("hi".utf8))
        #expect(try server.client.send("GET", "/empty").body.isEmpty)
    }

    @Test("Many clients at once each get their bytes [V65]")
    func manyClients() async throws {
        let pack = Self.bytes(3 << 20)
        let scratch = try Self.site(pack)
        let server = try RunningServer(scratch)
        let client = server.client
        let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<64 {
                group.addTask {
                    let start = number * 40_000
                    let range = ["Range": "bytes=\(start)-\(start + 399_999)"]
                    let answer = try client.send("GET", "/\(Self.packName)", range)
                    return answer.status != 206 || Data(answer.body) != pack[start..<(start + 400_000)]
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wrong == 0)
        #expect(try server.stop().status == 0)
    }

    @Test("A stop lets the answer under way end, and ends with 0", arguments: [SIGTERM, SIGINT])
    func stops(signal: Int32) throws {
        let pack = Self.bytes(8 << 20)
        let scratch = try Self.site(pack)
        let server = try RunningServer(scratch)
        let connection = try server.client.open("GET", "/\(Self.packName)")
        defer { close(connection) }
        var first: UInt8 = 0
        #expect(read(connection, &first, 1) == 1)
        kill(server.process.processIdentifier, signal)
        let answer = try HTTPClient.parse([first] + (try HTTPClient.readAll(connection)))
        #expect(answer.body.count == pack.count)
        // Not compared in the expectation: describing where megabytes differ takes hours.
        let isSame = Data(answer.body) == pack
        #expect(isSame)
        server.process.waitUntilExit()
        #expect(server.process.terminationStatus == 0)
    }

    @Test("A stop as soon as the URL is printed is heard, and ends with 0")
    func stopsAtOnce() throws {
        let scratch = try Self.site()
        for _ in 0..<20 {
            let server = try RunningServer(scratch)
            kill(server.process.processIdentifier, SIGTERM)
            server.process.waitUntilExit()
            guard server.process.terminationStatus == 0 else {
                Issue.record("ended with \(server.process.terminationStatus)")
                return
            }
        }
    }

    @Test("--verbose prints a line for each request; a shorter file than promised is cut off, not made up")
    func log() throws {
        let scratch = try Self.site()
        let server = try RunningServer(scratch, arguments: ["--verbose"])
        _ = try server.client.send("GET", "/manifest.json", ["Range": "bytes=0-0"])
        _ = try server.client.send("GET", "/nothing?token=x")
        let (status, error) = try server.stop()
        #expect(status == 0)
        #expect(error.contains("127.0.0.1 GET /manifest.json [bytes=0-0] 206 1 B"), "\(error)")
        #expect(error.contains("127.0.0.1 GET /nothing?… 404 0 B"), "\(error)")
    }

    @Test("What cannot be served or listened on is said plainly")
    func failures() throws {
        let scratch = try Self.site()
        let missing = try Tool(scratch).run(["serve", "nowhere"])
        #expect(missing.status == 66)
        #expect(missing.error.contains("nowhere: No such file or directory"), "\(missing.error)")
        let file = try Tool(scratch).run(["serve", "site/empty"])
        #expect(file.status == 66)
        #expect(file.error.contains("Not a directory"), "\(file.error)")
        let server = try RunningServer(scratch)
        let taken = try Tool(scratch).run(["serve", "site", "--port", "\(server.client.port)"])
        #expect(taken.status == 69)
        #expect(taken.error.contains("Address already in use"), "\(taken.error)")
        #expect(taken.output == "")
    }
}
