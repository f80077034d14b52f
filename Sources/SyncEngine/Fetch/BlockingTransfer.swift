import SyncManifest
import SyncPlugins
import SyncSystem

extension ManifestSource {
    /// Transfers what a request names into memory, from the network or this machine. Blocks the calling thread until
    /// the end; a stop request cancels the transfer.
    ///
    /// - Parameter end: When the transfer is cancelled as well; `nil` for as long as the transport takes.
    /// - Returns: The body and the report; the failure is `tooLarge` for more bytes than the request's limit.
    func fetch(_ asked: TransferRequest, until end: SuspendingClock.Instant? = nil) -> Result<
        (bytes: [UInt8], report: TransferReport), TransferError
    > {
        let request: TransferRequest
        switch inRegistry(asked) {
        case .success(let mapped): request = mapped
        case .failure(let error): return .failure(error)
        }
        let isLocal = isLocal(request.urls)
        let transport = isLocal ? localTransport : transport
        // A range of a pack continues where it was interrupted, whatever its validator: its digest decides.
        let first = request.objectSize == nil ? nil : request.range?.lowerBound ?? 0
        let sink = MemorySink(limit: Int(clamping: request.limit), from: first)
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        stop.onStop { transport.cancel(request.id) }
        transport.start(request, sink: sink) { result in outcome.change { $0 = result } }
        if let end {
            // Often enough for a person not to notice the delay.
            let isOver = outcome.wait(every: 200) { result -> Bool? in
                result != nil ? false : SuspendingClock.now >= end ? true : nil
            }
            if isOver { transport.cancel(request.id) }
        }
        switch outcome.wait(until: { $0 }) {
        case .success(let report):
            if !isLocal { counts.withLock { $0.bytes &+= report.bytesReceived } }
            return .success((sink.bytes, report))
        case .failure(var error):
            if sink.overflowed { error.code = .tooLarge }
            return .failure(error)
        }
    }
}

extension TransferRequest {
    /// A request for a range of an object of a set.
    init(
        _ urls: [String], _ range: Range<UInt64>, of size: UInt64, id: TransferID = .next(),
        priority: Int = .max, reload: Bool = false, referrer: Referrer?
    ) {
        self.init(
            id: id, urls: ofOneKind(urls), range: range == 0..<size ? nil : range, objectSize: size,
            limit: range.length, priority: priority, reload: reload, referrer: referrer)
    }
}

/// Whether URLs are on this machine.
func isLocal(_ urls: [String]) -> Bool { urls.first?.hasPrefix("file:") == true }

/// The URLs that are of the first one's kind: a transfer asks either this machine or servers. Remote mirrors of a local
/// pack are asked once the pack is gone.
func ofOneKind(_ urls: [String]) -> [String] {
    let isLocal = isLocal(urls)
    return urls.filter { $0.hasPrefix("file:") == isLocal }
}

/// Numbers that no transfer of this process has had.
extension TransferID {
    private static let last = Mutex<UInt64>(0)

    static func next() -> TransferID { TransferID(rawValue: numbers(1).lowerBound) }

    /// A range of this many numbers.
    static func numbers(_ count: Int) -> Range<UInt64> {
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
        /// The senders of the bytes from each offset on.
        var sources: [(start: Int, source: String?)] = []
        /// The version that the last sender named, and the length of the object.
        var validator = Validator()
        var objectSize: UInt64?
    }

    private let state = Mutex(State())
    private let limit: Int
    private let first: UInt64?

    /// - Parameters:
    ///   - limit: The most **bytes**.
    ///   - first: The first **byte** of a range, which continues after an interruption; `nil` for a whole body, which
    ///     starts over unless the same sender says that it still has the same version.
    init(limit: Int, from first: UInt64? = nil) { (self.limit, self.first) = (limit, first) }

    /// The bytes received so far.
    var bytes: [UInt8] { state.withLock { $0.bytes } }

    /// The sender of a part of the bytes; `nil` for several.
    func source(of part: Range<Int>) -> String? {
        state.withLock { state in
            let last = state.sources.lastIndex { $0.start <= part.lowerBound } ?? 0
            let senders = state.sources[last...].prefix { $0.start < part.upperBound }.map(\.source)
            return senders.dropFirst().allSatisfy { $0 == senders.first } ? senders.first ?? nil : nil
        }
    }

    /// The length of the object, as the last response gives it.
    var objectSize: UInt64? { state.withLock { $0.objectSize } }

    /// Whether there was more than the limit.
    var overflowed: Bool { state.withLock { $0.overflowed } }

    func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock { state in
            let isSame =
                state.sources.last?.source == response.source
                && state.validator.isSameVersion(as: response.validator)
            if first == nil, !isSame { (state.bytes, state.sources) = ([], []) }
            (state.validator, state.objectSize) = (response.validator, response.objectSize)
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
