import SyncSystem

/// The lines of a streamed answer. A slow reader makes the agent wait: only a bounded piece is held here.
///
/// The call's thread puts lines in and waits when enough are there; one task takes them.
final class LineStream: Sendable {
    private struct State: Sendable {
        var lines: [String] = []
        var isEnded = false
        var failure: (any Error)?
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state = Monitor(State())
    private let cancellation = StopFlag()

    /// Lines that wait here; beyond that libcurl stops reading.
    private static let capacity = 512

    init(_ call: AgentCall) {
        do throws(ThreadError) {
            try WorkerThread(name: "agent events") { [state, cancellation] in
                let splitter = Splitter(state)
                do {
                    let status = try call.perform(cancellation, receive: splitter.receive)
                    guard status < 300 else { throw AgentCall.error(status, splitter.rest) }
                    Self.end(state, nil)
                } catch { Self.end(state, error) }
            }
        } catch { Self.end(state, AgentCall.failure(error)) }
    }

    deinit { cancel() }

    /// The next lines, at least one; `nil` at the end.
    ///
    /// - Throws: ``ControlError``; `CancellationError` when the task is cancelled.
    func next() async throws -> [String]? {
        try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.change { state in
                    if state.isEnded || !state.lines.isEmpty { return true }
                    state.taker = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
            let (lines, isEnded, failure) = state.change { state in
                defer { state.lines = [] }
                return (state.lines, state.isEnded, state.failure)
            }
            if !lines.isEmpty { return lines }
            if let failure { throw failure }
            return isEnded ? nil : []
        } onCancel: {
            cancel()
        }
    }

    /// Ends the call, soon.
    func cancel() {
        cancellation.set()
        Self.end(state, CancellationError())
    }

    private static func end(_ state: Monitor<State>, _ failure: (any Error)?) {
        let taker = state.change { state in
            if !state.isEnded { state.failure = failure }
            state.isEnded = true
            return state.taker.take()
        }
        taker?.resume()
    }

    /// Cuts the body into lines, on the call's thread.
    private final class Splitter {
        private let state: Monitor<State>
        /// What came after the last newline; for an error, its whole body.
        private(set) var rest: [UInt8] = []

        /// **Bytes** of the longest line there can be, and then some: `hook.finished` has up to 1 MiB + 64 KiB of a hook's
        /// output, each byte of which can take six in JSON.
        private static let limit = 8 << 20

        init(_ state: Monitor<State>) { self.state = state }

        func receive(_ bytes: UnsafeRawBufferPointer, _ status: Int) -> Bool {
            let isWhole = bytes.contains(0x0A)
            rest.append(contentsOf: bytes)
            guard status < 300 else { return rest.count <= Self.limit }
            guard isWhole, let last = rest.lastIndex(of: 0x0A) else { return isShort }
            let lines = rest[..<last].split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
            rest.removeSubrange(...last)
            return put(lines) && isShort
        }

        /// Whether what came of a line can be held; if not, the stream ends with an error.
        private var isShort: Bool {
            if rest.count <= Self.limit { return true }
            let text = "The agent sent a line of more than \(Self.limit >> 20) MiB."
            LineStream.end(state, ControlError(.internal, text, exitStatus: .internalError))
            return false
        }

        private func put(_ lines: [String]) -> Bool {
            let taker = state.wait { state -> CheckedContinuation<Void, Never>?? in
                guard state.isEnded || state.lines.count < LineStream.capacity else { return nil }
                state.lines.append(contentsOf: lines)
                return .some(state.taker.take())
            }
            taker?.resume()
            return !state.change(\.isEnded)
        }
    }
}
