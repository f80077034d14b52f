import CMicroHTTPD
import SyncSystem

/// A connection or a daemon of libmicrohttpd. It is used only for calls that any thread may make.
struct Handle: @unchecked Sendable {  // Safe: libmicrohttpd locks.
    let raw: OpaquePointer
}

/// The body of an answer that is produced gradually: once a number of **bytes** is buffered, the writer waits.
///
/// One task writes. The server reads on its thread; while there is nothing to read, the connection is suspended.
package final class BodyStream: Sendable {
    private struct State {
        /// Buffered pieces, as written; those before the first have been read.
        var pieces: [[UInt8]] = []
        var first = 0
        /// Number of **bytes** of the first piece that have been read.
        var read = 0
        /// Buffered **bytes**.
        var waiting = 0
        /// **Bytes** that have been read in all.
        var taken: UInt64 = 0
        /// Whether writing has ended.
        var isEnded = false
        /// Whether the answer must appear incomplete.
        var isBroken = false
        /// Whether reading has ended.
        var isLeft = false
        var writer: CheckedContinuation<Void, Never>?
        var leaver: CheckedContinuation<Void, Never>?
        var connection: Handle?
        /// Whether the connection is suspended until bytes come.
        var isAsleep = false

        mutating func add(_ bytes: [UInt8]) {
            guard !bytes.isEmpty else { return }
            pieces.append(bytes)
            waiting += bytes.count
        }

        /// Copies buffered bytes, as many as are available and fit.
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
            taken &+= UInt64(count)
            return count
        }

        mutating func clear() { (pieces, first, read, waiting) = ([], 0, 0, 0) }

        /// Most read pieces whose slots are still in the array.
        private static let mostRead = 64

        mutating func wake() {
            guard isAsleep, let connection else { return }
            isAsleep = false
            MHD_resume_connection(connection.raw)
        }
    }

    private let state = Mutex(State())
    private let capacity: Int
    /// **Bytes** of the whole body, if known; otherwise it is chunked, or for HTTP/1.0 ends with the connection, so that
    /// a client cannot tell a part from the whole.
    let length: UInt64?

    package init(capacity: Int, length: UInt64? = nil) { (self.capacity, self.length) = (capacity, length) }

    /// Adds bytes once there is room; returns whether there is still a reader.
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

    /// Ends the body. Buffered bytes are still read.
    package func end() {
        let writer = state.withLock { state in
            state.isEnded = true
            state.wake()
            return state.writer.take()
        }
        writer?.resume()
    }

    /// Ends the body prematurely: buffered bytes are still read, then the connection is closed, which informs the
    /// client.
    package func breakOff() {
        state.withLock { $0.isBroken = true }
        end()
    }

    /// Waits until reading has ended: the client has everything or is gone, or the server has stopped. Once only.
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
    /// Sets the connection that reads.
    func attach(_ connection: Handle) { state.withLock { $0.connection = connection } }

    /// Reads buffered bytes; suspends the connection if there are none.
    ///
    /// - Returns: **Bytes** read, 0 for none yet, -1 at the end, -2 if the body was broken off.
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

    /// **Bytes** that have been read.
    var taken: UInt64 { state.withLock(\.taken) }

    /// Reading has ended.
    func leave() { close(isCut: false) }

    /// The client is gone, or the server stops: buffered bytes are dropped, and the answer ends incomplete. A client
    /// that sends nothing more also counts as gone, and may still read.
    func cutOff() { close(isCut: true) }

    private func close(isCut: Bool) {
        let (writer, leaver) = state.withLock { state in
            state.isEnded = true
            state.isLeft = true
            if isCut {
                state.clear()
                state.isBroken = true
            }
            state.wake()
            if !isCut { state.connection = nil }
            return (state.writer.take(), state.leaver.take())
        }
        writer?.resume()
        leaver?.resume()
    }
}
