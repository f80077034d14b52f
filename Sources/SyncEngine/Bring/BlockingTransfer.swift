import SyncPlugins
import SyncSystem

extension Transport {
    /// Runs one transfer and blocks the calling thread until its end. A stop request cancels it.
    ///
    /// - Parameter end: When it is cancelled, too; `nil` for as long as the transport takes.
    func run(
        _ request: TransferRequest, sink: any TransferSink, stop: StopRequest, until end: SuspendingClock.Instant? = nil
    ) -> Result<TransferReport, TransferError> {
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        stop.onStop { cancel(request.id) }
        start(request, sink: sink) { result in outcome.change { $0 = result } }
        if let end {
            // Often enough for a person not to notice the delay.
            let isOver = outcome.wait(every: 200) { result -> Bool? in
                result != nil ? false : SuspendingClock.now >= end ? true : nil
            }
            if isOver { cancel(request.id) }
        }
        return outcome.wait { $0 }
    }
}

/// Numbers for transfers, unique in this process.
enum TransferNumbers {
    private static let last = Mutex<UInt64>(0)

    static func next() -> TransferID { TransferID(rawValue: next(1).lowerBound) }

    /// A range of this many numbers.
    static func next(_ count: Int) -> Range<UInt64> {
        last.withLock { last in
            let first = last &+ 1
            last = last &+ UInt64(max(0, count))
            return first..<first &+ UInt64(max(0, count))
        }
    }
}

/// Collects a small body in memory, up to a limit: manifests and their parts, never assets.
final class MemorySink: TransferSink {
    private struct State {
        var bytes: [UInt8] = []
        var overflowed = false
        /// Who sent the bytes from each of these places on.
        var sources: [(start: Int, source: String?)] = []
    }
    private let state = Mutex(State())
    private let limit: Int
    private let first: UInt64?

    /// - Parameters:
    ///   - limit: Most **bytes**.
    ///   - first: The first **byte** of a range, in which an interrupted transfer goes on; `nil` for a whole body, which
    ///     starts over.
    init(limit: Int, from first: UInt64? = nil) { (self.limit, self.first) = (limit, first) }

    /// What has arrived so far.
    var bytes: [UInt8] { state.withLock(\.bytes) }

    /// Who sent a part of what has arrived; `nil` for several.
    func source(of part: Range<Int>) -> String? {
        state.withLock { state in
            let last = state.sources.lastIndex { $0.start <= part.lowerBound } ?? 0
            let senders = state.sources[last...].prefix { $0.start < part.upperBound }.map(\.source)
            return senders.dropFirst().allSatisfy { $0 == senders.first } ? senders.first ?? nil : nil
        }
    }

    /// Whether there was more than the limit.
    var overflowed: Bool { state.withLock(\.overflowed) }

    func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock { state in
            if first == nil { (state.bytes, state.sources) = ([], []) }
            state.sources.append((state.bytes.count, response.source))
            return (first ?? 0) + UInt64(state.bytes.count)
        }
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.withLock { state in
            guard offset == (first ?? 0) + UInt64(state.bytes.count) else { return .stop }
            guard bytes.count <= limit - state.bytes.count else {
                state.overflowed = true
                return .stop
            }
            state.bytes.append(contentsOf: bytes)
            return .taken
        }
    }
}
