import SyncPlugins
import SyncSystem

/// One transfer from the origin that a task reads piece by piece: a document, or a body that is passed through. The
/// transfer pauses while ``capacity`` **bytes** wait for the reader.
final class Download: TransferSink {
    private struct State {
        var head: ResponseHead?
        var bytes: [UInt8] = []
        /// The next **byte** of the object.
        var position: UInt64?
        var end: Result<TransferReport, TransferError>?
        /// Whether the answer after an interruption may be of another version than the first one.
        var isOther = false
        var isPaused = false
    }

    private static let capacity = 256 << 10

    private let state = Mutex(State())
    private let waiters = Waiters()
    private let transport: any Transport
    private let id: TransferID
    private let isNamed: Bool

    private init(_ transport: any Transport, _ id: TransferID, isNamed: Bool) {
        (self.transport, self.id, self.isNamed) = (transport, id, isNamed)
    }

    /// Starts a transfer.
    ///
    /// - Parameter isNamed: Whether a digest names the object, so that every answer is of the same version.
    static func start(_ request: TransferRequest, on transport: any Transport, isNamed: Bool = false) -> Download {
        let download = Download(transport, request.id, isNamed: isNamed)
        transport.start(request, sink: download) { download.complete($0) }
        return download
    }

    /// Ends the transfer early. Harmless when it has ended.
    func cancel() { transport.cancel(id) }

    /// Waits for the head of the answer.
    func head() async throws(TransferError) -> ResponseHead {
        _ = await waiters.wait { self.state.withLock { $0.head != nil || $0.end != nil } }
        let (head, end) = state.withLock { ($0.head, $0.end) }
        if let head { return head }
        guard let end else { throw Self.stopped }
        return try end.get().response
    }

    /// Waits for the next bytes; `nil` at the end. Only one task may read.
    func next() async throws(TransferError) -> [UInt8]? {
        let isThere = await waiters.wait { self.state.withLock { !$0.bytes.isEmpty || $0.end != nil } }
        guard isThere else { throw Self.stopped }
        let (bytes, end, isPaused) = state.withLock { state in
            defer { (state.bytes, state.isPaused) = ([], false) }
            return (state.bytes, state.end, state.isPaused)
        }
        if isPaused { transport.resume(id) }
        if bytes.isEmpty { _ = try end?.get() }
        return bytes.isEmpty ? nil : bytes
    }

    static let stopped = TransferError(code: .cancelled, url: "", detail: "the cache stops")

    private func complete(_ result: Result<TransferReport, TransferError>) {
        state.withLock { state in
            if state.head == nil, case .success(let report) = result { state.head = report.response }
            state.end = result
            if state.isOther {
                // Also if it ended well: what is here may be longer than all of the other version.
                let url =
                    switch result {
                    case .success(let report): report.currentURL
                    case .failure(let error): error.url
                    }
                state.end = .failure(
                    TransferError(
                        code: .badAnswer, url: url, detail: "interrupted, and perhaps of another version since"))
            }
        }
        waiters.wake()
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        let position = state.withLock { state in
            if !isNamed, let head = state.head, state.position != nil || head.validator != response.validator {
                state.isOther = !head.validator.isSameVersion(as: response.validator)
            }
            state.head = state.head ?? response
            return state.position ?? response.bodyOffset
        }
        waiters.wake()
        return position
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let outcome = state.withLock { state -> SinkOutcome in
            guard !state.isOther else { return .stop }
            guard state.bytes.count < Self.capacity else {
                state.isPaused = true
                return .paused
            }
            state.bytes.append(contentsOf: bytes)
            state.position = offset + UInt64(bytes.count)
            return .taken
        }
        if outcome == .taken { waiters.wake() }
        return outcome
    }
}
