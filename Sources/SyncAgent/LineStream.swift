import SyncSystem

/// The lines of a streamed response. A slow reader makes the agent wait: only a bounded part is buffered here.
///
/// The call's thread, which starts when the first line is requested, adds lines and waits when there are enough; one
/// task removes them.
final class LineStream: Sendable {
    private struct State: Sendable {
        var isStarted = false
        var lines: ArraySlice<String> = []
        var isEnded = false
        var failure: (any Error)?
        var taker: CheckedContinuation<Void, Never>?
    }

    private let client: ControlClient
    private let target: String
    private let state = Monitor(State())
    private let cancellation = StopFlag()

    /// Most buffered lines; beyond that libcurl stops reading.
    private static let capacity = 512

    /// More than the **bytes** of the longest possible line: `hook.finished` has up to 1 MiB + 64 KiB of a hook's
    /// output, each byte of which may take six in JSON.
    private static let longestLine = 8 << 20

    /// - Parameter target: Path and query, percent-encoded.
    init(_ client: ControlClient, _ target: String) { (self.client, self.target) = (client, target) }

    deinit { cancel() }

    /// The next line; `nil` at the end.
    ///
    /// - Throws: ``ControlError``; `CancellationError` when the task is cancelled.
    func next() async throws -> String? {
        start()
        return try await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.change { state in
                    if state.isEnded || !state.lines.isEmpty { return true }
                    state.taker = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
            let (line, failure) = state.change { ($0.lines.popFirst(), $0.failure) }
            if line == nil, let failure { throw failure }
            return line
        } onCancel: {
            cancel()
        }
    }

    /// Ends the call, soon.
    func cancel() {
        cancellation.set()
        Self.end(state, CancellationError())
    }

    private func start() {
        let isFirst = state.change { state in
            defer { state.isStarted = true }
            return !state.isStarted
        }
        guard isFirst else { return }
        do throws(ThreadError) {
            try WorkerThread(name: "agent events") { [client, target, state, cancellation] in
                // The bytes after the last newline; for an error, the whole body.
                var rest: [UInt8] = []
                do {
                    let status = try client.perform("GET", target, until: cancellation) { bytes, status in
                        let isWhole = bytes.contains(0x0A)
                        rest.append(contentsOf: bytes)
                        guard status < 300, isWhole, let last = rest.lastIndex(of: 0x0A) else {
                            return Self.isShort(rest, state)
                        }
                        let lines = rest[..<last].split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
                        rest.removeSubrange(...last)
                        return Self.put(lines, state) && Self.isShort(rest, state)
                    }
                    guard status < 300 else { throw ControlClient.error(status, rest) }
                    Self.end(state, nil)
                } catch { Self.end(state, error) }
            }
        } catch { Self.end(state, ControlClient.failure(error)) }
    }

    private static func put(_ lines: [String], _ state: Monitor<State>) -> Bool {
        let taker = state.wait { state -> CheckedContinuation<Void, Never>?? in
            guard state.isEnded || state.lines.count < capacity else { return nil }
            state.lines.append(contentsOf: lines)
            return .some(state.taker.take())
        }
        taker?.resume()
        return !state.change(\.isEnded)
    }

    /// Whether the line received so far is short enough. If not, the stream ends with an error.
    private static func isShort(_ rest: [UInt8], _ state: Monitor<State>) -> Bool {
        if rest.count <= longestLine { return true }
        let text = "The agent sent a line of more than \(longestLine >> 20) MiB."
        end(state, ControlError(.internal, text, exitStatus: .internalError))
        return false
    }

    private static func end(_ state: Monitor<State>, _ failure: (any Error)?) {
        let taker = state.change { state in
            if !state.isEnded { state.failure = failure }
            state.isEnded = true
            return state.taker.take()
        }
        taker?.resume()
    }
}
