import SyncPlugins
import SyncSystem

/// One transfer from the origin that a task reads piece by piece: a document, or a body that is passed through. The
/// transfer pauses while ``capacity`` **bytes** wait for the reader.
final class Download: TransferSink {
    /// The result of one read.
    enum Next: Sendable {
        case bytes([UInt8])
        case ended
        case failed(TransferError)
    }

    private struct State {
        var head: ResponseHead?
        var bytes: [UInt8] = []
        /// The next **byte** of the object.
        var position: UInt64?
        var end: Result<TransferReport, TransferError>?
        /// Whether the answer after an interruption may be of another version than the first one.
        var isOther = false
        var isPaused = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private static let capacity = 256 << 10

    private let state = Mutex(State())
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
        while true {
            let found = state.withLock { state -> Result<ResponseHead, TransferError>? in
                if let head = state.head { return .success(head) }
                return state.end.map { end in end.map(\.response) }
            }
            if let found { return try found.get() }
            guard await wait(until: { $0.head != nil }) else { throw Self.stopped }
        }
    }

    /// Waits for the next bytes. Only one task may read.
    func next() async -> Next {
        while true {
            let (found, isPaused) = state.withLock { state -> (Next?, Bool) in
                if !state.bytes.isEmpty {
                    let bytes = state.bytes
                    state.bytes = []
                    defer { state.isPaused = false }
                    return (.bytes(bytes), state.isPaused)
                }
                switch state.end {
                case .success: return (.ended, false)
                case .failure(let error): return (.failed(error), false)
                case nil: return (nil, false)
                }
            }
            if isPaused { transport.resume(id) }
            if let found { return found }
            guard await wait(until: { !$0.bytes.isEmpty }) else { return .failed(Self.stopped) }
        }
    }

    static let stopped = TransferError(code: .cancelled, url: "", detail: "the cache stops")

    /// - Returns: `false` when the task was cancelled.
    private func wait(until isThere: @Sendable (State) -> Bool) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    guard !isThere(state), state.end == nil, !Task.isCancelled else { return true }
                    state.waiter = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
        return !Task.isCancelled
    }

    private func wake() { state.withLock { $0.waiter.take() }?.resume() }

    private func complete(_ result: Result<TransferReport, TransferError>) {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
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
            return state.waiter.take()
        }?.resume()
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        let (position, waiter) = state.withLock { state -> (UInt64, CheckedContinuation<Void, Never>?) in
            if !isNamed, let head = state.head, state.position != nil || head.validator != response.validator {
                state.isOther = !head.validator.isSameVersion(as: response.validator)
            }
            state.head = state.head ?? response
            return (state.position ?? response.bodyOffset, state.waiter.take())
        }
        waiter?.resume()
        return position
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let (outcome, waiter) = state.withLock { state -> (SinkOutcome, CheckedContinuation<Void, Never>?) in
            guard !state.isOther else { return (.stop, nil) }
            guard state.bytes.count < Self.capacity else {
                state.isPaused = true
                return (.paused, nil)
            }
            state.bytes.append(contentsOf: bytes)
            state.position = offset + UInt64(bytes.count)
            return (.taken, state.waiter.take())
        }
        waiter?.resume()
        return outcome
    }
}
