package import SyncManifest
import SyncModel
import SyncSystem

/// Receives the blobs of spans, on worker threads. Calls for one part of a span come in order, never two at once; a
/// span has one part until its tail is given to another connection.
///
/// `source` is the sender of the bytes, a URL of the request; `nil` if it is unknown, or if there were several.
package protocol BlobConsumer: AnyObject, Sendable {
    /// Takes all stored bytes of a slot that fits in memory.
    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker)
    /// Begins a larger slot.
    func begin(slot: Int, worker: inout DecodeWorker)
    /// Takes the next stored bytes of a larger slot.
    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker)
    /// Ends a larger slot. Not called if a span breaks off within the slot.
    func end(slot: Int, worker: inout DecodeWorker)
    /// Called when the last byte of a part has been handled, or the part broke off. `missing` are its slots that were
    /// not passed on.
    func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker)
    /// Keeps stored bytes of an incomplete slot, `position` **bytes** after its first byte, so that the next process
    /// need not fetch them again. `part` is the first slot of the part of the span that delivers them.
    func keep(_ stored: UnsafeRawBufferPointer, at position: Int, of slot: Int, part: Int)
    /// Takes bytes of a loose file that does not arrive in one piece, from `offset` on: in order within one part of a
    /// span, in any order across parts.
    func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker)
    /// The first `count` **bytes** of a slot whose span begins after them, as an earlier process kept them.
    func kept(slot: Int, count: Int) -> [UInt8]
}

extension BlobConsumer {
    /// Keeps nothing.
    package func keep(_ stored: UnsafeRawBufferPointer, at position: Int, of slot: Int, part: Int) {}
    /// Ignores files that are not in packs.
    package func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker
    ) {}
    /// Returns zeros, since nothing was kept; the digest does not match them.
    package func kept(slot: Int, count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
}

/// Splits the bytes of one span into blobs. Offsets come from the verified manifest, so there is no archive to
/// parse.
package final class SpanUnpacker: Sendable {
    /// Slots with at most this many stored and raw **bytes** are passed on whole.
    package static let smallLimit: UInt64 = 1 << 20

    private let plan: Plan
    private let span: Int
    private let consumer: any BlobConsumer
    private let pool: BufferPool
    private let workers: WorkerPool
    private let inbox: Mutex<Inbox>
    private let position: Confined
    /// The first slot of this part of the span.
    private let first: Int
    /// The loose file that the object is, which may be written before it is complete; `nil` for a pack.
    private let loose: Plan.Slot?

    private struct Inbox {
        var buffers: [Buffer] = []
        var ended = false
        var scheduled = false
        /// One past the last slot of this part; smaller once a tail has been cut off.
        var last: Int
        /// The same in **bytes**, for a loose file.
        var end: UInt64
    }

    /// Accessed only by the one worker that runs this item.
    private final class Confined: @unchecked Sendable {  // Safe: `run` never overlaps.
        var next: Int
        /// The next **byte** of a loose file.
        var offset: UInt64
        var carry: [UInt8] = []
        /// The sender of ``carry``; `nil` for several.
        var source: String?
        /// **Bytes** at the start of ``carry`` that the consumer has kept.
        var kept = 0
        var streaming = false
        var told = false

        init(next: Int, offset: UInt64) { (self.next, self.offset) = (next, offset) }
    }

    /// - Parameters:
    ///   - slots: The part of the span; `nil` for all of it.
    ///   - range: The same in **bytes**, for a loose file.
    package init(
        plan: Plan, span: Int, slots: Range<Int>? = nil, range: Range<UInt64>? = nil, consumer: any BlobConsumer,
        pool: BufferPool, workers: WorkerPool
    ) {
        let slots = slots ?? plan.spans[span].slots
        self.plan = plan
        self.span = span
        self.consumer = consumer
        self.pool = pool
        self.workers = workers
        first = slots.lowerBound
        loose = if case .loose = plan.spans[span].source { plan.slots[slots.lowerBound] } else { nil }
        let range = range ?? plan.spans[span].range
        position = Confined(next: slots.lowerBound, offset: range.lowerBound)
        inbox = Mutex(Inbox(last: slots.upperBound, end: range.upperBound))
    }

    /// Gives a tail of slots to another unpacker. The caller adds no byte of them here any more.
    ///
    /// - Parameters:
    ///   - offset: The best place for the cut.
    ///   - range: The possible places; offsets in the object.
    /// - Returns: The first byte of the first slot given away; `nil` if no slot begins in `range`.
    package func splitTail(near offset: UInt64, in range: ClosedRange<UInt64>) -> (
        start: UInt64, unpacker: SpanUnpacker
    )? {
        if let loose { return splitTail(of: loose, at: min(max(offset, range.lowerBound), range.upperBound)) }
        let first = plan.spans[span].slots.lowerBound
        return inbox.withLock { inbox in
            let next = (first..<inbox.last).partitioningIndex { plan.slots[$0].range.lowerBound >= offset }
            let candidates = [next, next - 1].filter { slot in
                slot > first && slot < inbox.last && range.contains(plan.slots[slot].range.lowerBound)
            }
            guard let cut = candidates.first else { return nil }
            let tail = SpanUnpacker(
                plan: plan, span: span, slots: cut..<inbox.last, consumer: consumer, pool: pool, workers: workers)
            inbox.last = cut
            return (plan.slots[cut].range.lowerBound, tail)
        }
    }

    /// Cuts a loose file. It can be cut anywhere if it is large, or arrives in pieces anyway.
    private func splitTail(of slot: Plan.Slot, at cut: UInt64) -> (start: UInt64, unpacker: SpanUnpacker)? {
        guard slot.range.length > Plan.wholeLength || plan.isGap(slot) else { return nil }
        return inbox.withLock { inbox in
            guard cut > slot.range.lowerBound, cut < inbox.end else { return nil }
            let tail = SpanUnpacker(
                plan: plan, span: span, range: cut..<inbox.end, consumer: consumer, pool: pool, workers: workers)
            inbox.end = cut
            return (cut, tail)
        }
    }

    /// Adds the next bytes of the span. For any thread; the caller keeps the order.
    package func add(_ buffer: Buffer) { schedule { $0.buffers.append(buffer) } }

    /// Notes that no more bytes will come.
    package func end() { schedule { $0.ended = true } }

    /// Whether a worker could start at once on added bytes. Collecting more before adding them then gains little.
    var isIdle: Bool { inbox.withLock { !$0.scheduled } }

    private func schedule(_ change: (inout Inbox) -> Void) {
        let wasIdle = inbox.withLock { inbox in
            change(&inbox)
            defer { inbox.scheduled = true }
            return !inbox.scheduled
        }
        if wasIdle { workers.submit { [self] in run(&$0) } }
    }

    private func run(_ worker: inout DecodeWorker) {
        while true {
            let (buffers, ended, last, end) = inbox.withLock { inbox in
                defer { inbox.buffers = [] }
                if inbox.buffers.isEmpty { inbox.scheduled = false }
                return (inbox.buffers, inbox.ended, inbox.last, inbox.end)
            }
            for buffer in buffers {
                if let loose { put(buffer, of: loose, &worker) } else { unpack(buffer, before: last, &worker) }
                pool.give(buffer)
            }
            guard buffers.isEmpty else {
                keepCarry()
                continue
            }
            if ended, !position.told {
                position.told = true
                if loose != nil, position.offset == end { position.next = last }
                consumer.ended(span: span, missing: min(position.next, last)..<last, worker: &worker)
            }
            return
        }
    }

    private func put(_ buffer: Buffer, of slot: Plan.Slot, _ worker: inout DecodeWorker) {
        let (bytes, offset, source) = (buffer.filled, buffer.offset, buffer.source)
        // A small file is not even written before its digest has been checked.
        if UInt64(bytes.count) == slot.range.length, slot.range.length <= Self.smallLimit, !plan.isGap(slot) {
            consumer.take(bytes, of: position.next, from: source, worker: &worker)
        } else {
            consumer.put(bytes, of: position.next, at: offset, from: source, worker: &worker)
        }
        position.offset = offset + UInt64(bytes.count)
    }

    private func unpack(_ buffer: Buffer, before last: Int, _ worker: inout DecodeWorker) {
        let (bytes, offset, source) = (buffer.filled, buffer.offset, buffer.source)
        let end = offset &+ UInt64(bytes.count)
        while position.next < last {
            let slot = plan.slots[position.next]
            guard slot.range.lowerBound < end else { return }
            let from = max(slot.range.lowerBound, offset)
            let upTo = min(slot.range.upperBound, end)
            guard from <= upTo else { return }
            let part = UnsafeRawBufferPointer(rebasing: bytes[Int(from - offset)..<Int(upTo - offset)])
            let isComplete = upTo == slot.range.upperBound
            let isSmall = slot.range.length <= Self.smallLimit && slot.rawLength <= Self.smallLimit
            if isSmall, part.count == Int(slot.range.length) {
                consumer.take(part, of: position.next, from: source, worker: &worker)
            } else if !isSmall {
                stream(part, from: source, isComplete: isComplete, &worker)
            } else {
                carry(part, of: source, at: Int(from - slot.range.lowerBound), length: Int(slot.range.length))
                if isComplete {
                    position.carry.withUnsafeBytes {
                        consumer.take($0, of: position.next, from: position.source, worker: &worker)
                    }
                    // Every open span has such a buffer, so none is kept.
                    position.carry = []
                    position.kept = 0
                }
            }
            guard isComplete else { return }
            position.next += 1
        }
    }

    private func carry(_ part: UnsafeRawBufferPointer, of source: String?, at start: Int, length: Int) {
        if position.source != source { position.source = position.carry.isEmpty ? source : nil }
        if position.carry.isEmpty {
            if start > 0 { position.carry = consumer.kept(slot: position.next, count: start) }
            position.kept = start
            position.carry.reserveCapacity(length)
        }
        position.carry.append(contentsOf: part)
    }

    /// Makes the consumer keep an incomplete slot, unless more bytes are waiting: then it may soon be complete.
    private func keepCarry() {
        guard position.carry.count > position.kept, inbox.withLock({ $0.buffers.isEmpty }) else { return }
        position.carry.withUnsafeBytes { bytes in
            let fresh = UnsafeRawBufferPointer(rebasing: bytes[position.kept...])
            consumer.keep(fresh, at: position.kept, of: position.next, part: first)
        }
        position.kept = position.carry.count
    }

    private func stream(
        _ part: UnsafeRawBufferPointer, from source: String?, isComplete: Bool, _ worker: inout DecodeWorker
    ) {
        if !position.streaming {
            position.streaming = true
            consumer.begin(slot: position.next, worker: &worker)
        }
        consumer.append(part, to: position.next, from: source, worker: &worker)
        if isComplete {
            position.streaming = false
            consumer.end(slot: position.next, worker: &worker)
        }
    }
}

extension Plan {
    /// Loose files of up to this many **bytes** are not divided among connections.
    package static let wholeLength: UInt64 = 16 << 20

    /// Whether a slot is a gap of a loose file.
    fileprivate func isGap(_ slot: Slot) -> Bool { targets[slot.targets.lowerBound].isGap }
}
