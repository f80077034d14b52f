public import SyncPlugins
import Synchronization

/// What every ``Transport`` must do, as cases that a test target runs over its own transport:
/// ```swift
/// @Test(arguments: TransportContract.cases)
/// func contract(_ rule: TransportContract.Rule) async throws {
///     try await rule.check { MyTransport(retryDelay: .milliseconds(10), idleTimeout: .seconds(1)) }
/// }
/// ```
/// The transport should retry after some milliseconds and give up idle connections after about a second,
/// must be allowed to reach 127.0.0.1, and needs at least three attempts.
public enum TransportContract {
    /// Makes a transport with nothing done yet; the rule shuts it down.
    public typealias Factory = @Sendable () throws -> any Transport

    /// One rule.
    public struct Rule: Sendable, CustomStringConvertible {
        /// What a good transport does.
        public let description: String
        let body: @Sendable (ContractBench) async throws -> Void

        init(_ description: String, _ body: @escaping @Sendable (ContractBench) async throws -> Void) {
            self.description = description
            self.body = body
        }

        /// Runs the rule over a transport of its own.
        ///
        /// - Throws: ``TestKitError`` that says what the transport did instead, and what the server saw.
        public func check(_ factory: Factory) async throws {
            let bench = ContractBench(transport: try factory(), server: try FaultServer())
            do {
                try await body(bench)
                bench.transport.shutdown()
                try bench.finish()
            } catch {
                bench.transport.shutdown()
                throw TestKitError("\(error)\nThe server saw:\n\(bench.server.log.description)")
            }
        }
    }

    /// Every rule.
    public static var cases: [Rule] { deliveryRules + endingRules + retryRules }
}

/// A transport, a server, and the transfers between them.
final class ContractBench: Sendable {
    let transport: any Transport
    let server: FaultServer
    let object = ServedObject.patterned(size: 300_000)
    private let runs = Mutex<[TransferRun]>([])

    init(transport: any Transport, server: FaultServer) {
        self.transport = transport
        self.server = server
        server.serve(object, at: "/a")
    }

    /// Starts a transfer; `url` `nil` means the object at `/a`.
    func start(
        _ urls: [String]? = nil, range: Range<UInt64>? = nil, limit: UInt64? = nil,
        behaviour: CollectingSink.Behaviour = .init(), change: (inout TransferRequest) -> Void = { _ in }
    ) -> TransferRun {
        var request = TransferRequest(
            id: comingID, urls: urls ?? [server.url("/a")], range: range,
            limit: limit ?? UInt64(range?.count ?? object.bytes.count))
        change(&request)
        let run = TransferRun(request, on: transport, sink: CollectingSink(behaviour))
        runs.withLock { $0.append(run) }
        return run
    }

    /// The identifier the next ``start(_:range:limit:behaviour:change:)`` will use.
    var comingID: TransferID { TransferID(rawValue: UInt64(runs.withLock { $0.count }) + 1) }

    /// Waits for a good end and checks the bytes.
    @discardableResult func deliver(_ run: TransferRun, _ bytes: ArraySlice<UInt8>) async throws -> TransferReport {
        switch try await run.end() {
        case .success(let report):
            try expect(run.sink.bytes.elementsEqual(bytes), "the sink has other bytes than the object")
            return report
        case .failure(let error): throw TestKitError("failed: \(error.code.name), \(error)")
        }
    }

    func failure(_ run: TransferRun) async throws -> TransferError {
        switch try await run.end() {
        case .success: throw TestKitError("succeeded, expected a failure")
        case .failure(let error): return error
        }
    }

    /// Waits until the server has seen `count` requests.
    func waitForRequests(_ count: Int) async throws {
        let limit = ContinuousClock.now + .seconds(10)
        while server.log.requestCount < count {
            guard ContinuousClock.now < limit else { throw TestKitError("no \(count) requests after 10 s") }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    /// Checks what holds for every transfer, after shutdown.
    func finish() throws {
        for run in runs.withLock({ $0 }) {
            try expect(run.completions == 1, "the completion was called \(run.completions) times")
            try expect(run.sink.violations.isEmpty, run.sink.violations.joined(separator: "; "))
        }
    }
}

func expect(_ condition: Bool, _ message: @autoclosure () -> String) throws(TestKitError) {
    if !condition { throw TestKitError(message()) }
}
