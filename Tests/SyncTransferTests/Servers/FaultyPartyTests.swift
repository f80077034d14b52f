import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// Who is told to be at fault when more than one could be.
@Suite("Who is at fault", .timeLimit(.minutes(10)))
struct FaultyPartyTests {
    let object = ServedObject.patterned(size: 200_000)

    // MARK: - A missing object and a dead mirror

    @Test(
        "An object that a server does not have, or refuses, is told, although a mirror of it is dead [F042]",
        arguments: [401, 403, 404, 410], [false, true])
    func missing(status: Int, isMirrorFirst: Bool) async throws {
        let port = try ClosedPort()
        // Neither patience nor the deadline ends it: whoever waited for the mirror would wait until then.
        let bench = try Bench {
            $0.patience = Patience(.seconds(3600))
            $0.patienceBesideAnswer = .milliseconds(300)
        }
        bench.server.respondToOthers { _ in .status(status) }
        let runs = (0..<40).map { number in
            let urls = [bench.server.url("/\(number)"), port.url("/\(number)")]
            return bench.start(object, from: isMirrorFirst ? urls.reversed() : urls)
        }
        for (number, run) in runs.enumerated() {
            let error = try await bench.failure(run)
            #expect(error.code == (status < 404 ? .authentication : .badStatus(status)))
            #expect(error.detail.hasPrefix("status \(status)"), "\(error.detail)")
            #expect(error.url == bench.server.url("/\(number)"))
            #expect(error.detail.contains("http://127.0.0.1:\(port.port)"), "the mirror is told, too: \(error)")
        }
    }

    @Test("A mirror that is back soon delivers what the other server does not have")
    func mirrorBack() async throws {
        let mirror = try FaultServer()
        mirror.serve(object, at: "/a")
        try mirror.closePort()
        let bench = try Bench()
        bench.server.respondToOthers { _ in .status(404) }
        let run = bench.start(object, from: [bench.server.url("/a"), mirror.url("/a")])
        try await waitFor { bench.log.lines(of: "penalised").count >= 2 ? true : nil }
        try mirror.openPort()
        #expect(try await bench.finish(run, object).sourceIndex == 1)
    }

    @Test("Of two servers that both refuse, the first one's answer is told, and the other's beside it")
    func both() async throws {
        let mirror = try FaultServer()
        mirror.respondToOthers { _ in .status(410) }
        let bench = try Bench()
        bench.server.respondToOthers { _ in .status(404) }
        let error = try await bench.failure(bench.start(object, from: [bench.server.url("/a"), mirror.url("/a")]))
        #expect(error.code == .badStatus(404) && error.url == bench.server.url("/a"))
        #expect(error.detail.contains("http://127.0.0.1:\(mirror.port)") && error.detail.contains("410"))
    }

    @Test("A URL that is none keeps no object away that another one has")
    func invalidURL() async throws {
        let bench = try Bench()
        bench.server.serve(object, at: "/a")
        let report = try await bench.deliver(object, from: ["http://[bad/a", bench.server.url("/a")])
        #expect(report.sourceIndex == 1)
        #expect(try await bench.failure(bench.start(object, from: ["http://[bad/a"])).code == .misuse)
    }

    // MARK: - Other objects of the same host

    @Test("An object that a host does not have says nothing about its others [F027]", arguments: [401, 403, 404, 410])
    func others(status: Int) async throws {
        let mirror = try FaultServer()
        mirror.serve(object, at: "/b")
        let bench = try Bench()
        bench.server.serve(object, at: "/b")
        bench.server.script("/a", .status(status))
        _ = try await bench.failure(bench.start(object))
        _ = try await bench.failure(bench.start(object, from: [bench.server.url("/a")], range: 0..<9))
        let report = try await bench.deliver(object, from: [bench.server.url("/b"), mirror.url("/b")])
        #expect(report.sourceIndex == 0, "the manifest's order holds")
    }

    // MARK: - Redirects

    @Test("A redirect loop has advice of its own, and with a cookie that expects to come back another")
    func loops() async throws {
        let bench = try Bench()
        bench.server.script("/a", .redirect(to: "/b"))
        bench.server.script("/b", .redirect(to: "/a"))
        let plain = try await bench.failure(bench.start(object))
        #expect(plain.code == .redirectRefused && plain.detail.hasSuffix("; leaveLoop"), "\(plain.detail)")
        bench.server.script("/c", .redirect(to: "/d").setting("Set-Cookie", "seen=canary; Path=/"))
        bench.server.script("/d", .redirect(to: "/c"))
        let cookie = try await bench.failure(bench.start(object, from: [bench.server.url("/c")]))
        #expect(cookie.detail.hasSuffix("; doWithoutCookie"), "\(cookie.detail)")
        #expect(!"\(cookie)".contains("canary"))
        bench.server.respondToOthers { request in .redirect(to: request.path + "x").setting("Set-Cookie", "a=b") }
        let long = try await bench.failure(bench.start(object, from: [bench.server.url("/e")]))
        #expect(long.detail == "more than 10 redirects; doWithoutCookie")
    }

    // MARK: - Credentials

    @Test("Credentials that were sent and refused are called refused", arguments: [401, 403])
    func refusedCredentials(status: Int) async throws {
        let server = try FaultServer()
        server.respondToOthers { _ in .status(status) }
        let origin = try CurlURL(server.url("/")).origin
        let bench = try Bench(server: server) { $0.credentials[origin] = .bearer(token: "canary") }
        let shown = try await bench.failure(bench.start(object))
        #expect(shown.detail == "status \(status), the credentials are refused; renewCredentials")
        let stranger = try Bench(server: server)
        let none = try await stranger.failure(stranger.start(object))
        #expect(none.detail == "status \(status); " + (status == 401 ? "nameCredentials" : "checkAccess"))
    }

    @Test("A refused signature is told as that, also with 400, and the clock where it is not the server's")
    func refusedSignature() async throws {
        let server = try FaultServer()
        let origin = try CurlURL(server.url("/")).origin
        let bench = try Bench(server: server) {
            $0.credentials[origin] = .sigV4(
                accessKey: "a", secretKey: "canary", sessionToken: nil, region: "eu-west-1", service: "s3")
        }
        for (status, what) in [(400, "the credentials or their region"), (403, "the credentials")] {
            server.respondToOthers { _ in .status(status) }
            let refused = try await bench.failure(bench.start(object))
            #expect(refused.detail == "status \(status), \(what) are refused; renewCredentials")
        }
        server.respondToOthers { _ in .status(403).setting("Date", "Sun, 06 Nov 1994 08:49:37 GMT") }
        let late = try await bench.failure(bench.start(object))
        #expect(late.detail == "status 403, the credentials are refused; checkClock")
    }

    // MARK: - Proxies

    @Test("A proxy that cannot be reached is named, not the server behind it [F054]", arguments: ["http", "https"])
    func deadProxy(scheme: String) async throws {
        let port = try ClosedPort()
        let bench = try Bench {
            $0.proxy = ProxyConfiguration(url: "http://127.0.0.1:\(port.port)", user: "canary-user")
            $0.patience = Patience(.milliseconds(300))
        }
        let error = try await bench.failure(bench.start(object, from: ["\(scheme)://files.example/a"]))
        #expect(error.code == .unreachable)
        #expect(error.detail.hasPrefix("the proxy http://127.0.0.1:\(port.port): "), "\(error.detail)")
        #expect(!"\(error)".contains("canary"))
    }

    @Test("A proxy that cannot reach the server, refuses it, or is none, is told as that [F054]")
    func tunnel() async throws {
        let proxy = try FaultServer()
        let bench = try Bench(server: proxy) {
            $0.proxy = ProxyConfiguration(url: proxy.url(""))
            $0.patience = Patience(.milliseconds(300))
            $0.retry.attempts = 2
        }
        let name = "the proxy \(proxy.url(""))"
        for (status, code, words) in [
            (502, TransferError.Code.unreachable, "\(name) cannot reach it (502)"),
            (503, .unreachable, "\(name) cannot reach it (503)"),
            (407, .authentication, "\(name) requires credentials (407); nameProxyCredentials"),
            (403, .authentication, "\(name) does not allow it (403); askProxyOwner"),
            (405, .badAnswer, "\(name) gives no tunnel (405); checkProxy"),
        ] {
            proxy.respondToOthers { _ in .status(status) }
            let error = try await bench.failure(bench.start(object, from: ["https://h\(status).example/a"]))
            #expect(error.code == code, "\(status): \(error)")
            #expect(error.detail.hasPrefix(words), "\(error.detail)")
        }
    }

    @Test("What comes through a proxy in the clear may be the proxy's, and is told so", arguments: [403, 502])
    func clear(status: Int) async throws {
        let proxy = try FaultServer()
        proxy.respondToOthers { _ in .status(status) }
        let bench = try Bench(server: proxy) {
            $0.proxy = ProxyConfiguration(url: proxy.url(""))
            $0.retry.attempts = 1
        }
        let error = try await bench.failure(bench.start(object, from: ["http://files.example/a"]))
        #expect(error.detail.hasPrefix("status \(status) (the server's, or that of the proxy \(proxy.url("")))"))
    }

    @Test("What is no HTTP comes from the proxy as well as from the server, and is no reason to write https://")
    func junk() async throws {
        let proxy = try FaultServer()
        proxy.respondToOthers { _ in .raw("SSH-2.0-a\r\n") }
        let bench = try Bench(server: proxy) { $0.proxy = ProxyConfiguration(url: proxy.url("")) }
        let error = try await bench.failure(bench.start(object, from: ["http://files.example/a"]))
        #expect(error.detail.hasSuffix(" (through the proxy \(proxy.url(""))); checkProxy"), "\(error.detail)")
    }

    @Test("A proxy's own credentials that are refused are called refused [F054]", arguments: ["http", "https"])
    func refusedProxyCredentials(scheme: String) async throws {
        let proxy = try FaultServer()
        proxy.respondToOthers { _ in .status(407).setting("Proxy-Authenticate", "Basic realm=\"p\"") }
        let bench = try Bench(server: proxy) {
            $0.proxy = ProxyConfiguration(url: proxy.url(""), user: "someone", password: "canary")
        }
        let error = try await bench.failure(bench.start(object, from: ["\(scheme)://files.example/a"]))
        #expect(error.code == .authentication)
        #expect(error.detail == "the proxy \(proxy.url("")) refuses the credentials (407); renewProxyCredentials")
    }
}
