public import SyncPlugins
import Synchronization

/// One transfer started by a test, and its end.
public final class TransferRun: Sendable {
    /// The sink it was started with.
    public let sink: CollectingSink
    private let results = Mutex<[Result<TransferReport, TransferError>]>([])
    private let started = ContinuousClock.now
    private let ended = Mutex<ContinuousClock.Instant?>(nil)

    /// Starts `request` on `transport`.
    public init(_ request: TransferRequest, on transport: any Transport, sink: CollectingSink = CollectingSink()) {
        self.sink = sink
        transport.start(request, sink: sink) { [self] result in
            sink.completed()
            ended.withLock { $0 = .now }
            results.withLock { $0.append(result) }
        }
    }

    /// Times the completion was called so far.
    public var completions: Int { results.withLock { $0.count } }

    /// How it ended, or `nil` while it runs.
    public var result: Result<TransferReport, TransferError>? { results.withLock { $0.first } }

    /// From its start to its completion, on the transport's own thread: however busy those of the tests are.
    public var elapsed: Duration? { ended.withLock { $0.map { $0 - started } } }

    /// Waits for the end.
    ///
    /// - Throws: ``TestKitError`` when there is none after `deadline` and five hundred looks: a hang. However long
    ///   the tests' own threads had no turn, the transfer has some after it.
    public func end(within deadline: Duration = .seconds(20)) async throws -> Result<TransferReport, TransferError> {
        let start = ContinuousClock.now
        var looks = 0
        while looks < 500 || ContinuousClock.now - start < deadline {
            if let result { return result }
            looks += 1
            try await Task.sleep(for: .milliseconds(2))
        }
        // On a busy machine the last sleep may take long.
        if let result { return result }
        let waited = ContinuousClock.now - start
        let calls = sink.calls.suffix(4)
        throw TestKitError("no completion after \(waited), \(looks) looks; calls of the sink: \(calls)")
    }
}
