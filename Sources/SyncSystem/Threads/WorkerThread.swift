import CPosix

import struct Synchronization.Atomic

/// The system could not create a thread. pthread_create(3).
package struct ThreadError: Error, CustomStringConvertible {
    package let code: Errno

    package init(code: Errno) { self.code = code }

    package var description: String { "cannot start a thread: \(code); raise the limit on processes or memory" }
}

/// A separate thread for work that blocks in system calls, which Swift's shared executor must not do. Not Foundation's,
/// which does not report failure to start one.
package final class WorkerThread: Sendable {
    /// Starts a thread: ``system``, or a test's replacement.
    package typealias Starter =
        @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) throws(ThreadError) -> WorkerThread

    /// Starts threads with small stacks.
    package static let system: Starter = { name, body throws(ThreadError) in
        try WorkerThread(name: name, stackSize: 1 << 20, body: body)
    }

    private let ended: Monitor<Bool>
    private let identifier: pthread_t

    /// Starts `body` on a new, detached thread.
    ///
    /// - Parameters:
    ///   - name: As ps(1) shows it: the first 15 bytes.
    ///   - stackSize: In **bytes**; `nil` for the system's default, getrlimit(2).
    /// - Throws: ``ThreadError``; `body` is then not called.
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
                // When the end is reported, everything that the work held has been released, too.
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

    /// Waits for the end of the work; everything that it held has then been released.
    package func join() { ended.wait { $0 ? true : nil } }

    /// Whether this is the calling thread.
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

/// A stop request, visible to all threads.
package final class StopFlag: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isSet: Bool { flag.load(ordering: .relaxed) }

    package func set() { flag.store(true, ordering: .relaxed) }
}

/// Runs blocking work on a thread of its own: the concurrency pool has one thread per core, possibly only one.
///
/// - Throws: ``ThreadError``; `work` is then not called.
package func onThread<R: Sendable>(_ name: String, _ work: @escaping @Sendable () -> R) async throws(ThreadError) -> R {
    let result: Result<R, ThreadError> = await withCheckedContinuation { continuation in
        do throws(ThreadError) {
            try WorkerThread(name: name) { continuation.resume(returning: .success(work())) }
        } catch { continuation.resume(returning: .failure(error)) }
    }
    return try result.get()
}

/// Runs blocking work that can fail on a thread of its own. Waits for its end, even if the task is cancelled.
///
/// - Parameters:
///   - onCancel: Called when the task is cancelled.
///   - work: Its flag is set when the task is cancelled.
/// - Throws: ``ThreadError``, or the error of `work`.
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
/// If the system has no more threads, the rest runs here, sequentially: slower, but complete.
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
    // The calling thread works, too.
    var rest = [count - 1]
    for index in 0..<(count - 1) {
        do { threads.append(try start("\(name)-\(index)") { work(index) }) } catch { rest.append(index) }
    }
    for index in rest { work(index) }
    for thread in threads { thread.join() }
    return results.withLock { results in (0..<count).compactMap { results[$0] } }
}

/// Processes places 0..<count on several threads, each with its own worker.
///
/// - Returns: The results, in no order. Places that were not processed, because of a stop or a lack of memory, have
///   none.
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
