import SyncModel
import SyncPlugins
import SyncSystem

/// Passes everything on to another sink and counts the bytes. This gives the status of a transfer whose transport does
/// not report one.
final class CountingSink: SplittableSink {
    private let request: TransferRequest
    private let sink: any TransferSink
    /// The object offset of the next wanted **byte**, the start of this attempt, and the sinks of tails cut off here.
    private let state: Mutex<(position: UInt64, since: ContinuousClock.Instant, tails: [CountingSink])>

    init(_ sink: any TransferSink, of request: TransferRequest) {
        (self.sink, self.request) = (sink, request)
        state = Mutex((position: request.range?.lowerBound ?? 0, since: .now, tails: []))
    }

    /// The status of the transfer. The number of the attempt is known only to the transport.
    func status(_ requestState: RequestState, at now: WallTime) -> RequestStatus {
        let url = request.urls.first ?? ""
        var status = RequestStatus(
            transfer: request.id.rawValue, original: redacted(url: url),
            source: (try? CurlURL(url))?.origin.description ?? (leadingScheme(of: url) ?? "") + ":", attempts: 1,
            since: now.moved(by: state.withLock { $0.since } - .now))
        let first = request.range?.lowerBound ?? 0
        status.state = requestState
        status.range = (request.range ?? request.objectSize.map { 0..<$0 })?.bounds
        status.received = received(from: first)
        return status
    }

    /// The **bytes** that this sink and its tails have taken.
    private func received(from first: UInt64) -> UInt64 {
        let (position, tails) = state.withLock { ($0.position, $0.tails) }
        return tails.reduce(position - min(first, position)) {
            $0 &+ $1.received(from: $1.request.range?.lowerBound ?? 0)
        }
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        let wanted = sink.begin(response)
        state.withLock { ($0.position, $0.since) = (wanted, .now) }
        return wanted
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let outcome = sink.receive(bytes, at: offset)
        if case .taken = outcome { state.withLock { $0.position = offset &+ UInt64(bytes.count) } }
        return outcome
    }

    func interrupted() { sink.interrupted() }

    func splitTail(near offset: UInt64, in range: ClosedRange<UInt64>) -> (start: UInt64, sink: any TransferSink)? {
        guard let (start, sink) = (sink as? any SplittableSink)?.splitTail(near: offset, in: range) else { return nil }
        var rest = request
        rest.range = start..<max(start, request.range?.upperBound ?? .max)
        let tail = CountingSink(sink, of: rest)
        state.withLock { $0.tails.append(tail) }
        return (start, tail)
    }
}
