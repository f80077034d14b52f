import SyncSystem

/// A piece of memory for body bytes. One thread owns it at a time: the transport's while it is filled, a worker's
/// while it is unpacked; in between, it is protected by the pool's lock. A thread that passes it on keeps no reference:
/// ``SpanSink`` drops its buffer before the unpacker's inbox gets it, and the unpacker returns it to the pool after
/// reading it.
package final class Buffer: @unchecked Sendable {  // Safe: one thread owns it at a time, a lock hands it over.
    package let bytes: UnsafeMutableRawBufferPointer
    /// **Bytes** filled.
    package var count = 0
    /// Offset in the object of the first **byte**.
    package var offset: UInt64 = 0
    /// The sender of the bytes: ``ResponseHead/source``.
    package var source: String?

    package init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 64) }

    deinit { bytes.deallocate() }

    /// The filled part.
    package var filled: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[..<count]) }

    /// **Bytes** that still fit.
    package var room: Int { bytes.count - count }

    /// Appends `source`; the caller has checked ``room``.
    package func append(_ source: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: bytes[count..<(count + source.count)]).copyMemory(from: source)
        count += source.count
    }
}

/// At most so many buffers, which bounds the bytes that are received and not yet written. If the pool is empty,
/// transfers are paused.
package final class BufferPool: Sendable {
    /// **Bytes** of one buffer.
    package let bufferSize: Int

    let count: Int

    private struct State {
        var free: [Buffer] = []
        /// Buffers that exist, free or taken.
        var made = 0
        /// Callers that found too few buffers, in the order in which they came.
        var waiters: [@Sendable () -> Void] = []
    }
    private let state = Mutex(State())

    /// A pool of at most `count` buffers, each made when it is first needed.
    package init(count: Int, bufferSize: Int) {
        (self.bufferSize, self.count) = (bufferSize, max(1, count))
    }

    /// Takes `count` buffers, all or none.
    ///
    /// - Parameter orCall: Called once, from another thread, after buffers have been returned, in order of arrival;
    ///   only if none were taken. `nil` for a caller that is waiting already.
    package func take(_ count: Int, orCall waiter: (@Sendable () -> Void)?) -> [Buffer]? {
        state.withLock { state in
            while state.free.count < count, state.made < self.count {
                state.free.append(Buffer(capacity: bufferSize))
                state.made += 1
            }
            guard state.free.count >= count else {
                if let waiter { state.waiters.append(waiter) }
                return nil
            }
            let taken = Array(state.free.suffix(count))
            state.free.removeLast(count)
            return taken
        }
    }

    /// Returns a buffer, and calls as many waiters as there are buffers: if all were called, all but one of them
    /// would fail again. When the last buffer is back, every waiter is called.
    package func give(_ buffer: Buffer) {
        buffer.count = 0
        callWaiters { $0.append(buffer) }
    }

    /// Notes that a waiter that may have been called takes no buffer any more, so that others are called.
    package func passTurn() { callWaiters { _ in } }

    private func callWaiters(_ change: (inout [Buffer]) -> Void) {
        let called = state.withLock { state in
            change(&state.free)
            let all = state.waiters.count
            let number = state.free.count == state.made ? all : min(all, state.free.count)
            defer { state.waiters.removeFirst(number) }
            return state.waiters.prefix(number)
        }
        for waiter in called { waiter() }
    }
}
