package import SyncPlugins
import SyncSystem

import struct Synchronization.Atomic

/// The connection between the transport's thread and the workers: copies body bytes into buffers of the pool and
/// passes full ones on. If the pool is empty, the transfer is paused; nothing here ever waits.
package final class SpanSink: SplittableSink {
    private let unpacker: SpanUnpacker
    private let pool: BufferPool
    private let resume: @Sendable () -> Void
    private let state: Confined
    /// The sinks of tails cut off this one and each other. A large file has thousands, so they share one list, to which
    /// each of them refers, until ``finish()``.
    private let tails: Monitor<[SpanSink]>
    /// Whether the pool will call. It is not asked again then, however often the transfer is tried meanwhile. The parts
    /// of one transfer are resumed together, so each of them would double the calls.
    private let waiting = Waiting()
    /// The function that the pool calls. Created once, so that requesting a buffer allocates nothing.
    private let waiter: @Sendable () -> Void

    private final class Waiting: Sendable {
        let isSet = Atomic(false)
        /// Whether no answer is being received, or none will be any more. A call of the pool is then passed on to the
        /// next waiter.
        let isAway = Atomic(false)
    }

    /// Accessed only by the transport's thread, as ``TransferSink`` promises.
    private final class Confined: @unchecked Sendable {  // Safe: only the transport's thread touches it.
        var current: Buffer?
        /// The sender of the bytes being received.
        var source: String?
        var next: UInt64
        /// One past the last **byte** for this sink; smaller once a tail has been cut off.
        var end: UInt64

        init(_ range: Range<UInt64>) { (next, end) = (range.lowerBound, range.upperBound) }
    }

    /// - Parameters:
    ///   - range: The wanted **bytes** of the object.
    ///   - resume: Continues the paused transfer; called from any thread.
    package convenience init(
        unpacker: SpanUnpacker, range: Range<UInt64>, pool: BufferPool, resume: @escaping @Sendable () -> Void
    ) { self.init(unpacker, range, pool, Monitor([]), resume) }

    private init(
        _ unpacker: SpanUnpacker, _ range: Range<UInt64>, _ pool: BufferPool, _ tails: Monitor<[SpanSink]>,
        _ resume: @escaping @Sendable () -> Void
    ) {
        self.tails = tails
        self.unpacker = unpacker
        self.pool = pool
        self.resume = resume
        waiter = { [waiting] in
            waiting.isSet.store(false, ordering: .releasing)
            if waiting.isAway.load(ordering: .acquiring) { pool.passTurn() } else { resume() }
        }
        state = Confined(range)
    }

    /// The next wanted **byte**. For the transport's thread, or after the transfer's completion.
    package var position: UInt64 { state.next }

    /// Continues at the same position, even if the answer's validator differs from the last one's.
    ///
    /// That is harmless, since no decision is based on a validator. Blobs that were complete before have been checked
    /// against their own SHA-256, and so are all that follow; the one blob with bytes of both versions is refused
    /// and fetched once more. Packs are named by their digest, so a change is a fault of the server, and only the
    /// digests can tell which of its two answers was wrong. Starting over here would discard verified blobs.
    package func begin(_ response: ResponseHead) -> UInt64 {
        waiting.isAway.store(false, ordering: .releasing)
        // A buffer holds bytes of one sender.
        if response.source != state.source { passOn() }
        state.source = response.source
        return state.next
    }

    package func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        guard offset == state.next else { return .stop }
        var fresh: [Buffer] = []
        let room = state.current?.room ?? 0
        if room < bytes.count {
            // The open buffer is passed on as it is, so that small pieces are not split over two.
            let needed = (bytes.count + pool.bufferSize - 1) / pool.bufferSize
            // More than the pool has: waiting would not help.
            guard needed <= pool.count else { return .stop }
            passOn()
            let isFirst = !waiting.isSet.exchange(true, ordering: .acquiringAndReleasing)
            guard let taken = pool.take(needed, orCall: isFirst ? waiter : nil) else { return .paused }
            if isFirst { waiting.isSet.store(false, ordering: .releasing) }
            fresh = taken
        }
        var rest = bytes
        while !rest.isEmpty {
            guard let buffer = state.current ?? fresh.popLast() else { return .stop }
            if state.current == nil { (buffer.offset, buffer.source) = (state.next, state.source) }
            let count = min(buffer.room, rest.count)
            buffer.append(UnsafeRawBufferPointer(rebasing: rest[..<count]))
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            state.next += UInt64(count)
            state.current = buffer
            if buffer.room == 0 { passOn() }
        }
        // A sink with all its bytes keeps no buffer, since other parts of the transfer may wait for one.
        // On a slow network the worker waits for bytes: bytes in a worker are safe, bytes here are lost with the
        // process.
        let few = pool.bufferSize / 32
        if let current = state.current, state.next >= state.end || current.count >= few && unpacker.isIdle { passOn() }
        return .taken
    }

    /// Passes on the open buffer: a connection may wait for it before this transfer gets its next turn.
    package func interrupted() {
        passOn()
        passTurn()
    }

    private func passTurn() {
        waiting.isAway.store(true, ordering: .releasing)
        pool.passTurn()
    }

    private func passOn() {
        guard let current = state.current.take() else { return }
        unpacker.add(current)
    }

    package func splitTail(near offset: UInt64, in range: ClosedRange<UInt64>) -> (
        start: UInt64, sink: any TransferSink
    )? {
        guard range.lowerBound > state.next, let (start, rest) = unpacker.splitTail(near: offset, in: range) else {
            return nil
        }
        let range = start..<max(start, state.end)
        let tail = SpanSink(rest, range, pool, tails, resume)
        state.end = start
        tails.withLock { $0.append(tail) }
        return (start, tail)
    }

    /// Passes on the last bytes and notes that no more will come. Called once, on the first sink, after the transfer's
    /// completion.
    package func finish() {
        end()
        for tail in tails.withLock({ $0 }) { tail.end() }
        tails.withLock { $0 = [] }
    }

    private func end() {
        passOn()
        unpacker.end()
        passTurn()
    }
}
