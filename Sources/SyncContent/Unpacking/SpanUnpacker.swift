package import SyncManifest
import SyncModel
import SyncSystem

/// Takes the blobs of spans, on worker threads. Calls for one part of a span come in order, never two at once; a
/// span has one part until its end is given to another connection.
///
/// `source` is who sent the bytes, a URL of the request; `nil` if unknown, or if more than one did.
package protocol BlobConsumer: AnyObject, Sendable {
    /// All stored bytes of a slot that fits in memory.
    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker)
    /// A larger slot begins.
    func begin(slot: Int, worker: inout DecodeWorker)
    /// Its next stored bytes.
    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker)
    /// Its end. When a span breaks off in a slot, the end never comes.
    func end(slot: Int, worker: inout DecodeWorker)
    /// The last byte of a part has been handled, or it broke off. `missing` are its slots not handed over.
    func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker)
    /// Stored bytes of a slot that is not complete, `position` **bytes** behind its first: if the process ends now,
    /// the next one need not fetch them again. `part` is the first slot of the part of the span that brings it.
    func keep(_ stored: UnsafeRawBufferPointer, at position: Int, of slot: Int, part: Int)
    /// Bytes of a file of its own that does not come as one piece, from `offset` on: in order within one part of a span, in any
    /// order among several.
    func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker)
    /// The first `count` **bytes** of a slot whose span begins behind them, as an earlier process kept them.
    func kept(slot: Int, count: Int) -> [UInt8]
}

extension BlobConsumer {
    /// Keeps nothing.
    package func keep(_ stored: UnsafeRawBufferPointer, at position: Int, of slot: Int, part: Int) {}
    /// Has no use for files that are not in packs.
    package func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker
    ) {}
    /// Has kept nothing: zeros, which the digest does not let pass.
    package func kept(slot: Int, count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
}

/// Cuts the bytes of one span into blobs. A byte machine: offsets come from the verified manifest, so there is
/// no archive to parse.
package final class SpanUnpacker: Sendable {
    /// Slots with at most this many stored and raw **bytes** are handed over whole.
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
    /// The file of its own that the object is, which may be written before it is complete; `nil` for a pack.
    private let loose: Plan.Slot?

    private struct Inbox {
        var buffers: [Buffer] = []
        var ended = false
        var scheduled = false
        /// One past the last slot of this part; smaller once the end has been given away.
        var last: Int
        /// The same in **bytes** of a loose file.
        var end: UInt64
    }

    /// Touched by the one worker that runs this item.
    private final class Confined: @unchecked Sendable {  // Safe: `run` never overlaps.
        var next: Int
        /// The next **byte** of a loose file.
        var offset: UInt64
        var carry: [UInt8] = []
        /// Who sent ``carry``; `nil` for several.
        var source: String?
        /// **Bytes** at the start of ``carry`` that the consumer keeps.
        var kept = 0
        var streaming = false
        var told = false

        init(next: Int, offset: UInt64) { (self.next, self.offset) = (next, offset) }
    }

    /// - Parameters:
    ///   - slots: The part of the span; `nil` for all of it.
    ///   - range: The same in **bytes**, of a loose file.
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

    /// Gives the slots from some slot on to another unpacker. The caller adds no byte of them here any more.
    ///
    /// - Parameters:
    ///   - offset: Where a cut helps most.
    ///   - range: Where a cut helps at all; offsets in the object.
    /// - Returns: The first byte of the first slot given away; `nil` when no slot begins in `range`.
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

    /// A file of its own can be cut anywhere if it is large, or comes in pieces anyway.
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

    /// Adds the next bytes of the span. Any thread; the caller keeps the order.
    package func add(_ buffer: Buffer) { schedule { $0.buffers.append(buffer) } }

    /// Says that no more bytes will come.
    package func end() { schedule { $0.ended = true } }

    /// Whether a worker could begin at once with what is added: then little is gained by adding more at a time.
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
        // Before its digest is right, a small file is not even written.
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
                    // Every open span has one of these: none is kept.
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

    /// Has the consumer keep a partial slot, unless more bytes are waiting: then it may soon be complete.
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
    /// Files of their own of up to this many **bytes** are not divided among connections.
    package static let wholeLength: UInt64 = 16 << 20

    /// Whether a slot is a gap of a file of its own.
    fileprivate func isGap(_ slot: Slot) -> Bool { targets[slot.targets.lowerBound].isGap }
}
