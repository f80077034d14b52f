import Glibc
import SyncModel
import SyncPlugins
import SyncTransfer
import Synchronization
import Testing

@Suite("Transfers over real sockets", .timeLimit(.minutes(1)))
struct CurlTransportTests {
    @Test("A whole object comes byte for byte, in order")
    func whole() async throws {
        let body = sampleBytes(1_000_000)
        let server = try LoopbackServer { request, connection, _ in connection.answer(body, to: request) }
        defer { server.stop() }
        let transport = try makeTransport()
        let sink = CollectingSink()
        let report = try await transport.run(TransferRequest(server.url("/a"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(!sink.outOfOrder)
        #expect(report.requests == 1)
        #expect(report.bytesReceived == UInt64(body.count))
        #expect(server.requests.first?.headers["range"] == nil)
        #expect(server.requests.first?.headers["accept-encoding"] == "identity")
        #expect(transport.totals.requests == 1)
        #expect(transport.totals.bytesReceived == UInt64(body.count))
    }

    @Test("A range is asked for exactly and delivered at its offset")
    func range() async throws {
        let body = sampleBytes(100_000)
        let server = try LoopbackServer { request, connection, _ in connection.answer(body, to: request) }
        defer { server.stop() }
        let transport = try makeTransport()
        let sink = CollectingSink(from: 1_000)
        let request = TransferRequest(server.url("/a"), range: 1_000..<51_000, size: body.count)
        _ = try await transport.run(request, sink: sink).get()
        #expect(sink.bytes == Array(body[1_000..<51_000]))
        #expect(server.requests.first?.headers["range"] == "bytes=1000-50999")
        #expect(sink.begins.first?.bodyOffset == 1_000)
        #expect(sink.begins.first?.objectSize == 100_000)
    }

    @Test("A dropped connection is continued where the sink is [F004 F007 R2]", arguments: [1, 40_000, 99_999])
    func dropped(after count: Int) async throws {
        let body = sampleBytes(100_000)
        let server = try LoopbackServer { request, connection, number in
            guard number == 1 else {
                return connection.answer(body, to: request, headers: "ETag: \"v1\"\r\n")
            }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nETag: \"v1\"\r\n\r\n")
            connection.write(body[..<count])
            connection.close()
        }
        defer { server.stop() }
        let transport = try makeTransport()
        let sink = CollectingSink()
        let report = try await transport.run(TransferRequest(server.url("/a"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(report.requests == 2)
        #expect(server.requests.last?.headers["range"] == "bytes=\(count)-99999")
        #expect(server.requests.last?.headers["if-range"] == "\"v1\"")
        #expect(report.bytesReceived == 100_000)
    }

    @Test("A 200 to a range request is skipped up to the wanted byte [F011 R5]")
    func rangeIgnored() async throws {
        let body = sampleBytes(300_000)
        let server = try LoopbackServer { _, connection, _ in
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            connection.write(body)
        }
        defer { server.stop() }
        let transport = try makeTransport()
        let sink = CollectingSink(from: 100_000)
        let request = TransferRequest(server.url("/a"), range: 100_000..<150_000, size: body.count)
        _ = try await transport.run(request, sink: sink).get()
        #expect(sink.bytes == Array(body[100_000..<150_000]))
    }

    @Test("A full sink pauses the connection and loses nothing")
    func paused() async throws {
        let body = sampleBytes(2_000_000)
        let server = try LoopbackServer { request, connection, _ in connection.answer(body, to: request) }
        defer { server.stop() }
        let transport = try makeTransport()
        let id = TransferID(rawValue: 1)
        let turns = Mutex(0)
        let sink = CollectingSink { _, _ in
            let turn = turns.withLock { $0 += 1; return $0 }
            guard turn % 7 == 3 else { return .taken }
            startThread { transport.resume(id) }
            return .paused
        }
        _ = try await transport.run(TransferRequest(server.url("/a"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(sink.pauses > 5)
        #expect(transport.totals.bytesReceived == UInt64(body.count))
    }

    @Test("A pause longer than the idle timeout is no stall")
    func longPause() async throws {
        let body = sampleBytes(200_000)
        let server = try LoopbackServer { request, connection, _ in connection.answer(body, to: request) }
        defer { server.stop() }
        let transport = try makeTransport { $0.idleTimeout = .milliseconds(50) }
        let paused = Mutex(false)
        let sink = CollectingSink { _, _ in
            let first = paused.withLock { was in defer { was = true }; return !was }
            guard first else { return .taken }
            startThread {
                usleep(300_000)
                transport.resume(TransferID(rawValue: 1))
            }
            return .paused
        }
        let report = try await transport.run(TransferRequest(server.url("/a"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(report.requests == 1)
    }

    @Test("Redirects are followed one by one, each told before the next request [S76 F021]")
    func redirects() async throws {
        let body = sampleBytes(10_000)
        let log = EventLog()
        let told = Mutex<[Int]>([])
        let server = try LoopbackServer { request, connection, _ in
            told.withLock { $0.append(log.redirects.count) }
            let hops = ["/0": "302 /1", "/1": "301 2?x=1#f", "/2?x=1": "307 //127.0.0.1:PORT/3", "/3": "308 ./4"]
            guard let hop = hops[request.path] else { return connection.answer(body, to: request) }
            let words = hop.split(separator: " ")
            let host = request.headers["host"] ?? ""
            let location = words[1].replacing("127.0.0.1:PORT", with: host)
            connection.write("HTTP/1.1 \(words[0]) Go\r\nLocation: \(location)\r\nContent-Length: 3\r\n\r\nbye")
        }
        defer { server.stop() }
        let transport = try makeTransport(log: log)
        let sink = CollectingSink()
        let report = try await transport.run(TransferRequest(server.url("/0"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(report.requests == 5)
        #expect(report.currentURL == server.url("/4"))
        #expect(told.withLock { $0 } == [0, 1, 2, 3, 4], "the hop is known before the next request is sent")
        #expect(log.redirects.map { $0.prefix(5) } == ["302 1", "301 2", "307 3", "308 4"])
        #expect(server.mostConnections == 1, "the connection is kept across hops")
    }

    @Test("Cancelling: before the start, while queued, while running")
    func cancelling() async throws {
        let server = try LoopbackServer { _, connection, _ in
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        }
        defer { server.stop() }
        let transport = try makeTransport {
            $0.connectionsPerHost = 1
            $0.idleTimeout = .seconds(30)
        }
        transport.cancel(TransferID(rawValue: 9))
        let early = await transport.run(TransferRequest(server.url("/9"), id: 9), sink: CollectingSink())
        #expect(throws: TransferError.self) { try early.get() }
        #expect(server.requests.isEmpty)

        async let running = transport.run(TransferRequest(server.url("/1"), id: 1), sink: CollectingSink())
        while server.requests.isEmpty { await Task.yield() }
        async let queued = transport.run(TransferRequest(server.url("/2"), id: 2), sink: CollectingSink())
        transport.cancel(TransferID(rawValue: 2))
        transport.cancel(TransferID(rawValue: 1))
        for result in await [running, queued] {
            guard case .failure(let error) = result else { Issue.record("not cancelled"); continue }
            #expect(error.code == .cancelled)
        }
    }

    @Test("Shutdown ends what runs, and a later start is refused")
    func shuttingDown() async throws {
        let server = try LoopbackServer { _, connection, _ in
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        }
        defer { server.stop() }
        let transport = try makeTransport { $0.idleTimeout = .seconds(30) }
        async let running = transport.run(TransferRequest(server.url("/1")), sink: CollectingSink())
        while server.requests.isEmpty { await Task.yield() }
        transport.shutdown()
        let late = await transport.run(TransferRequest(server.url("/2"), id: 2), sink: CollectingSink())
        for result in await [running, late] {
            guard case .failure(let error) = result else { Issue.record("not cancelled"); continue }
            #expect(error.code == .cancelled)
        }
    }

    @Test("No more connections than the cap, and all transfers end [S82 S87]")
    func cap() async throws {
        let body = sampleBytes(20_000)
        let server = try LoopbackServer { request, connection, _ in
            usleep(2_000)
            connection.answer(body, to: request)
        }
        defer { server.stop() }
        let transport = try makeTransport { $0.connectionsPerHost = 3 }
        let good = await withTaskGroup(of: Bool.self) { group in
            for id in 1...60 {
                group.addTask {
                    let sink = CollectingSink()
                    let request = TransferRequest(server.url("/\(id)"), id: UInt64(id), size: body.count)
                    return (try? await transport.run(request, sink: sink).get()) != nil && sink.bytes == body
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(good == 60)
        #expect(server.mostConnections <= 3)
        #expect(transport.totals.requests == 60)
    }

    @Test("A server that falls silent is left after the idle time and asked again [F050 S56]")
    func silent() async throws {
        let body = sampleBytes(50_000)
        let server = try LoopbackServer { request, connection, number in
            guard number == 1 else { return connection.answer(body, to: request) }
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n")
            connection.write(body[..<20_000])
        }
        defer { server.stop() }
        let transport = try makeTransport { $0.idleTimeout = .milliseconds(100) }
        let sink = CollectingSink()
        _ = try await transport.run(TransferRequest(server.url("/a"), size: body.count), sink: sink).get()
        #expect(sink.bytes == body)
        #expect(server.requests.last?.headers["range"] == "bytes=20000-49999")
    }
}
