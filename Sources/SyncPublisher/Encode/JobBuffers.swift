import SyncContent
import SyncSystem

/// Reusable buffers of one size; counts how many were in use at once.
///
/// Their number is bounded by the ``Pipeline``'s window, not here: taking one never blocks.
final class JobBuffers: Sendable {
    /// **Bytes** of each buffer.
    let size: Int
    /// The memory that no ``PooledBuffer`` has.
    private let state = Mutex<(free: [Buffer], made: Int)>(([], 0))

    init(size: Int) { self.size = size }

    /// Takes a buffer, which goes back to the pool when it is released.
    func take() -> PooledBuffer {
        let memory = state.withLock { state in
            if let memory = state.free.popLast() { return memory }
            state.made += 1
            return Buffer(capacity: size)
        }
        return PooledBuffer(memory, of: self)
    }

    fileprivate func give(_ memory: Buffer) { state.withLock { $0.free.append(memory) } }

    /// The most **bytes** in use at once.
    var highWater: Int { state.withLock { $0.made } * size }
}

/// A borrowed buffer of a ``JobBuffers``.
///
/// Safe to hand over: it is filled by one thread before the pipeline's lock passes it on, and only read after.
final class PooledBuffer: Sendable {
    private let memory: Buffer
    private let pool: JobBuffers

    fileprivate init(_ memory: Buffer, of pool: JobBuffers) { (self.memory, self.pool) = (memory, pool) }

    deinit { pool.give(memory) }

    var bytes: UnsafeMutableRawBufferPointer { memory.bytes }

    /// A part of the buffer, for reading.
    subscript(range: Range<Int>) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[range]) }
}
