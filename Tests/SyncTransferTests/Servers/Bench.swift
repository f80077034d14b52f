import Glibc
import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization

/// Events in the order they came, as short lines.
final class EventLog: Sendable {
    private let list = Mutex<[String]>([])

    var lines: [String] { list.withLock { $0 } }

    func lines(of kind: String) -> [String] { lines.filter { $0.hasPrefix(kind) } }

    private static func line(_ hop: Hop) -> String {
        let way = "\(hop.from) -> \(hop.to)"
        return switch hop.cause {
        case .redirect(let status): "redirected \(status) \(hop.number) \(way)"
        case .rule(let place): "rewritten \(place) \(hop.number) \(way)"
        case .resolver(let name): "resolved by \(name) \(hop.number) \(way)"
        case .mirror: "mirrored \(way)"
        }
    }

    func add(_ event: TransferEvent) {
        let line =
            switch event {
            case .asked: ""
            case .moved(_, let hop): Self.line(hop)
            case .retrying(_, _, let reason, let attempt, _): "retrying \(attempt): \(reason)"
            case .sourcePenalised(_, let url, let reason): "penalised \(url): \(reason)"
            case .waitingForConnectivity(_, let url, let reason, _, _): "waiting \(url): \(reason)"
            case .pluginFailed(let point, let error): "plugin failed \(point): \(error)"
            }
        // That a request went out is told each time; the tests are about what happens to it.
        guard !line.isEmpty else { return }
        list.withLock { $0.append(line) }
    }
}

let systemClock = TransportClock(
    now: {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }, unixTime: { Int64(time(nil)) })

/// A transport whose waits are short enough for tests.
func makeTransport(log: EventLog = EventLog(), _ change: (inout TransportConfiguration) -> Void = { _ in }) throws
    -> CurlTransport
{
    var configuration = TransportConfiguration(clock: systemClock, random: { 1 << 62 }, events: { log.add($0) })
    configuration.advise = { "\($0)" }
    configuration.retry.base = .milliseconds(20)
    configuration.retry.connectivityCap = .milliseconds(50)
    configuration.idleTimeout = .seconds(2)
    configuration.connectTimeout = .seconds(2)
    configuration.resourceDeadline = .seconds(20)
    change(&configuration)
    return try CurlTransport(configuration: configuration)
}

/// One server, one transport and the transfers between them.
final class Bench: Sendable {
    let server: FaultServer
    let transport: CurlTransport
    let log: EventLog
    private let next = Mutex<UInt64>(1)

    init(server: FaultServer? = nil, _ change: (inout TransportConfiguration) -> Void = { _ in }) throws {
        let log = EventLog()
        self.log = log
        self.server = try server ?? FaultServer()
        transport = try makeTransport(log: log, change)
    }

    deinit { transport.shutdown() }

    /// Starts a transfer of an object, or of a part of it, from `urls` or else from `/a`.
    func start(
        _ object: ServedObject, from urls: [String]? = nil, range: Range<UInt64>? = nil,
        sink: CollectingSink.Behaviour = .init(), change: (inout TransferRequest) -> Void = { _ in }
    ) -> TransferRun {
        let id = next.withLock { next in
            defer { next += 1 }
            return TransferID(rawValue: next)
        }
        var request = TransferRequest(
            id: id, urls: urls ?? [server.url("/a")], range: range, objectSize: UInt64(object.bytes.count),
            limit: UInt64(range?.count ?? object.bytes.count))
        change(&request)
        var behaviour = sink
        if let range { behaviour.start = range.lowerBound }
        return TransferRun(request, on: transport, sink: CollectingSink(behaviour))
    }

    /// Runs one transfer to a good end and checks the bytes.
    @discardableResult func deliver(
        _ object: ServedObject, from urls: [String]? = nil, range: Range<UInt64>? = nil,
        change: (inout TransferRequest) -> Void = { _ in }
    ) async throws -> TransferReport {
        try await finish(start(object, from: urls, range: range, change: change), object, range: range)
    }

    /// Waits for a good end and checks the bytes.
    @discardableResult func finish(_ run: TransferRun, _ object: ServedObject, range: Range<UInt64>? = nil) async throws
        -> TransferReport
    {
        let report = try await run.end().get()
        let wanted = range.map { Int($0.lowerBound)..<Int($0.upperBound) } ?? 0..<object.bytes.count
        guard isSame(run.sink.bytes, object.bytes[wanted]) else {
            throw TestKitError("other bytes than the object's\n\(server.log.description)")
        }
        guard run.sink.violations.isEmpty else { throw TestKitError(run.sink.violations.joined(separator: "; ")) }
        return report
    }

    /// Waits for a bad end.
    func failure(_ run: TransferRun) async throws -> TransferError {
        switch try await run.end() {
        case .success: throw TestKitError("succeeded, expected a failure")
        case .failure(let error): return error
        }
    }
}

/// Compares fast in a debug build, too.
func isSame(_ one: [UInt8], _ other: ArraySlice<UInt8>) -> Bool {
    one.count == other.count
        && one.withUnsafeBytes { left in
            other.withUnsafeBytes { right in
                guard let first = left.baseAddress, let second = right.baseAddress else { return true }
                return memcmp(first, second, left.count) == 0
            }
        }
}

/// Waits until `body` returns a value.
@discardableResult func waitFor<R>(_ body: () -> R?) async throws -> R {
    let limit = ContinuousClock.now + .seconds(20)
    while ContinuousClock.now < limit {
        if let result = body() { return result }
        try await Task.sleep(for: .milliseconds(2))
    }
    throw TestKitError("nothing after 20 s")
}
