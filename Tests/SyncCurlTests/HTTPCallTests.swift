import CCurl
import SyncTestKit
import Testing

@testable import SyncSystem

@Suite("One HTTP call", .timeLimit(.minutes(10)))
struct HTTPCallTests {
    private let server: FaultServer

    init() throws { server = try FaultServer() }

    private func call(_ path: String = "/a", method: String? = nil, body: [UInt8]? = nil) throws -> HTTPCall {
        try HTTPCall(server.url(path), method: method, headers: ["X-One: 1"], body: body)
    }

    private func perform(_ call: HTTPCall, within time: Duration? = .seconds(20), isStopped: Bool = false) throws -> (
        end: HTTPCall.End, body: String
    ) {
        var bytes: [UInt8] = []
        let end = try call.perform(
            until: time.map { ContinuousClock.now + $0 }, every: 100, isStopped: { isStopped },
            receive: { part, _ in
                bytes += part
                return true
            })
        return (end, String(decoding: bytes, as: UTF8.self))
    }

    private func status(_ end: HTTPCall.End) -> Int? { if case .answered(let status) = end { status } else { nil } }

    @Test("An answer comes with its status and its body, whatever they are; no redirect is followed")
    func answers() throws {
        for code in [200, 302, 404, 503] {
            server.script("/a", .status(code, text: "because").setting("Location", server.url("/other")))
            let (end, body) = try perform(call())
            #expect(status(end) == code && body == "because")
        }
        #expect(server.log.requests(to: "/other").isEmpty)
    }

    @Test("The method is what is said, else what a body asks for")
    func methods() throws {
        var methods: [String] = []
        for (method, body) in [(nil, nil), (nil, [1]), ("PUT", [1]), ("DELETE", nil)] as [(String?, [UInt8]?)] {
            server.script("/a", .status(204))
            _ = try perform(call(method: method, body: body))
            methods.append(server.log.requests(to: "/a").last?.request.method ?? "")
        }
        #expect(methods == ["GET", "POST", "PUT", "DELETE"])
    }

    @Test("It ends at its deadline, and when the caller stops it")
    func ends() throws {
        server.script("/a", .status(200, text: "slow").stalling(at: 1))
        defer { server.releaseStalls() }
        guard case .timedOut = try perform(call(), within: .milliseconds(300)).end else {
            Issue.record("it went on")
            return
        }
        guard case .stopped = try perform(call(), isStopped: true).end else {
            Issue.record("it was not stopped")
            return
        }
    }

    @Test("Whoever wants no more of a body gets the status, and not the rest")
    func enough() throws {
        server.script("/a", .status(200, text: String(repeating: "a", count: 1 << 20)))
        var taken = 0
        let end = try call().perform(
            until: nil, every: 100, isStopped: { false },
            receive: { part, _ in
                taken += part.count
                return false
            })
        #expect(status(end) == 200 && taken < 1 << 20)
    }

    @Test("Nothing is sent over a socket that is refused")
    func refusedSocket() throws {
        let call = try call()
        call.mayUse = { _ in false }
        #expect(status(try perform(call).end) == nil)
        #expect(server.log.requestCount == 0)
    }

    @Test("Only http and https are spoken [V26]", arguments: ["file:///etc/passwd", "ftp://127.0.0.1:1/"])
    func schemes(url: String) throws {
        let call = try HTTPCall(url, headers: [], body: nil)
        let (end, body) = try perform(call)
        #expect(status(end) == nil && body.isEmpty)
    }

    @Test("A libcurl that does not keep to http and https is found before anything is fetched [V26]")
    func policy() {
        #expect(Libcurl.findProblem() == nil)
        let problem = Libcurl.findProblem(restrict: { _ in })
        #expect(problem?.contains("although only http and https are allowed") == true, "\(problem ?? "")")
    }

    @Test("A libcurl that is too old, or has no TLS, is refused by its version [F097 G18]")
    func versions() throws {
        var version = try #require(sa_curl_version()?.pointee)
        #expect(Libcurl.lacking(version) == nil)
        version.version_num = 0x07_54_03
        #expect(Libcurl.lacking(version)?.hasSuffix("is too old; 7.85.0 or later is needed") == true)
        version.version_num = 0x07_55_00
        #expect(Libcurl.lacking(version) == nil)
        version.features &= ~CURL_VERSION_SSL
        #expect(Libcurl.lacking(version) == "this libcurl has no TLS")
    }
}
