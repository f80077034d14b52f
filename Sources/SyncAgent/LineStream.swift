import Foundation
import SyncControl

/// The lines of a streamed answer. A slow reader makes the agent wait: only a bounded piece is held here.
///
/// The exchange's thread puts lines in and waits when enough are there; one task takes them.
final class LineStream: Sendable {
    private struct State: Sendable {
        var lines: [String] = []
        var isEnded = false
        var failure: (any Error)?
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state = Guarded(State())
    private let cancellation = Exchange.Cancellation()

    /// Lines that wait here; beyond that libcurl stops reading.
    private static let capacity = 512

    /// Begins the exchange.
    init(_ exchange: Exchange) {
        Thread.detachNewThread { [state, cancellation] in
            let splitter = Splitter(state)
            do {
                let status = try exchange.perform(splitter, cancellation)
                guard status < 300 else { throw Exchange.error(status, splitter.rest) }
                Self.end(state, nil)
            } catch {
                Self.end(state, error)
            }
        }
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

    /// Ends the exchange, soon.
    func cancel() {
        cancellation.cancel()
        Self.end(state, CancellationError())
    }

    private static func end(_ state: Guarded<State>, _ failure: (any Error)?) {
        let taker = state.change { state in
            if !state.isEnded { state.failure = failure }
            state.isEnded = true
            return state.taker.take()
        }
        taker?.resume()
    }

    /// Cuts the body into lines, on the exchange's thread.
    private final class Splitter: Exchange.Receiver {
        private let state: Guarded<State>
        /// What came after the last newline; for an error, its whole body.
        private(set) var rest: [UInt8] = []

        /// **Bytes** of the longest line there can be, and then some.
        private static let limit = 4 << 20

        init(_ state: Guarded<State>) { self.state = state }

        func receive(_ bytes: UnsafeRawBufferPointer, status: Int) -> Bool {
            rest.append(contentsOf: bytes)
            guard rest.count <= Self.limit else { return false }
            guard status < 300 else { return true }
            guard let last = rest.lastIndex(of: 0x0A) else { return true }
            let lines = rest[..<last].split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
            rest.removeSubrange(...last)
            return put(lines)
        }

        private func put(_ lines: [String]) -> Bool {
            let taker = state.wait(until: { $0.isEnded || $0.lines.count < LineStream.capacity }) { state in
                state.lines.append(contentsOf: lines)
                return state.taker.take()
            }
            taker?.resume()
            return !state.change(\.isEnded)
        }
    }
}

/// A value behind a lock whose changes a thread can wait for.
///
/// The value is private, and every method that touches it holds the lock of the condition while it does; a `Mutex` has
/// no condition to wait on.
final class Guarded<Value: Sendable>: @unchecked Sendable {  // Safe: `condition` guards `value`.
    private let condition = NSCondition()
    private var value: Value

    init(_ value: Value) { self.value = value }

    /// Changes the value and wakes who waits for a change.
    func change<R>(_ body: (inout Value) -> R) -> R {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return body(&value)
    }

    /// Waits until the value is as wanted, then changes it. Holds up the thread.
    func wait<R>(until isReady: (Value) -> Bool, _ body: (inout Value) -> R) -> R {
        condition.lock()
        defer { condition.unlock() }
        while !isReady(value) { condition.wait() }
        return body(&value)
    }
}
