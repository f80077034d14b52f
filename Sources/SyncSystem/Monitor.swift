import CPosix

/// A value behind a lock, with waiting. pthread_cond_wait(3).
///
/// `Synchronization.Mutex` has no condition, and threads must sleep while there is nothing to do.
package final class Monitor<Value: Sendable>: @unchecked Sendable {  // Safe: `mutex` guards it.
    private var value: Value
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let conditions: UnsafeMutablePointer<pthread_cond_t>
    private let count: Int

    /// - Parameter conditions: How many things are waited for, where one waiter at a time is woken by ``signal(_:)``.
    package init(_ value: Value, conditions count: Int = 1) {
        self.value = value
        self.count = count
        mutex = .allocate(capacity: 1)
        conditions = .allocate(capacity: count)
        mutex.initialize(to: pthread_mutex_t())
        conditions.initialize(repeating: pthread_cond_t(), count: count)
        pthread_mutex_init(mutex, nil)
        for condition in 0..<count { pthread_cond_init(conditions + condition, nil) }
    }

    deinit {
        for condition in 0..<count { pthread_cond_destroy(conditions + condition) }
        pthread_mutex_destroy(mutex)
        conditions.deallocate()
        mutex.deallocate()
    }

    /// Reads or changes the value; does not wake anyone.
    @discardableResult
    package func withLock<R>(_ body: (inout Value) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }

    /// Changes the value and wakes every waiter.
    @discardableResult
    package func change<R>(_ body: (inout Value) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer {
            for condition in 0..<count { pthread_cond_broadcast(conditions + condition) }
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Wakes one of those that wait for a condition.
    package func signal(_ condition: Int) { pthread_cond_signal(conditions + condition) }

    /// Waits until `body` returns a value that is not `nil`. It is asked again after each ``change(_:)``.
    ///
    /// - Parameters:
    ///   - condition: Asked again after each ``signal(_:)`` for it, too.
    ///   - milliseconds: Asked again at the latest after this time; `nil` for no limit.
    @discardableResult
    package func wait<R>(
        for condition: Int = 0,
        every milliseconds: Int? = nil,
        until body: (inout Value) -> R?
    ) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            guard let milliseconds else {
                pthread_cond_wait(conditions + condition, mutex)
                continue
            }
            var deadline = timespec()
            clock_gettime(CLOCK_REALTIME, &deadline)
            let nanoseconds = Int(deadline.tv_nsec) + milliseconds % 1000 * 1_000_000
            deadline.tv_sec += milliseconds / 1000 + nanoseconds / 1_000_000_000
            deadline.tv_nsec = nanoseconds % 1_000_000_000
            pthread_cond_timedwait(conditions + condition, mutex, &deadline)
        }
    }
}
