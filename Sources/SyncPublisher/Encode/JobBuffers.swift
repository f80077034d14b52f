import SyncSystem

/// Reusable buffers of one size; counts how many were in use at once.
///
/// Their number is bounded by the ``Pipeline``'s window, not here: taking one never blocks.
final class JobBuffers: Sendable {
    /// **Bytes** of each buffer.
    let size: Int
    private let state = Mutex<(free: [Memory], made: Int)>(([], 0))

    /// An address that may change hands: it has one owner, the pool or a ``PooledBuffer``. It is in `free` only while
    /// no buffer has it: `take` removes it, and `give`, called when the buffer is released, puts it back, both under
    /// the mutex.
    private struct Memory: @unchecked Sendable {  // Safe: the pool, under its lock, or one buffer has it.
        let start: UnsafeMutableRawPointer
    }

    init(size: Int) { self.size = size }

    deinit { state.withLock { state in for memory in state.free { memory.start.deallocate() } } }

    /// Takes a buffer, which goes back to the pool when it is released.
    func take() -> PooledBuffer {
        let memory = state.withLock { state in
            if let memory = state.free.popLast() { return memory }
            state.made += 1
            return Memory(start: .allocate(byteCount: size, alignment: 64))
        }
        return PooledBuffer(start: memory.start, pool: self)
    }

    fileprivate func give(_ start: UnsafeMutableRawPointer) {
        let memory = Memory(start: start)
        state.withLock { $0.free.append(memory) }
    }

    /// The most **bytes** in use at once.
    var highWater: Int { state.withLock { $0.made } * size }
}

/// A borrowed buffer of a ``JobBuffers``.
///
/// Safe to hand over: it is filled by one thread before the pipeline's lock passes it on, and only read after.
final class PooledBuffer: @unchecked Sendable {  // Safe: filled before a lock hands it over, then only read.
    private let start: UnsafeMutableRawPointer
    private let pool: JobBuffers

    fileprivate init(start: UnsafeMutableRawPointer, pool: JobBuffers) {
        (self.start, self.pool) = (start, pool)
    }

    deinit { pool.give(start) }

    var bytes: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: start, count: pool.size) }

    /// A part of the buffer, for reading.
    subscript(range: Range<Int>) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[range]) }
}
