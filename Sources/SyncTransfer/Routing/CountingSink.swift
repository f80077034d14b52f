import SyncCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// Passes everything on to another sink and knows how far that has come: the status of a transfer whose transport does not
/// tell it. Such a transport splits no transfer.
final class CountingSink: TransferSink {
    private struct State {
        /// Offset in the object of the next wanted **byte**.
        var position: UInt64
        var since = ContinuousClock.now
    }

    private let request: TransferRequest
    private let sink: any TransferSink
    private let state: Mutex<State>

    init(_ sink: any TransferSink, of request: TransferRequest) {
        (self.sink, self.request) = (sink, request)
        state = Mutex(State(position: request.range?.lowerBound ?? 0))
    }

    /// What is known of the transfer; which attempt it is, only the transport knows.
    func status(_ now: RequestState) -> TransferStatus {
        let url = request.urls.first ?? ""
        var status = TransferStatus(
            id: request.id,
            original: redacted(url: url),
            source: (try? CurlURL(url))?.origin.description ?? (leadingScheme(of: url) ?? "") + ":",
            attempts: 1
        )
        let first = request.range?.lowerBound ?? 0
        status.state = now
        status.range = request.range ?? request.objectSize.map { 0..<$0 }
        state.withLock { state in
            status.age = ContinuousClock.now - state.since
            status.received = state.position - min(first, state.position)
        }
        return status
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        let wanted = sink.begin(response)
        state.withLock { $0 = State(position: wanted) }
        return wanted
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let outcome = sink.receive(bytes, at: offset)
        if case .taken = outcome { state.withLock { $0.position = offset &+ UInt64(bytes.count) } }
        return outcome
    }

    func interrupted() { sink.interrupted() }
}
