import Foundation
import SyncSystem
import Testing

@testable import SyncServer

/// A connection to a server on the loopback address that says what a test wants.
final class Client: Sendable {
    private let descriptor: Int32

    init(_ port: Int, receives: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var receives {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receives, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(code == 0)
    }

    deinit { close(descriptor) }

    /// Says that nothing more is sent. shutdown(2)
    func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

    func send(_ text: String) {
        let bytes = Array(text.utf8)
        // What has been closed takes nothing: that is what tests look for.
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// What comes until `marker` has come, or the connection ends.
    func read(until marker: String? = nil) async throws -> String {
        var said: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 {
                said += buffer[..<count]
                let text = String(decoding: said, as: UTF8.self)
                if let marker, text.contains(marker) { return text }
            } else if count == 0 || errno != EAGAIN {
                return String(decoding: said, as: UTF8.self)
            } else {
                try await Task.sleep(for: .milliseconds(2))
            }
        }
    }
}

let limits = HTTPServer.Limits(
    maximumConnections: 64, idleTimeout: .seconds(20), requestTimeout: .seconds(20), bodyLength: 100,
    stopTimeout: .seconds(20), threads: 2)

/// Runs a server for as long as `body` runs.
func serving<R: Sendable>(
    _ answering: HTTPServer.Answering, _ limits: HTTPServer.Limits = limits,
    _ body: @escaping @Sendable (_ port: Int) async throws -> R
) async throws -> R {
    let server = HTTPServer(at: .tcp(address: "127.0.0.1", port: 0), limits, answering)
    let (ports, told) = AsyncStream.makeStream(of: Int.self)
    let (isOver, over) = AsyncStream.makeStream(of: Void.self)
    return try await withThrowingTaskGroup(of: R?.self) { group in
        group.addTask {
            try await server.run(listening: { told.yield($0 ?? 0) }, until: { for await _ in isOver {} })
            return nil
        }
        group.addTask {
            defer { over.finish() }
            for await port in ports { return try await body(port) }
            return nil
        }
        var result: R?
        while let part = try await group.next() { result = result ?? part }
        return try #require(result)
    }
}

/// Says what it was asked.
private let echo = HTTPServer.Answering.later { request in
    await Task.yield()
    guard let bytes = request.body else { return HTTPResponse(status: 413) }
    let text = "\(request.method) \(request.target) \(request.headers["x-a".name] ?? "-") "
    return HTTPResponse(status: 200, body: .bytes(Array(text.utf8) + bytes))
}

private let get = "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"

@Suite(.timeLimit(.minutes(10)))
struct ServerTests {
    @Test("Of an answer that cannot be sent it is told, too, that nothing went out, once", arguments: [true, false])
    func unsendable(isAtOnce: Bool) async throws {
        let told = Mutex<[Bool]>([])
        let answer = { @Sendable in
            // There is no such file.
            var response = HTTPResponse(status: 200, body: .file(OpenFile(owning: -1), 0..<10))
            response.whenSent = { bytes, isComplete in told.withLock { $0.append(bytes == 0 && !isComplete) } }
            return response
        }
        let answering = isAtOnce ? HTTPServer.Answering.atOnce { _ in answer() } : .later { _ in answer() }
        try await serving(answering) { port in
            let client = try Client(port)
            client.send(get)
            #expect(try await client.read() == "")
        }
        #expect(told.withLock { $0 } == [true])
    }

    @Test("Requests on one connection are answered one after another, with their bodies, also in pieces")
    func exchange() async throws {
        try await serving(echo) { port in
            let client = try Client(port)
            client.send(get)
            #expect(try await client.read(until: "- ").contains("GET /a?b - "))
            client.send("POST /p HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhe")
            try await Task.sleep(for: .milliseconds(30))
            client.send("llo" + get)
            #expect(try await client.read(until: "GET").contains("POST /p 1 hello"))
            let chunked =
                "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
            client.send(chunked)
            #expect(try await client.read(until: "abcde").contains("POST /p - abcde"))
        }
    }

    @Test(
        "A client that says it has nothing more to ask gets its answer, and the connection ends",
        arguments: [true, false])
    func finished(isAtOnce: Bool) async throws {
        try await serving(echo) { port in
            for request in [get, "GET /half", ""] {
                let client = try Client(port)
                client.send(request)
                if !isAtOnce { try await Task.sleep(for: .milliseconds(50)) }
                client.finish()
                let start = ContinuousClock.now
                #expect(try await client.read().hasSuffix(request == get ? "GET /a?b - " : ""))
                #expect(ContinuousClock.now - start < .seconds(10))
            }
        }
    }

    @Test("A body that is too long is read, not kept, and the answer says so")
    func longBody() async throws {
        try await serving(echo) { port in
            let client = try Client(port)
            let body = String(repeating: "x", count: 300_000)
            client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n")
            Thread.detachNewThread { client.send(body) }
            #expect(try await client.read(until: "\r\n\r\n").hasPrefix("HTTP/1.1 413"))
        }
    }

    @Test("A byte now and then does not keep a connection: a request has its time, on a kept connection as well")
    func drops() async throws {
        var strict = limits
        strict.requestTimeout = .milliseconds(300)
        strict.idleTimeout = .milliseconds(300)
        try await serving(echo, strict) { port in
            for isKept in [false, true] {
                let client = try Client(port)
                if isKept {
                    client.send(get)
                    _ = try await client.read(until: "- ")
                }
                let start = ContinuousClock.now
                async let end = client.read()
                for byte in String(repeating: "GET /aaaaaaaaaaaaaaaaaa", count: 4) {
                    client.send(String(byte))
                    try await Task.sleep(for: .milliseconds(10))
                }
                #expect(try await end.isEmpty)
                #expect(ContinuousClock.now - start < .seconds(10))
            }
        }
    }

    @Test("A file that has become shorter ends the connection, and the log says that not all went out")
    func truncated() async throws {
        let path = FileManager.default.temporaryDirectory.path + "/sa-http-\(UUID().uuidString)"
        try Data(repeating: 0x61, count: 1_000).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let (ends, told) = AsyncStream.makeStream(of: Bool.self)
        let answering = HTTPServer.Answering.atOnce { request in
            let end: UInt64 = request.target == "/whole" ? 1_000 : 5_000
            let file = OpenFile(owning: open(path, O_RDONLY))
            var response = HTTPResponse(status: 200, body: .file(file, 10..<end))
            response.whenSent = { _, isComplete in told.yield(isComplete) }
            return response
        }
        try await serving(answering) { port in
            let whole = try Client(port)
            whole.send("GET /whole HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            let text = try await whole.read()
            #expect(
                text.contains("Content-Length: 990\r\n")
                    && text.hasSuffix("\r\n\r\n" + String(repeating: "a", count: 990)))
            let short = try Client(port)
            short.send("GET /short HTTP/1.1\r\nHost: h\r\n\r\n")
            #expect(try await short.read().contains("Content-Length: 4990\r\n"))
        }
        var seen: [Bool] = []
        for await end in ends {
            seen.append(end)
            if seen.count == 2 { break }
        }
        #expect(seen == [true, false])
    }

    @Test("Whoever says nothing more while a body of unknown length comes does not get a short one that looks whole")
    func halfClosed() async throws {
        let (ends, told) = AsyncStream.makeStream(of: Bool.self)
        let answering = HTTPServer.Answering.later { _ in
            let body = HTTPResponse.Body.stream(BodyStream(capacity: 10)) { stream in
                _ = await stream.write(Array("begun".utf8))
                await stream.left()
            }
            var response = HTTPResponse(status: 200, body: body)
            response.whenSent = { _, isComplete in told.yield(isComplete) }
            return response
        }
        try await serving(answering) { port in
            let client = try Client(port)
            client.send(get)
            #expect(try await client.read(until: "begun").contains("Transfer-Encoding: chunked\r\n"))
            client.finish()
            #expect(try await client.read().contains("0\r\n\r\n") == false)
        }
        let isComplete = await ends.first { _ in true }
        #expect(isComplete == false)
    }

    @Test("Of a body of unknown length as many bytes count as were sent")
    func unknownLength() async throws {
        let (ends, told) = AsyncStream.makeStream(of: Bool.self)
        let answering = HTTPServer.Answering.later { _ in
            let body = HTTPResponse.Body.stream(BodyStream(capacity: 10)) { stream in
                for _ in 0..<3 { _ = await stream.write([UInt8](repeating: 0x61, count: 1_000)) }
                stream.end()
                await stream.left()
            }
            var response = HTTPResponse(status: 200, body: body)
            response.whenSent = { bytes, isComplete in told.yield(bytes == 3_000 && isComplete) }
            return response
        }
        try await serving(answering) { port in
            let client = try Client(port)
            client.send(get)
            _ = try await client.read(until: "\r\n0\r\n\r\n")
        }
        let isRight = await ends.first { _ in true }
        #expect(isRight == true)
    }

    @Test("A server that stops gives up on tasks that think and streams that have nothing to say, in its time")
    func stops() async throws {
        var hasty = limits
        hasty.stopTimeout = .milliseconds(100)
        let leavers = Mutex(0)
        let answering = HTTPServer.Answering.later { request in
            if request.target == "/think" {
                // Cancelled when the server has no more time.
                try? await Task.sleep(for: .seconds(60))
                return HTTPResponse(status: 200)
            }
            let body = HTTPResponse.Body.stream(BodyStream(capacity: 10)) { stream in
                _ = await stream.write(Array("begun".utf8))
                await stream.left()
                leavers.withLock { $0 += 1 }
            }
            return HTTPResponse(status: 200, body: body)
        }
        let start = ContinuousClock.now
        let clients = try await serving(answering, hasty) { port in
            let clients = try (0..<20).map { _ in try Client(port) }
            for (number, client) in clients.enumerated() {
                client.send("GET \(number % 2 == 0 ? "/think" : "/stream") HTTP/1.1\r\nHost: h\r\n\r\n")
            }
            for client in clients where client === clients[1] || client === clients[19] {
                _ = try await client.read(until: "begun")
            }
            return clients
        }
        #expect(ContinuousClock.now - start < .seconds(20))
        #expect(leavers.withLock { $0 } == 10)
        withExtendedLifetime(clients) {}
    }

    @Test("A stop may come at any moment of any request")
    func stopsAnyTime() async throws {
        var hasty = limits
        hasty.stopTimeout = .zero
        let answering = HTTPServer.Answering.later { request in
            await Task.yield()
            guard request.target == "/stream" else { return HTTPResponse(status: 200, body: .bytes([0x61])) }
            let body = HTTPResponse.Body.stream(BodyStream(capacity: 10)) { stream in
                _ = await stream.write([0x62])
                await stream.left()
            }
            return HTTPResponse(status: 200, body: body)
        }
        for round in 0..<60 {
            let clients = try await serving(answering, hasty) { port in
                let clients = try (0..<8).map { _ in try Client(port) }
                let other = "GET /other HTTP/1.1\r\nHost: h\r\n\r\n"
                for client in clients {
                    client.send(String(repeating: other, count: 20) + "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
                }
                try await Task.sleep(for: .microseconds(100 * round))
                return clients
            }
            withExtendedLifetime(clients) {}
        }
    }

    @Test("An address has no more connections than it may, also of those on which nothing is said")
    func silentClients() async throws {
        var small = limits
        small.maximumPerAddress = 3
        try await serving(.atOnce { _ in HTTPResponse(status: 200) }, small) { port in
            let silent = try (0..<3).map { _ in try Client(port) }
            let start = ContinuousClock.now
            #expect(try await Client(port).read() == "")
            #expect(ContinuousClock.now - start < limits.idleTimeout, "at once, and not when its time was over")
            withExtendedLifetime(silent) {}
        }
    }

    @Test("Whoever goes in the middle of anything leaves nothing behind, and others are answered")
    func leavers() async throws {
        var small = limits
        small.maximumConnections = 8
        small.maximumPerAddress = 8
        let answering = HTTPServer.Answering.later { request in
            if request.target == "/think" { try? await Task.sleep(for: .milliseconds(20)) }
            if request.target != "/stream" { return HTTPResponse(status: 200, body: .bytes([0x61])) }
            let body = HTTPResponse.Body.stream(BodyStream(capacity: 10)) { stream in
                while await stream.write([0x62]) {}
                await stream.left()
            }
            return HTTPResponse(status: 200, body: body)
        }
        try await serving(answering, small) { port in
            for round in 0..<200 {
                let client = try Client(port, receives: 4_096)
                switch round % 5 {
                case 0: client.send("GET /think HTTP/1.1\r\nHost: h\r\n\r\n")
                case 1: client.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
                case 2: client.send("GET /th")
                case 3: client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab")
                default: break
                }
                if round % 7 == 0 { try await Task.sleep(for: .milliseconds(1)) }
            }
            // Room comes back as soon as those that have gone are seen to have.
            var answer = ""
            while !answer.hasPrefix("HTTP/1.1 200") {
                let client = try Client(port)
                client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                answer = try await client.read()
            }
        }
    }

    @Test("A port that is taken, a name that is none, a path that is too long are said in the system's words")
    func failures() async throws {
        try await serving(echo) { port in
            let places: [HTTPServer.Address] = [
                .tcp(address: "127.0.0.1", port: port), .tcp(address: "no such host", port: 0),
                .unix(path: "/tmp/" + String(repeating: "x", count: 200)),
            ]
            for (place, words) in zip(places, ["Address already in use", "", "File name too long"]) {
                let server = HTTPServer(at: place, limits, echo)
                let error = await #expect(throws: FileError.self) {
                    try await server.run(listening: { _ in }, until: {})
                }
                #expect(error?.reason.isEmpty == false)
                #expect(words.isEmpty || error?.reason == words, "\(error?.reason ?? "")")
            }
        }
    }
}
