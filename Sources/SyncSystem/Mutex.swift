package import CPosix

/// A value that one thread at a time may use. pthread_mutex_lock(3).
///
/// Not `Synchronization.Mutex`: that one writes the number of the thread that holds it, which it finds at a thread-local
/// address. Inlined into an `async` function, the optimizer (Swift 6.3.1, Linux) takes that address before an `await` and
/// uses it after, when the function has gone on on another thread: the mutex is then held by a thread that does not know
/// of it, and unlocking ends the process. What is thread-local here stays within libc.
package struct Mutex<Value: ~Copyable>: ~Copyable {
    @usableFromInline
    let mutex: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline
    nonisolated(unsafe) let value: UnsafeMutablePointer<Value>  // Safe: `mutex` guards it.

    /// Puts a value behind a lock.
    @inlinable
    package init(_ value: consuming sending Value) {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    @inlinable
    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs `body` alone with the value. Not to be called from within itself.
    @inlinable
    package borrowing func withLock<R: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending R
    ) throws(Failure) -> sending R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value.pointee)
    }
}

extension Mutex: @unchecked Sendable where Value: ~Copyable {}  // Safe: `mutex` guards the value.
