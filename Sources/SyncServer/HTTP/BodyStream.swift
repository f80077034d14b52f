import CMicroHTTPD
import SyncSystem

/// A connection, or a daemon, as libmicrohttpd has it. Only what it allows to any thread is done through it.
struct Handle: @unchecked Sendable {  // Safe: libmicrohttpd locks.
    let raw: OpaquePointer
}

/// The body of an answer that comes bit by bit: at most so many **bytes** wait, then the writer waits.
///
/// One task writes. The server reads, on its thread; while there is nothing to read the connection sleeps.
package final class BodyStream: Sendable {
    private struct State {
        /// What waits, as it was written; those before the first are read.
        var pieces: [[UInt8]] = []
        var first = 0
        /// So many **bytes** of the first are read.
        var read = 0
        /// **Bytes** that wait.
        var waiting = 0
        /// Whether no more come.
        var isEnded = false
        /// Whether the answer must not look whole.
        var isBroken = false
        /// Whether nobody reads any more.
        var isLeft = false
        var writer: CheckedContinuation<Void, Never>?
        var leaver: CheckedContinuation<Void, Never>?
        var connection: Handle?
        /// Whether the connection sleeps until bytes come.
        var isAsleep = false

        mutating func add(_ bytes: [UInt8]) {
            guard !bytes.isEmpty else { return }
            pieces.append(bytes)
            waiting += bytes.count
        }

        /// Copies what waits, as far as there is room and it is there.
        mutating func take(into target: UnsafeMutableRawBufferPointer) -> Int {
            var count = 0
            while count < target.count, first < pieces.count {
                let part = min(pieces[first].count - read, target.count - count)
                pieces[first].withUnsafeBytes {
                    UnsafeMutableRawBufferPointer(rebasing: target[count...]).copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: $0[read..<(read + part)]))
                }
                (count, read) = (count + part, read + part)
                guard read == pieces[first].count else { break }
                (pieces[first], read, first) = ([], 0, first + 1)
                if first == pieces.count || first >= Self.mostRead {
                    pieces.removeFirst(first)
                    first = 0
                }
            }
            waiting -= count
            return count
        }

        mutating func clear() { (pieces, first, read, waiting) = ([], 0, 0, 0) }

        /// Pieces that are read and still have their places.
        private static let mostRead = 64

        mutating func wake() {
            guard isAsleep, let connection else { return }
            isAsleep = false
            MHD_resume_connection(connection.raw)
        }
    }

    private let state = Mutex(State())
    private let capacity: Int
    /// **Bytes** of the whole body, where they are known; else it comes in chunks.
    let length: UInt64?

    package init(capacity: Int, length: UInt64? = nil) { (self.capacity, self.length) = (capacity, length) }

    /// Adds bytes when there is room; returns whether there is still a reader.
    package func write(_ bytes: [UInt8]) async -> Bool {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isEnded || state.waiting < capacity { return true }
                state.writer = continuation
                return false
            }
            if isFree { continuation.resume() }
        }
        return state.withLock { state in
            guard !state.isEnded else { return false }
            state.add(bytes)
            state.wake()
            return true
        }
    }

    /// Ends it. What waits is still read.
    package func end() {
        let writer = state.withLock { state in
            state.isEnded = true
            state.wake()
            return state.writer.take()
        }
        writer?.resume()
    }

    /// Ends it before it is whole: what waits is still read, then the connection is closed, which tells the client.
    package func breakOff() {
        state.withLock { $0.isBroken = true }
        end()
    }

    /// Waits until nobody reads any more: the client has everything, or has gone, or the server has stopped. Once.
    package func left() async {
        await withCheckedContinuation { continuation in
            let isLeft = state.withLock { state in
                if !state.isLeft { state.leaver = continuation }
                return state.isLeft
            }
            if isLeft { continuation.resume() }
        }
    }
}

// MARK: The server's side

extension BodyStream {
    /// The connection that reads from here on.
    func attach(_ connection: Handle) { state.withLock { $0.connection = connection } }

    /// Reads what is there; puts the connection to sleep where nothing is.
    ///
    /// - Returns: **Bytes** read, 0 for none yet, -1 at the end, -2 where it was broken off.
    func read(into target: UnsafeMutableRawBufferPointer) -> Int {
        let (count, writer) = state.withLock { state -> (Int, CheckedContinuation<Void, Never>?) in
            guard state.waiting > 0 else {
                guard !state.isEnded, let connection = state.connection else {
                    return (state.isBroken ? SA_HTTP_BROKEN : SA_HTTP_END, nil)
                }
                state.isAsleep = true
                MHD_suspend_connection(connection.raw)
                return (0, nil)
            }
            let count = state.take(into: target)
            return (count, state.waiting < capacity ? state.writer.take() : nil)
        }
        writer?.resume()
        return count
    }

    /// Nobody reads from here on.
    func leave() { close(isCut: false) }

    /// The client has gone, or the server stops: what waits is not sent any more.
    func cutOff() { close(isCut: true) }

    private func close(isCut: Bool) {
        let (writer, leaver) = state.withLock { state in
            state.isEnded = true
            state.isLeft = true
            if isCut { state.clear() }
            state.wake()
            if !isCut { state.connection = nil }
            return (state.writer.take(), state.leaver.take())
        }
        writer?.resume()
        leaver?.resume()
    }
}
