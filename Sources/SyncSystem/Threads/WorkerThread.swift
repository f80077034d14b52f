import CPosix

import struct Synchronization.Atomic

/// The system has no thread for us. pthread_create(3).
package struct ThreadError: Error, CustomStringConvertible {
    package let code: Errno

    package init(code: Errno) { self.code = code }

    package var description: String { "cannot start a thread: \(code); raise the limit on processes or memory" }
}

/// A thread of our own, for work that blocks in system calls, which Swift's shared executor must not. Not Foundation's:
/// that does not say when there is none to be had.
package final class WorkerThread: Sendable {
    /// Starts a thread: ``system``, or what a test puts in its place.
    package typealias Starter =
        @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) throws(ThreadError) -> WorkerThread

    /// Starts threads of the system with small stacks.
    package static let system: Starter = { name, body throws(ThreadError) in
        try WorkerThread(name: name, stackSize: 1 << 20, body: body)
    }

    private let ended: Monitor<Bool>
    private let identifier: pthread_t

    /// Starts `body` on a new thread, which nobody has to join.
    ///
    /// - Parameters:
    ///   - name: As ps(1) shows it: the first 15 bytes.
    ///   - stackSize: In **bytes**; `nil` for the system's own, getrlimit(2).
    /// - Throws: ``ThreadError``; then `body` is not called.
    @discardableResult package init(name: String, stackSize: Int? = nil, body: @escaping @Sendable () -> Void)
        throws(ThreadError)
    {
        ended = Monitor(false)
        let box = Unmanaged.passRetained(Start(name: name, body: body, ended: ended))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        if let stackSize { pthread_attr_setstacksize(&attributes, stackSize) }
        var identifier = pthread_t()
        let code = pthread_create(
            &identifier, &attributes,
            { context in
                guard let context else { return nil }
                // Whoever has waited for the end may count on it that what the work held is let go, too.
                let ended = Start.run(context)
                ended.change { $0 = true }
                return nil
            }, box.toOpaque())
        self.identifier = identifier
        pthread_attr_destroy(&attributes)
        guard code != 0 else { return }
        box.release()
        throw ThreadError(code: Errno(rawValue: code))
    }

    /// Waits for the end of its work; what that held has been let go then.
    package func join() { ended.wait { $0 ? true : nil } }

    /// Whether this is the thread that asks.
    package var isCurrent: Bool { pthread_equal(identifier, pthread_self()) != 0 }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void
        let ended: Monitor<Bool>

        init(name: String, body: @escaping @Sendable () -> Void, ended: Monitor<Bool>) {
            self.name = String(name.prefix(15))  // prctl(2), PR_SET_NAME: 16 bytes with the NUL.
            self.body = body
            self.ended = ended
        }

        @inline(never) static func run(_ context: UnsafeMutableRawPointer) -> Monitor<Bool> {
            let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
            sa_name_thread(start.name)
            start.body()
            return start.ended
        }
    }
}

/// A wish to stop, said and seen on any thread.
package final class StopFlag: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isSet: Bool { flag.load(ordering: .relaxed) }

    package func set() { flag.store(true, ordering: .relaxed) }
}

/// Runs work that blocks on a thread of its own: the concurrency pool has one thread for each core, and may have one
/// only.
///
/// - Throws: ``ThreadError``; then `work` is not called.
package func onThread<R: Sendable>(_ name: String, _ work: @escaping @Sendable () -> R) async throws(ThreadError) -> R {
    let result: Result<R, ThreadError> = await withCheckedContinuation { continuation in
        do throws(ThreadError) {
            try WorkerThread(name: name) { continuation.resume(returning: .success(work())) }
        } catch { continuation.resume(returning: .failure(error)) }
    }
    return try result.get()
}

/// Runs work that blocks and can fail on a thread of its own. Its end is waited for, also when the task is cancelled.
///
/// - Parameters:
///   - onCancel: Called when the task is cancelled.
///   - work: Has a flag that is set when the task is cancelled.
/// - Throws: ``ThreadError``, or what `work` throws.
package func onThread<R: Sendable>(
    _ name: String, onCancel: @escaping @Sendable () -> Void = {},
    cancellable work: @escaping @Sendable (StopFlag) throws -> R
) async throws -> R {
    let flag = StopFlag()
    return try await withTaskCancellationHandler {
        try await onThread(name) { Result { try work(flag) } }.get()
    } onCancel: {
        flag.set()
        onCancel()
    }
}

/// Runs `body` for 0..<count, each on a thread of its own, and returns the results in order.
///
/// Where the system has no more threads, the rest is done here, one after the other: nothing is lost, only slower.
package func concurrently<Result: Sendable>(
    _ count: Int, name: String, start: WorkerThread.Starter = WorkerThread.system,
    _ body: @escaping @Sendable (Int) -> Result
) -> [Result] {
    guard count > 1 else { return count == 1 ? [body(0)] : [] }
    let results = Monitor<[Int: Result]>([:])
    let work: @Sendable (Int) -> Void = { index in
        let result = body(index)
        results.withLock { $0[index] = result }
    }
    var threads: [WorkerThread] = []
    var rest: [Int] = []
    for index in 0..<count {
        do { threads.append(try start("\(name)-\(index)") { work(index) }) } catch { rest.append(index) }
    }
    for index in rest { work(index) }
    for thread in threads { thread.join() }
    return results.withLock { results in (0..<count).compactMap { results[$0] } }
}

/// Works at places 0..<count on several threads, each with a worker of its own.
///
/// - Returns: The results, in no order. A place where nobody came, because of a stop or for want of memory, has none.
package func concurrently<Worker: ~Copyable, Result: Sendable>(
    over count: Int, threads: Int, name: String, isStopped: @escaping @Sendable () -> Bool,
    by makeWorker: @escaping @Sendable (_ thread: Int) throws -> Worker,
    _ work: @escaping @Sendable (_ worker: inout Worker, _ place: Int) -> Result
) -> [(place: Int, result: Result)] {
    let next = SharedCounter()
    return concurrently(min(max(1, threads), count), name: name) { thread -> [(Int, Result)] in
        var done: [(Int, Result)] = []
        guard var worker = try? makeWorker(thread) else { return [] }
        while !isStopped() {
            let place = next.take()
            guard place < count else { break }
            done.append((place, work(&worker, place)))
        }
        return done
    }.flatMap { $0 }
}

/// Hands out 0, 1, 2 … to several threads.
package final class SharedCounter: Sendable {
    private let value = Mutex(0)

    package init() {}

    package func take() -> Int {
        value.withLock { value in
            defer { value += 1 }
            return value
        }
    }
}
