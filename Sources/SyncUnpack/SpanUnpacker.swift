import Synchronization
package import SyncPlanner

/// Takes the blobs of spans, on worker threads. Calls for one span come in order, never two at once.
package protocol BlobConsumer: AnyObject, Sendable {
    /// All stored bytes of a slot that fits in memory.
    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, worker: inout Worker)
    /// A larger slot begins.
    func begin(slot: Int, worker: inout Worker)
    /// Its next stored bytes.
    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, worker: inout Worker)
    /// Its end. When a span breaks off in a slot, the end never comes.
    func end(slot: Int, worker: inout Worker)
    /// The span's last byte has been handled, or it broke off. `nextSlot` is the first slot not handed over.
    func ended(span: Int, nextSlot: Int, worker: inout Worker)
}

/// Cuts the bytes of one span into blobs. A byte machine: offsets come from the verified manifest, so there is
/// no archive to parse.
package final class SpanUnpacker: WorkItem {
    /// Slots with at most this many stored and raw **bytes** are handed over whole.
    package static let smallLimit: UInt64 = 1 << 20

    private let plan: Plan
    private let span: Int
    private let consumer: any BlobConsumer
    private let pool: BufferPool
    private let workers: WorkerPool
    private let inbox = Mutex(Inbox())
    private let position: Confined

    private struct Inbox {
        var buffers: [Buffer] = []
        var ended = false
        var scheduled = false
    }

    /// Touched by the one worker that runs this item.
    private final class Confined: @unchecked Sendable {  // Safe: `run` never overlaps itself, see Inbox.scheduled.
        var next: Int
        var carry: [UInt8] = []
        var streaming = false
        var told = false

        init(next: Int) { self.next = next }
    }

    package init(
        plan: Plan,
        span: Int,
        consumer: any BlobConsumer,
        pool: BufferPool,
        workers: WorkerPool
    ) {
        self.plan = plan
        self.span = span
        self.consumer = consumer
        self.pool = pool
        self.workers = workers
        position = Confined(next: plan.spans[span].slots.lowerBound)
    }

    /// Adds the next bytes of the span. Any thread; the caller keeps the order.
    package func add(_ buffer: Buffer) {
        schedule { $0.buffers.append(buffer) }
    }

    /// Says that no more bytes will come.
    package func end() {
        schedule { $0.ended = true }
    }

    private func schedule(_ change: (inout Inbox) -> Void) {
        let wasIdle = inbox.withLock { inbox in
            change(&inbox)
            defer { inbox.scheduled = true }
            return !inbox.scheduled
        }
        if wasIdle { workers.submit(self) }
    }

    package func run(_ worker: inout Worker) {
        while true {
            let (buffers, ended) = inbox.withLock { inbox in
                defer { inbox.buffers = [] }
                if inbox.buffers.isEmpty { inbox.scheduled = false }
                return (inbox.buffers, inbox.ended)
            }
            for buffer in buffers {
                unpack(buffer.filled, at: buffer.offset, &worker)
                pool.give(buffer)
            }
            guard buffers.isEmpty else { continue }
            if ended, !position.told {
                position.told = true
                consumer.ended(span: span, nextSlot: position.next, worker: &worker)
            }
            return
        }
    }

    private func unpack(_ bytes: UnsafeRawBufferPointer, at offset: UInt64, _ worker: inout Worker) {
        let end = offset &+ UInt64(bytes.count)
        let last = plan.spans[span].slots.upperBound
        while position.next < last {
            let slot = plan.slots[position.next]
            guard slot.range.lowerBound < end else { return }
            let from = max(slot.range.lowerBound, offset)
            let upTo = min(slot.range.upperBound, end)
            guard from <= upTo else { return }
            let part = UnsafeRawBufferPointer(rebasing: bytes[Int(from - offset)..<Int(upTo - offset)])
            let isComplete = upTo == slot.range.upperBound
            if slot.range.length > Self.smallLimit || slot.rawLength > Self.smallLimit {
                stream(part, isComplete: isComplete, &worker)
            } else if part.count == Int(slot.range.length) {
                consumer.take(part, of: position.next, worker: &worker)
            } else {
                position.carry.append(contentsOf: part)
                if isComplete {
                    position.carry.withUnsafeBytes { consumer.take($0, of: position.next, worker: &worker) }
                    position.carry.removeAll(keepingCapacity: true)
                }
            }
            guard isComplete else { return }
            position.next += 1
        }
    }

    private func stream(_ part: UnsafeRawBufferPointer, isComplete: Bool, _ worker: inout Worker) {
        if !position.streaming {
            position.streaming = true
            consumer.begin(slot: position.next, worker: &worker)
        }
        consumer.append(part, to: position.next, worker: &worker)
        if isComplete {
            position.streaming = false
            consumer.end(slot: position.next, worker: &worker)
        }
    }
}
