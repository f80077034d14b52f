package import SyncSystem

/// A fixed number of threads that run queued work, each with a worker of its own.
package final class WorkerPool: Sendable {
    private struct State: Sendable {
        var queue: [Work] = []
        var head = 0
        var closed = false
        var running = 0
        /// Threads that take work.
        var ready = 0
        /// Why other threads do not.
        var failure: (any Error)?
        var started = 0

        /// Whether nothing is queued or running.
        var isIdle: Bool { queue.count == head && running == 0 }
    }
    package typealias Work = @Sendable (inout DecodeWorker) -> Void

    private let state = Monitor(State(), conditions: 2)
    private let threads: [WorkerThread]
    /// Number of threads.
    package let count: Int

    /// Starts the threads, and waits until each has its worker. If some of them fail to start, the others do the
    /// work.
    ///
    /// - Parameters:
    ///   - start: Starts a thread.
    ///   - makeWorker: Creates a thread's worker.
    /// - Throws: The last failure, if no thread can work: nothing would ever be done.
    package init(
        count: Int, start: WorkerThread.Starter = WorkerThread.system,
        makeWorker: @escaping @Sendable (_ number: Int) throws -> DecodeWorker = { try DecodeWorker(number: $0) }
    ) throws {
        self.count = max(1, count)
        var threads: [WorkerThread] = []
        for number in 0..<self.count {
            do throws(ThreadError) {
                threads.append(try start("unpack-\(number)") { [state] in Self.loop(number, state, makeWorker) })
            } catch {
                state.withLock { $0.failure = error }
                break
            }
        }
        self.threads = threads
        let failure = state.wait { [threads] state -> (any Error)?? in
            guard state.started == threads.count else { return nil }
            return .some(state.ready == 0 ? state.failure : nil)
        }
        if let failure { throw failure }
    }

    /// The condition that ``drain()`` waits for; threads wait for the other one.
    private static let idle = 1

    /// Queues work.
    package func submit(_ work: @escaping Work) {
        state.withLock { $0.queue.append(work) }
        state.signal(0)
    }

    /// Waits until nothing is queued or running.
    package func drain() { state.wait(for: Self.idle) { $0.isIdle ? true : nil } }

    /// Runs the queued work, then ends the threads.
    package func close() {
        state.change { $0.closed = true }
        for thread in threads { thread.join() }
    }

    private static func loop(
        _ number: Int, _ state: Monitor<State>, _ makeWorker: (_ number: Int) throws -> DecodeWorker
    ) {
        do { try work(makeWorker(number), state) } catch {
            // No memory for a hash context: nothing could be verified, so the thread takes no work.
            state.change { state in
                state.started += 1
                state.failure = error
            }
        }
    }

    private static func work(_ worker: consuming DecodeWorker, _ state: Monitor<State>) {
        state.change { state in
            state.started += 1
            state.ready += 1
        }
        while let work = next(state) {
            work(&worker)
            let isIdle = state.withLock { state in
                state.running -= 1
                return state.isIdle
            }
            if isIdle { state.signal(Self.idle) }
        }
    }

    private static func next(_ state: Monitor<State>) -> Work? {
        state.wait { state -> Work?? in
            if state.head < state.queue.count {
                let work = state.queue[state.head]
                state.head += 1
                if state.head == state.queue.count {
                    // Work retains this pool: finished work must be released, or neither is ever freed.
                    state.queue.removeAll(keepingCapacity: true)
                    state.head = 0
                } else if state.head > 64, state.head * 2 > state.queue.count {
                    state.queue.removeFirst(state.head)
                    state.head = 0
                }
                state.running += 1
                return .some(work)
            }
            return state.closed ? .some(nil) : nil
        }
    }
}

/// A worker thread's own contexts, which are costly to create, and its memory for decoding.
package struct DecodeWorker: ~Copyable {
    /// 0..<number of workers; also the worker's lane in the staging directory.
    package let number: Int
    package var hasher: SHA256Hasher
    package var decoder: BlobDecoder
    /// Memory for decoding small blobs; grows to at most ``SpanUnpacker/smallLimit``.
    package var scratch: UnsafeMutableRawBufferPointer
    /// Memory for the bases of deltas; empty until the first.
    private var base = UnsafeMutableRawBufferPointer(start: nil, count: 0)

    package init(number: Int) throws {
        // Throws only before the first assignment, as Swift 6.3 requires for a noncopyable type.
        let hasher = try SHA256Hasher()
        let decoder = try BlobDecoder()
        self.number = number
        self.hasher = hasher
        self.decoder = decoder
        scratch = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit {
        scratch.deallocate()
        base.deallocate()
    }

    /// At least `count` bytes of scratch memory.
    package mutating func scratch(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if scratch.count < count {
            scratch.deallocate()
            scratch = .allocate(byteCount: max(count, scratch.count * 2), alignment: 64)
        }
        return UnsafeMutableRawBufferPointer(rebasing: scratch[..<count])
    }

    /// `count` bytes of memory for the base of a delta, beside ``scratch``.
    package mutating func base(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if base.count < count {
            base.deallocate()
            base = .allocate(byteCount: count, alignment: 64)
        }
        return UnsafeMutableRawBufferPointer(rebasing: base[..<count])
    }
}
