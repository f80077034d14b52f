public import SyncPlugins
import Synchronization

/// One transfer started by a test, and its end.
public final class TransferRun: Sendable {
    /// The sink it was started with.
    public let sink: CollectingSink
    private let results = Mutex<[Result<TransferReport, TransferError>]>([])

    /// Starts `request` on `transport`.
    public init(
        _ request: TransferRequest,
        on transport: any Transport,
        sink: CollectingSink = CollectingSink()
    ) {
        self.sink = sink
        transport.start(request, sink: sink) { [self] result in
            sink.completed()
            results.withLock { $0.append(result) }
        }
    }

    /// Times the completion was called so far.
    public var completions: Int { results.withLock { $0.count } }

    /// How it ended, or `nil` while it runs.
    public var result: Result<TransferReport, TransferError>? { results.withLock { $0.first } }

    /// Waits for the end.
    ///
    /// - Throws: ``TestKitError`` when there is none after `deadline`: a hang.
    public func end(within deadline: Duration = .seconds(20)) async throws -> Result<
        TransferReport, TransferError
    > {
        let limit = ContinuousClock.now + deadline
        while ContinuousClock.now < limit {
            if let result { return result }
            try await Task.sleep(for: .milliseconds(2))
        }
        // On a busy machine a sleep of two milliseconds may take until here.
        if let result { return result }
        throw TestKitError("no completion after \(deadline); calls of the sink: \(sink.calls.suffix(4))")
    }
}
