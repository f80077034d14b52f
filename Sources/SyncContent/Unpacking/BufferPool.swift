import SyncSystem

/// A piece of memory for body bytes. One thread at a time has it: the transport's while it fills, a worker's
/// while it is unpacked, the pool's lock in between. Whoever passes it on keeps no reference to it: ``SpanSink`` forgets
/// its buffer before the unpacker's inbox has it, and the unpacker gives it back to the pool when it has read it.
package final class Buffer: @unchecked Sendable {  // Safe: one thread at a time has it, a lock hands it over.
    package let bytes: UnsafeMutableRawBufferPointer
    /// **Bytes** filled.
    package var count = 0
    /// Offset in the object of the first **byte**.
    package var offset: UInt64 = 0
    /// Who sent them: ``ResponseHead/source``.
    package var source: String?

    init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 64) }

    deinit { bytes.deallocate() }

    /// What is filled.
    package var filled: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[..<count]) }

    /// **Bytes** that still fit.
    package var room: Int { bytes.count - count }

    /// Copies `source` behind what is there; the caller has checked ``room``.
    package func append(_ source: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(rebasing: bytes[count..<(count + source.count)]).copyMemory(from: source)
        count += source.count
    }
}

/// A fixed number of buffers: the bound on what is received and not yet written. An empty pool is what pauses
/// the network.
package final class BufferPool: Sendable {
    /// **Bytes** of one buffer.
    package let bufferSize: Int

    let count: Int

    private struct State {
        var free: [Buffer]
        /// Those who found too few, first come first.
        var waiters: [@Sendable () -> Void] = []
    }
    private let state: Mutex<State>

    /// Allocates nothing yet but the list; memory is touched when buffers are first filled.
    package init(count: Int, bufferSize: Int) {
        let count = max(1, count)
        (self.bufferSize, self.count) = (bufferSize, count)
        state = Mutex(State(free: (0..<count).map { _ in Buffer(capacity: bufferSize) }))
    }

    /// Takes `count` buffers, all or none.
    ///
    /// - Parameter orCall: Called once, from another thread, when buffers have come back, in the order of coming; only if
    ///   none were taken. `nil` for whoever is waiting already.
    package func take(_ count: Int, orCall waiter: (@Sendable () -> Void)?) -> [Buffer]? {
        state.withLock { state in
            guard state.free.count >= count else {
                if let waiter { state.waiters.append(waiter) }
                return nil
            }
            let taken = Array(state.free.suffix(count))
            state.free.removeLast(count)
            return taken
        }
    }

    /// Gives one back, and calls as many of those that wait as there are buffers for: were all called, all but one of them
    /// would try in vain. When the last buffer is back, everybody is called.
    package func give(_ buffer: Buffer) {
        buffer.count = 0
        callWaiters { $0.append(buffer) }
    }

    /// Says that somebody takes nothing any more who may have been called: others get the turn.
    package func passTurn() { callWaiters { _ in } }

    private func callWaiters(_ change: (inout [Buffer]) -> Void) {
        let called = state.withLock { state in
            change(&state.free)
            let all = state.waiters.count
            let number = state.free.count == count ? all : min(all, state.free.count)
            defer { state.waiters.removeFirst(number) }
            return state.waiters.prefix(number)
        }
        for waiter in called { waiter() }
    }
}
