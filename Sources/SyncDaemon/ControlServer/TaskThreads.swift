import CPosix
import SyncSystem

import struct Synchronization.Atomic

/// Runs Swift's tasks on threads that sleep until something comes.
///
/// Swift runs tasks on libdispatch otherwise, and on Linux libdispatch's pool looks at its threads once a second for as
/// long as the process lives: an agent at rest would wake 86,400 times a day for nothing.
package enum TaskThreads {
    /// Takes the tasks of this process over. From the main thread, once, before the first task is made.
    ///
    /// - Returns: Whether they run on these threads; if not, everything works as well, and the process wakes more often.
    @discardableResult package static func takeOver() -> Bool {
        #if os(Linux)
            guard TaskPool.shared.start(), sa_take_tasks_over() != 0 else { return false }
            isTakenOver.store(true, ordering: .releasing)
            return true
        #else
            return false
        #endif
    }

    private static let isTakenOver = Atomic<Bool>(false)

    /// Waits. `Task.sleep` is libdispatch's in any case, and its first call starts that pool: where tasks run on these
    /// threads, these wait.
    ///
    /// - Throws: When the task is cancelled: then at once.
    package static func sleep(for duration: Duration) async throws {
        #if os(Linux)
            guard isTakenOver.load(ordering: .acquiring) else { return try await Task.sleep(for: duration) }
            let nanoseconds = max(.zero, min(duration, .seconds(86_400 * 365))) / .nanoseconds(1)
            try await TaskPool.shared.sleep(nanoseconds: Int64(nanoseconds))
        #else
            try await Task.sleep(for: duration)
        #endif
    }
}

#if os(Linux)
    /// What Swift's runtime calls for each piece of a task that can run.
    @_cdecl("sa_take_job") func takeJob(_ job: UnsafeMutableRawPointer) {
        // A job is one pointer, which the hook hands over as such.
        TaskPool.shared.enqueue(unsafeBitCast(job, to: UnownedJob.self))
    }

    /// Threads that run jobs in the order in which they come, and wake those that sleep.
    ///
    /// One of the threads that have nothing to do waits for the next alarm, the others until they are called.
    final class TaskPool: TaskExecutor, @unchecked Sendable {  // Safe: `mutex` guards it.
        static let shared = TaskPool()

        private struct Alarm {
            let time: Int64
            let continuation: CheckedContinuation<Void, any Error>
        }

        private let mutex: UnsafeMutablePointer<pthread_mutex_t>
        private let condition: UnsafeMutablePointer<pthread_cond_t>
        private var jobs: [UnownedJob] = []
        /// So many of `jobs` have been taken.
        private var taken = 0
        private var alarms: [UInt64: Alarm] = [:]
        private var lastAlarm: UInt64 = 0
        /// When the thread wakes that waits for the next alarm, in **nanoseconds** of CLOCK_MONOTONIC; `nil` where none
        /// does.
        private var watched: Int64?

        // Lives as long as the process.
        private init() {
            mutex = .allocate(capacity: 1)
            condition = .allocate(capacity: 1)
            pthread_mutex_init(mutex, nil)
            _ = sa_cond_init_monotonic(condition)
        }

        /// Starts the threads, one a processor and at least two.
        ///
        /// - Returns: `false` where not one can be started.
        func start() -> Bool {
            let count = max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
            return (0..<count).count { _ in (try? WorkerThread(name: "tasks") { self.run() }) != nil } > 0
        }

        func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }

        func enqueue(_ job: UnownedJob) {
            pthread_mutex_lock(mutex)
            jobs.append(job)
            pthread_cond_signal(condition)
            pthread_mutex_unlock(mutex)
        }

        private func run() {
            let executor = asUnownedTaskExecutor()
            pthread_mutex_lock(mutex)
            while true {
                if taken < jobs.count {
                    let job = jobs[taken]
                    taken += 1
                    if taken == jobs.count {
                        jobs.removeAll(keepingCapacity: jobs.capacity < 1_024)
                        taken = 0
                    } else if taken >= 1_024, taken > jobs.count / 2 {
                        // The queue need not ever be empty.
                        jobs.removeFirst(taken)
                        taken = 0
                    }
                    pthread_mutex_unlock(mutex)
                    job.runSynchronously(on: executor)
                    pthread_mutex_lock(mutex)
                } else if !alarms.isEmpty, let due = takeDue() {
                    pthread_mutex_unlock(mutex)
                    due.resume()
                    pthread_mutex_lock(mutex)
                } else {
                    wait()
                }
            }
        }

        /// The continuation of an alarm that is due.
        private func takeDue() -> CheckedContinuation<Void, any Error>? {
            let now = sa_monotonic()
            guard let due = alarms.first(where: { $0.value.time <= now }) else { return nil }
            alarms[due.key] = nil
            return due.value.continuation
        }

        /// Waits until there is something to do; one thread wakes for the next alarm.
        private func wait() {
            guard let next = alarms.values.lazy.map(\.time).min(), watched.map({ next < $0 }) ?? true else {
                pthread_cond_wait(condition, mutex)
                return
            }
            watched = next
            _ = sa_cond_wait_until(condition, mutex, next)
            // Another may have taken a sooner one over.
            guard watched == next else { return }
            watched = nil
            // Who goes to work leaves the next alarm to another.
            if taken < jobs.count { pthread_cond_signal(condition) }
        }

        /// Waits for so long.
        ///
        /// - Throws: `CancellationError` when the task is cancelled: then at once.
        func sleep(nanoseconds: Int64) async throws {
            let time = sa_monotonic() + nanoseconds
            let number = withLock { () -> UInt64 in
                lastAlarm += 1
                return lastAlarm
            }
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    let isCancelled = withLock { () -> Bool in
                        // Cancelled before: the handler below has come and gone.
                        guard !Task.isCancelled else { return true }
                        alarms[number] = Alarm(time: time, continuation: continuation)
                        if watched.map({ time < $0 }) ?? true { pthread_cond_signal(condition) }
                        return false
                    }
                    if isCancelled { continuation.resume(throwing: CancellationError()) }
                }
            } onCancel: {
                let alarm = withLock { alarms.removeValue(forKey: number) }
                alarm?.continuation.resume(throwing: CancellationError())
            }
        }

        private func withLock<R>(_ body: () -> R) -> R {
            pthread_mutex_lock(mutex)
            defer { pthread_mutex_unlock(mutex) }
            return body()
        }
    }
#endif
