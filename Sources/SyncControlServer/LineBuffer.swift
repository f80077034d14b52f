import Synchronization

/// Lines on their way from the agent to one reader: at most so many **bytes** wait, then the agent's side waits.
///
/// One task puts, one takes. Either may end it; the other learns of it at its next call, or while it waits.
final class LineBuffer: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isEnded = false
        var failure: (any Error)?
        var putter: CheckedContinuation<Void, Never>?
        var taker: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// Adds a line with its newline, when there is room; returns whether there is still a reader.
    func put(_ line: String) async -> Bool {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isEnded || state.bytes.count < capacity { return true }
                state.putter = continuation
                return false
            }
            if isFree { continuation.resume() }
        }
        let (hasReader, taker) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            guard !state.isEnded else { return (false, nil) }
            state.bytes.append(contentsOf: line.utf8)
            state.bytes.append(0x0A)
            return (true, state.taker.take())
        }
        taker?.resume()
        return hasReader
    }

    /// Takes everything that waits, or waits for something; `nil` at the end.
    ///
    /// - Throws: What it was ended with, after the last line.
    func take() async throws -> [UInt8]? {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if state.isEnded || !state.bytes.isEmpty { return true }
                state.taker = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
        let (bytes, failure, putter) = state.withLock { state in
            defer { state.bytes = [] }
            return (state.bytes, state.failure, state.putter.take())
        }
        putter?.resume()
        if !bytes.isEmpty { return bytes }
        if let failure { throw failure }
        return nil
    }

    /// Ends it. What waits is still taken.
    func end(_ failure: (any Error)? = nil) {
        let waiting = state.withLock { state in
            if !state.isEnded { state.failure = failure }
            state.isEnded = true
            return [state.putter.take(), state.taker.take()]
        }
        for continuation in waiting { continuation?.resume() }
    }
}
