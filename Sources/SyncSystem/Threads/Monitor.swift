package import CPosix

/// A value behind a lock, with condition variables. pthread_cond_wait(3).
///
/// `Synchronization.Mutex` has no condition variables, and threads must sleep while there is nothing to do.
package final class Monitor<Value: Sendable>: @unchecked Sendable {  // Safe: `mutex` guards it.
    private var value: Value
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let conditions: UnsafeMutablePointer<pthread_cond_t>
    private let count: Int

    /// - Parameter conditions: Number of conditions, of each of which ``signal(_:)`` wakes one waiter at a time.
    package init(_ value: Value, conditions count: Int = 1) {
        self.value = value
        self.count = count
        mutex = .allocate(capacity: 1)
        conditions = .allocate(capacity: count)
        mutex.initialize(to: pthread_mutex_t())
        conditions.initialize(repeating: pthread_cond_t(), count: count)
        pthread_mutex_init(mutex, nil)
        for condition in 0..<count { _ = sa_cond_init_monotonic(conditions + condition) }
    }

    deinit {
        for condition in 0..<count { pthread_cond_destroy(conditions + condition) }
        pthread_mutex_destroy(mutex)
        conditions.deallocate()
        mutex.deallocate()
    }

    /// Reads or changes the value; wakes no waiter.
    @discardableResult package func withLock<R>(_ body: (inout Value) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }

    /// Changes the value and wakes every waiter.
    @discardableResult package func change<R>(_ body: (inout Value) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer {
            for condition in 0..<count { pthread_cond_broadcast(conditions + condition) }
            pthread_mutex_unlock(mutex)
        }
        return body(&value)
    }

    /// Wakes one waiter of a condition and nobody else, unlike ``change(_:)``.
    package func signal(_ condition: Int) { pthread_cond_signal(conditions + condition) }

    /// Waits until `body` returns a value that is not `nil`. It is called again after each ``change(_:)``.
    ///
    /// - Parameters:
    ///   - condition: `body` is called again after each ``signal(_:)`` for it, too.
    ///   - milliseconds: `body` is called again after this time at the latest, independent of the wall clock; `nil` for
    ///     no limit.
    @discardableResult package func wait<R>(
        for condition: Int = 0, every milliseconds: Int? = nil, until body: (inout Value) -> R?
    ) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            guard let milliseconds else {
                pthread_cond_wait(conditions + condition, mutex)
                continue
            }
            sleep(on: condition, atMost: Int64(clamping: milliseconds))
        }
    }

    /// Waits until `body` returns a value that is not `nil`, at most until an instant. It is called again after each
    /// ``change(_:)``.
    ///
    /// - Returns: `nil` if it has not returned one by then.
    @discardableResult package func wait<R>(until end: SuspendingClock.Instant, for body: (inout Value) -> R?) -> R? {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&value) { return result }
            let rest = SuspendingClock.now.duration(to: end)
            guard rest > .zero else { return nil }
            // One more, because milliseconds are rounded down; a day, because an instant can be beyond all clocks.
            sleep(on: 0, atMost: min(rest, .seconds(86_400)).milliseconds + 1)
        }
    }

    /// Releases the mutex until a condition is signalled or the time is over.
    private func sleep(on condition: Int, atMost milliseconds: Int64) {
        let time = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        let deadline = sa_monotonic().addingReportingOverflow(time.overflow ? .max : time.partialValue)
        _ = sa_cond_wait_until(conditions + condition, mutex, deadline.overflow ? .max : deadline.partialValue)
    }
}

/// A value that one thread at a time may use. pthread_mutex_lock(3).
///
/// Not `Synchronization.Mutex`, which records the thread that holds it, found at a thread-local address. Inlined into
/// an `async` function, the optimizer (Swift 6.3.1, Linux) takes that address before an `await` and uses it afterwards,
/// when the function may have resumed on another thread: the mutex is then held by a thread that does not know of it,
/// and unlocking ends the process. Here, thread-local data stays within libc.
package struct Mutex<Value: ~Copyable>: ~Copyable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline nonisolated(unsafe) let value: UnsafeMutablePointer<Value>  // Safe: `mutex` guards it.

    /// Protects a value by a lock.
    @inlinable package init(_ value: consuming sending Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    @inlinable deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs `body` with exclusive access to the value. Not reentrant.
    @inlinable package borrowing func withLock<R: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending R
    ) throws(Failure) -> sending R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value.pointee)
    }
}

extension Mutex: @unchecked Sendable where Value: ~Copyable {}  // Safe: `mutex` guards the value.

/// Remembers messages, so that each is logged once: about a host that is down for an hour, or a faulty schedule file.
package final class MessageDeduplicator: Sendable {
    private let said = Mutex<Set<String>>([])
    private let most: Int

    /// - Parameter most: Number of messages after which no more are new.
    package init(most: Int = .max) { self.most = most }

    /// Whether a message is new; it is then remembered.
    package func isNew(_ text: String) -> Bool { said.withLock { $0.count < most && $0.insert(text).inserted } }
}
