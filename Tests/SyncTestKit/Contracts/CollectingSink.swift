public import SyncPlugins
import Synchronization

import func SyncSystem.isEqual

/// A sink that keeps what it gets, checks the order of calls, and can pause, stop and remember earlier bytes.
public final class CollectingSink: TransferSink {
    /// One call of the transport, in order.
    public enum Call: Sendable, Equatable {
        /// ``begin(_:)``, with the status and the body's first offset.
        case begin(status: Int, bodyOffset: UInt64)
        /// ``receive(_:at:)`` that was taken, with offset and number of **bytes**.
        case received(at: UInt64, count: Int)
        /// ``receive(_:at:)`` that was answered with "paused".
        case paused(at: UInt64)
        /// ``receive(_:at:)`` that was answered with "stop".
        case stopped(at: UInt64)
    }

    /// How a sink is meant to behave.
    public struct Behaviour: Sendable {
        /// Offset in the object of the first byte this sink wants.
        public var start: UInt64 = 0
        /// **Bytes** from `start` on that the sink has already, as after an earlier run.
        public var alreadyHere: [UInt8] = []
        /// The object's **bytes**; a byte that differs is not taken, and the answer is "stop", as after a bad hash.
        public var object: [UInt8]?
        /// Answers "paused" once each time this many **bytes** were taken; `nil` never.
        public var pauseEvery: Int?
        /// Answers "stop" when this many **bytes** were taken; `nil` never.
        public var stopAfter: Int?
        /// Called when the sink has paused, on the transport's thread.
        public var onPause: (@Sendable () -> Void)?

        /// Takes everything from the object's first byte on.
        public init() {}
    }

    private struct State {
        var calls: [Call] = []
        var interruptions = 0
        var violations: [String] = []
        var bytes: [UInt8]
        var began = false
        var isInside = false
        var isOver = false
        var sincePause = 0
        var taken = 0
    }
    private let behaviour: Behaviour
    private let state: Mutex<State>

    /// Makes a sink.
    public init(_ behaviour: Behaviour = Behaviour()) {
        self.behaviour = behaviour
        state = Mutex(State(bytes: behaviour.alreadyHere))
    }

    // MARK: What came of it

    /// The **bytes** from ``Behaviour/start`` on, earlier ones included.
    public var bytes: [UInt8] { state.withLock { $0.bytes } }

    /// Every call so far.
    public var calls: [Call] { state.withLock { $0.calls } }

    /// How often it was told that an answer ended early.
    public var interruptions: Int { state.withLock { $0.interruptions } }

    /// Number of answers that began.
    public var beginCount: Int { calls.reduce(0) { count, call in if case .begin = call { count + 1 } else { count } } }

    /// What the transport did that the protocol forbids, one line each; empty for a good transport.
    public var violations: [String] { state.withLock { $0.violations } }

    /// Notes that the completion has been called: every later call is a violation.
    public func completed() {
        state.withLock {
            if $0.isOver { $0.violations.append("the completion was called twice") }
            if $0.isInside { $0.violations.append("the completion was called during a call of the sink") }
            $0.isOver = true
        }
    }

    // MARK: TransferSink

    /// Asks for the bytes behind those that are here.
    public func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock { state in
            enter(&state, "begin")
            defer { state.isInside = false }
            state.began = true
            state.calls.append(.begin(status: response.status, bodyOffset: response.bodyOffset))
            if response.status == 200, response.bodyOffset != 0 {
                state.violations.append("a 200 began at \(response.bodyOffset)")
            }
            return behaviour.start + UInt64(state.bytes.count)
        }
    }

    /// Keeps the bytes, unless it is time to pause or stop.
    public func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let outcome = state.withLock { state -> SinkOutcome in
            enter(&state, "receive at \(offset)")
            defer { state.isInside = false }
            if !state.began { state.violations.append("bytes at \(offset) before begin") }
            if bytes.isEmpty { state.violations.append("an empty buffer at \(offset)") }
            let wanted = behaviour.start + UInt64(state.bytes.count)
            guard offset == wanted else {
                state.violations.append("bytes at \(offset), wanted \(wanted)")
                return .stop
            }
            if !matches(bytes, at: offset) {
                state.calls.append(.stopped(at: offset))
                return .stop
            }
            if let limit = behaviour.stopAfter, state.taken >= limit {
                state.calls.append(.stopped(at: offset))
                return .stop
            }
            if let every = behaviour.pauseEvery, state.sincePause >= every {
                state.sincePause = 0
                state.calls.append(.paused(at: offset))
                return .paused
            }
            state.bytes.append(contentsOf: bytes)
            state.taken += bytes.count
            state.sincePause += bytes.count
            state.calls.append(.received(at: offset, count: bytes.count))
            return .taken
        }
        if case .paused = outcome { behaviour.onPause?() }
        return outcome
    }

    /// Counts.
    public func interrupted() {
        state.withLock { state in
            enter(&state, "interrupted")
            state.interruptions += 1
            state.isInside = false
        }
    }

    private func matches(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> Bool {
        guard let object = behaviour.object else { return true }
        guard let start = Int(exactly: offset), start <= object.count, bytes.count <= object.count - start else {
            return false
        }
        return object.withUnsafeBytes { begins(UnsafeRawBufferPointer(rebasing: $0[start...]), bytes) }
    }

    private func enter(_ state: inout State, _ call: String) {
        if state.isOver { state.violations.append("\(call) after the completion") }
        state.isInside = true
    }
}

/// Whether `bytes` stand at the beginning of `whole`.
private func begins(_ whole: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer) -> Bool {
    isEqual(UnsafeRawBufferPointer(rebasing: whole.prefix(bytes.count)), bytes)
}

/// Whether `bytes` are the beginning of `whole`; quick on large arrays also without optimiser.
public func isPrefix(_ bytes: [UInt8], of whole: ArraySlice<UInt8>) -> Bool {
    whole.withUnsafeBytes { whole in bytes.withUnsafeBytes { begins(whole, $0) } }
}
