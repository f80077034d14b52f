import CPosix

import struct Synchronization.Atomic

/// A descriptor to wait for; a negative one is never ready. poll(2)
package struct PollEntry {
    private var entry: pollfd

    /// - Parameter isForWriting: Whether to wait for writing, not reading.
    package init(_ descriptor: Int32, isForWriting: Bool = false) {
        entry = pollfd(fd: descriptor, events: Int16(isForWriting ? POLLOUT : POLLIN), revents: 0)
    }

    /// Whether it can be read or written, or its other end is closed, or it has failed.
    package var isReady: Bool { entry.revents != 0 }
}

/// Waits until one of several descriptors is ready. poll(2)
///
/// - Parameter milliseconds: Longest time to wait; -1 for no limit.
/// - Returns: Whether one is ready; `false` also after a signal.
@discardableResult package func waitForAny(of entries: inout [PollEntry], atMost milliseconds: Int32) -> Bool {
    entries.withUnsafeMutableBytes { bytes in
        poll(
            bytes.assumingMemoryBound(to: pollfd.self).baseAddress, nfds_t(bytes.count / MemoryLayout<pollfd>.stride),
            milliseconds) > 0
    }
}

/// Waits until a descriptor can be read, or its other end is closed. poll(2); a negative one never can.
///
/// - Parameter time: `nil` for no limit.
/// - Returns: Whether it can.
@discardableResult package func waitToRead(_ descriptor: Int32, atMost time: Duration?) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    // One more, because milliseconds are rounded down.
    return poll(&entry, 1, time.map { Int32(clamping: $0.milliseconds + 1) } ?? -1) > 0
}

/// Whether nobody reads what is written to a descriptor any more: a pipe whose readers have left, a closed socket.
/// poll(2)
package func hasNoReader(_ descriptor: Int32) -> Bool {
    var entry = pollfd(fd: descriptor, events: 0, revents: 0)
    return poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLERR | POLLHUP) != 0
}

/// Lets this thread sleep, a signal or not. nanosleep(2)
package func pauseThread(milliseconds: Int) {
    var time = timespec(tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000)
    var rest = timespec()
    while nanosleep(&time, &rest) != 0, sa_errno() == EINTR { time = rest }
}

extension Duration {
    /// Whole **milliseconds**, rounded down.
    package var milliseconds: Int64 { components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000 }
}

/// A pipe, both ends close-on-exec and numbered above 2; the reader is non-blocking. pipe(2)
package struct Pipe: Sendable {
    package let reader: SharedDescriptor
    package let writer: SharedDescriptor

    /// - Returns: `nil` if it cannot be created; ``Errno/last`` says why.
    package init?() {
        var ends: [Int32] = [-1, -1]
        guard sa_pipe(&ends) == 0 else { return nil }
        reader = SharedDescriptor(Descriptor(owning: ends[0]))
        writer = SharedDescriptor(Descriptor(owning: ends[1]))
    }
}

/// Wakes a thread that waits in poll(2): a pipe with at most one byte in it.
package final class WakePipe: Sendable {
    private let pipe = Pipe()
    private let hasWoken = Atomic(false)
    /// Interval at which the thread polls if there is no ``reader``.
    package static let tick = Duration.milliseconds(20)

    /// Makes the pipe; if that fails, ``Errno/last`` says why.
    package init() {}

    /// For poll(2); -1 if there is no pipe.
    package var reader: Int32 { pipe?.reader.raw ?? -1 }

    package func wake() {
        guard let pipe, !hasWoken.exchange(true, ordering: .acquiringAndReleasing) else { return }
        _ = withUnsafeBytes(of: UInt8(0)) { byte in retryingOnInterrupt { writeSome(pipe.writer.raw, byte) } }
    }

    /// To be called before the thread looks at the shared state.
    package func drain() {
        var bytes: (UInt64, UInt64) = (0, 0)
        _ = withUnsafeMutableBytes(of: &bytes) { readSome(reader, into: $0) }
        // Last: a byte that comes after it stays. Earlier wakers have already changed the state that is read next.
        hasWoken.store(false, ordering: .sequentiallyConsistent)
    }
}

/// Sets whether reads and writes of a descriptor block. fcntl(2), O_NONBLOCK
package func setBlocking(_ descriptor: Int32, _ waits: Bool) -> Errno? {
    failure(sa_set_blocking(descriptor, waits ? 1 : 0))
}

/// Raises the capacity of a pipe or FIFO, in **bytes**; a hint. fcntl(2), F_SETPIPE_SZ
package func setPipeSize(_ descriptor: Int32, _ bytes: Int32) { sa_set_pipe_size(descriptor, bytes) }

/// The result of a read. read(2)
package enum ReadResult: Equatable, Sendable {
    /// Number of **bytes**, at least one.
    case bytes(Int)
    /// Nothing yet, or interrupted by a signal.
    case nothing
    case ended
    case failed(Errno)
}

/// Reads the available bytes, at a descriptor's own position. read(2)
package func readSome(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
    readResult(read(descriptor, buffer.baseAddress, buffer.count))
}

private func readResult(_ count: Int) -> ReadResult {
    if count > 0 { return .bytes(count) }
    if count == 0 { return .ended }
    let code = Errno.last
    return code.isTransient ? .nothing : .failed(code)
}

/// Writes as much as fits, at a descriptor's own position. write(2)
///
/// - Returns: **Bytes** written, or -1; ``Errno/last`` says why.
package func writeSome(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    sa_write(descriptor, bytes.baseAddress, bytes.count)
}

/// Whether a connected socket has something to read, or its peer is gone; reads nothing and does not block. recv(2),
/// MSG_PEEK
package func peek(_ socket: Int32) -> ReadResult {
    var byte: UInt8 = 0
    return readResult(recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)))
}

/// Ends both directions of a connection, for all holders of the socket. shutdown(2)
package func shutDown(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }
