import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Transfers go to the transport their URLs are for", .timeLimit(.minutes(10)))
struct RoutedTransportTests {
    static let shared = ServedObject.patterned(size: 50_000)
    private static let now = WallTime(milliseconds: 1_000_000)
    var object: ServedObject { Self.shared }

    private func run(_ urls: [String], on transport: some Transport) -> TransferRun {
        let request = TransferRequest(
            id: TransferID(rawValue: 1), urls: urls, objectSize: UInt64(object.bytes.count),
            limit: UInt64(object.bytes.count))
        return TransferRun(request, on: transport, sink: CollectingSink())
    }

    @Test("By the beginning of the URL; others go where all else goes")
    func routes() async throws {
        let (near, far) = (try Bench(), try Bench())
        near.server.serve(object, at: "/a")
        far.server.serve(object, at: "/a")
        let scope = try URLScope.prefixes([near.server.url("/")])
        let routed = RoutedTransport([(scope, near.transport)], others: far.transport)
        _ = try await run([near.server.url("/a")], on: routed).end().get()
        #expect(near.transport.totals.requests == 1 && far.transport.totals.requests == 0)
        _ = try await run([far.server.url("/a")], on: routed).end().get()
        #expect(near.transport.totals.requests == 1 && far.transport.totals.requests == 1)
        #expect(routed.totals.requests == 2 && routed.totals.bytesReceived == 100_000)
    }

    @Test("When one fails, the URLs of the other are asked, and the report says which")
    func falls() async throws {
        let (near, far) = (try Bench(), try Bench())
        far.server.serve(object, at: "/a")
        let scope = try URLScope.prefixes([near.server.url("/")])
        let routed = RoutedTransport([(scope, near.transport)], others: far.transport)
        let transfer = run([near.server.url("/a"), far.server.url("/a")], on: routed)
        let report = try await transfer.end().get()
        #expect(report.sourceIndex == 1 && report.requests == 2)
        #expect(isSame(transfer.sink.bytes, object.bytes[...]))
    }

    @Test("A transfer on a route is split as others are, and its status counts all parts")
    func splits() async throws {
        let object = ServedObject.patterned(size: 6 << 20)
        let size = UInt64(object.bytes.count)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        bench.server.script("/a", .object(object).dripping(64 * 1024, every: .milliseconds(20)))
        let routed = RoutedTransport(
            [(try .prefixes([bench.server.url("/")]), bench.transport)], others: try Bench().transport)
        let sink = SplittingSink(range: 0..<(size - 1), block: 10_000)
        var request = TransferRequest(id: TransferID(rawValue: 1), urls: [bench.server.url("/a")], limit: size)
        (request.range, request.objectSize) = (0..<(size - 1), size)
        let ended = Mutex<Result<TransferReport, TransferError>?>(nil)
        routed.start(request, sink: sink) { result in ended.withLock { $0 = result } }
        let most = Mutex<UInt64>(0)
        // Tasks wait for those of other tests, for seconds.
        try WorkerThread(name: "watch") {
            while ended.withLock({ $0 == nil }) {
                for status in routed.transferStatuses(limit: 1, at: Self.now)?.transfers ?? [] {
                    most.withLock { $0 = max($0, status.received) }
                }
                pauseThread(milliseconds: 2)
            }
        }
        let report = try await waitFor { ended.withLock { $0 } }.get()
        #expect(isSame(sink.bytes, object.bytes.dropLast()))
        #expect(sink.parts > 1 && report.requests == sink.parts)
        let seen = most.withLock { $0 }
        #expect(seen > size / 2 && seen < size)
    }

    @Test("A transport for a whole scheme opens no private place to a manifest; one for an origin does [V29]")
    func referrers() async throws {
        let object = object
        let server = try FaultServer()
        server.serve(object, at: "/a")
        let bench = try Bench(server: server) { $0.redirects.privateTargets = .hosts(["127.0.0.1"]) }
        func end(_ prefix: String, _ allowed: Set<String>) async throws -> Result<TransferReport, TransferError> {
            var policy = RedirectPolicy()
            policy.privateTargets = .hosts(allowed)
            let route = (try URLScope.prefixes([prefix]), bench.transport as any Transport)
            let routed = RoutedTransport([route], others: bench.transport, policy: policy)
            let request = TransferRequest(
                id: TransferID(rawValue: 1), urls: ["http://10.0.0.1/a", server.url("/a")],
                objectSize: UInt64(object.bytes.count), limit: UInt64(object.bytes.count),
                referrer: .init(url: "http://files.example/manifest.json", isPublic: nil))
            return try await TransferRun(request, on: routed, sink: CollectingSink()).end()
        }
        guard case .failure(let error) = try await end("http:", []) else {
            Issue.record("it was asked")
            return
        }
        #expect(error.code == .refusedByPolicy && server.log.requestCount == 0)
        #expect(try await end("http:", ["127.0.0.1"]).get().sourceIndex == 1)
        #expect(try await end(server.url("/"), []).get().sourceIndex == 1)
    }

    @Test(
        "A manifest names another scheme only where it came by that scheme, or where the configuration names the place [V29 S80]",
        arguments: [
            ("store:", "https://files.example/m.json", false), ("store:", "store://b/m.json", true),
            ("store://a/", "https://files.example/m.json", true), ("store:", nil, true),
        ])
    func schemes(prefix: String, referrer: String?, isAsked: Bool) async throws {
        let bench = try Bench()
        let routed = RoutedTransport([(try URLScope.prefixes([prefix]), bench.transport)], others: bench.transport)
        let request = TransferRequest(
            id: TransferID(rawValue: 1), urls: ["store://a/x"], limit: 1,
            referrer: referrer.map { .init(url: $0, isPublic: nil) })
        guard case .failure(let error) = try await TransferRun(request, on: routed, sink: CollectingSink()).end() else {
            Issue.record("libcurl does not speak store:")
            return
        }
        // Who is asked is libcurl here, which says that it does not speak this.
        #expect(error.code == (isAsked ? .misuse : .refusedByPolicy))
    }

    @Test("What a plugin has brought opens no private place [V29]")
    func privateFromPlugin() async throws {
        let bench = try Bench()
        let request = TransferRequest(
            id: TransferID(rawValue: 1), urls: [bench.server.url("/a")], limit: 1,
            referrer: .init(url: "store://a/manifest.json", isPublic: nil))
        guard
            case .failure(let error) = try await TransferRun(request, on: bench.transport, sink: CollectingSink()).end()
        else {
            Issue.record("it was asked")
            return
        }
        #expect(error.code == .refusedByPolicy && bench.server.log.requestCount == 0)
    }

    @Test("A cancel reaches whoever has it, and nobody else is asked then")
    func cancels() async throws {
        let (near, far) = (try Bench(), try Bench())
        near.server.script("/a", .object(object).stalling(at: 10))
        far.server.serve(object, at: "/a")
        let routed = RoutedTransport(
            [(try URLScope.prefixes([near.server.url("/")]), near.transport)], others: far.transport)
        let transfer = run([near.server.url("/a"), far.server.url("/a")], on: routed)
        while near.server.log.requests(to: "/a").isEmpty { try await Task.sleep(for: .milliseconds(2)) }
        routed.cancel(TransferID(rawValue: 1))
        guard case .failure(let error) = try await transfer.end() else {
            Issue.record("it was not cancelled")
            return
        }
        #expect(error.code == .cancelled && far.server.log.requests(to: "/a").isEmpty)
        near.server.releaseStalls()
    }

    @Test("A cancel before the start is kept, wherever the URLs would lead")
    func cancelledEarly() async throws {
        let (near, far) = (try Bench(), try Bench())
        near.server.serve(object, at: "/a")
        let routed = RoutedTransport(
            [(try URLScope.prefixes([near.server.url("/")]), near.transport)], others: far.transport)
        routed.cancel(TransferID(rawValue: 1))
        let transfer = run([near.server.url("/a")], on: routed)
        guard case .failure(let error) = try await transfer.end() else {
            Issue.record("it was not cancelled")
            return
        }
        #expect(error.code == .cancelled && near.server.log.requestCount == 0)
    }

    @Test("A cancel between one transport and the next is kept")
    func cancelledBetween() async throws {
        let far = try Bench()
        far.server.serve(object, at: "/a")
        let failing = FailingTransport()
        let routed = RoutedTransport([(try URLScope.prefixes(["store:"]), failing)], others: far.transport)
        failing.beforeFailure.withLock { $0 = { routed.cancel(TransferID(rawValue: 1)) } }
        let transfer = run(["store://a/x", far.server.url("/a")], on: routed)
        guard case .failure(let error) = try await transfer.end() else {
            Issue.record("it was not cancelled")
            return
        }
        #expect(error.code == .cancelled && far.server.log.requestCount == 0)
    }

    @Test("Transfers of all transports are listed, up to a limit, with the bytes that a route has brought [S161]")
    func statuses() async throws {
        let far = try Bench()
        far.server.respondToOthers { _ in .silence }
        let route = WaitingTransport()
        let routed = RoutedTransport([(try URLScope.prefixes(["store:"]), route)], others: far.transport)
        func start(_ number: UInt64, _ url: String, range: Range<UInt64>? = nil) -> TransferRun {
            let request = TransferRequest(
                id: TransferID(rawValue: number), urls: [url], range: range, objectSize: 50_000, limit: 50_000)
            var behaviour = CollectingSink.Behaviour()
            behaviour.start = range?.lowerBound ?? 0
            return TransferRun(request, on: routed, sink: CollectingSink(behaviour))
        }
        let runs = [
            start(1, far.server.url("/a")), start(2, "store://me:secret@a/x?key=1"),
            start(3, "store://a/y", range: 5..<9),
        ]
        let told = try await waitFor {
            let told = routed.transferStatuses(limit: 9, at: Self.now)
            return told?.transfers.count == 3 ? told : nil
        }
        #expect(told.more == 0 && told.transfers.map(\.transfer) == [2, 3, 1])
        let first = told.transfers[0]
        #expect(first.since <= Self.now && first.until == nil)
        #expect(first.state == .receiving && first.source == "store:" && first.range == [0, 50_000])
        #expect(!first.original.contains("secret") && first.original == first.current)
        #expect(told.transfers[1].range == [5, 9] && told.transfers[1].received == 0)
        route.bring([1, 2, 3], at: 5)
        let more = try await waitFor { routed.transferStatuses(limit: 9, at: Self.now) }
        #expect(more.transfers.map(\.received) == [0, 3, 0] && runs[2].sink.bytes == [1, 2, 3])
        let some = try await waitFor { routed.transferStatuses(limit: 1, at: Self.now) }
        #expect(some.more == 2 && some.transfers.count == 1 && some.transfers.first?.state == .receiving)
        route.end()
        for run in runs.dropFirst() { _ = try await run.end() }
        let rest = try await waitFor { routed.transferStatuses(limit: 9, at: Self.now) }
        #expect(rest.more == 0 && rest.transfers.map(\.transfer) == [1])
        far.server.releaseStalls()
        far.transport.shutdown()
        _ = try await runs[0].end()
    }

    @Test("Rewriting rules are a resolver like others")
    func rules() throws {
        let rules = try [RewriteRule("https://a.example/ https://b.example/")]
        let answers = RewriteRules(rules).resolve(
            ["https://a.example/x", "https://c.example/x", "no URL"].map { ResolverRequest(url: $0, original: $0) })
        #expect(answers == [.replace(url: "https://b.example/x", headers: []), .proceed, .proceed])
    }
}

/// Fails every transfer at once, and does something before.
private final class FailingTransport: Transport {
    let beforeFailure = Mutex<@Sendable () -> Void>({})

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        beforeFailure.withLock { $0 }()
        completion(.failure(TransferError(code: .unreachable, url: "", detail: "nothing here")))
    }

    func resume(_ id: TransferID) {}
    func cancel(_ id: TransferID) {}
    func reportFault(url: String, reason: String) {}
    var totals: TransferTotals { TransferTotals() }
    func shutdown() {}
}

/// Keeps every transfer until its end.
private final class WaitingTransport: Transport {
    private typealias Completion = @Sendable (Result<TransferReport, TransferError>) -> Void
    private let waiting = Mutex<[(sink: any TransferSink, completion: Completion)]>([])

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) { waiting.withLock { $0.append((sink, completion)) } }

    /// Gives bytes to the latest transfer.
    func bring(_ bytes: [UInt8], at offset: UInt64) {
        guard let sink = waiting.withLock({ $0.last?.sink }) else { return }
        _ = sink.begin(ResponseHead(status: 206, bodyOffset: offset))
        _ = bytes.withUnsafeBytes { sink.receive($0, at: offset) }
    }

    func end() {
        for (_, completion) in waiting.withLock({ $0 }) {
            completion(.failure(TransferError(code: .cancelled, url: "", detail: "ended")))
        }
    }

    func resume(_ id: TransferID) {}
    func cancel(_ id: TransferID) {}
    func reportFault(url: String, reason: String) {}
    var totals: TransferTotals { TransferTotals() }
    func shutdown() {}
}
