package import Synchronization

/// A value that one thread at a time may use.
///
/// `Synchronization.Mutex`, whose calls are never inlined. That one writes the number of the thread that holds it, which it
/// finds at a thread-local address. Inlined into an `async` function, the optimizer (Swift 6.3.1, Linux) takes that address
/// before an `await` and uses it after, when the function has gone on on another thread: the mutex is then held by a thread
/// that does not know of it, and unlocking ends the process.
package struct Mutex<Value: ~Copyable>: ~Copyable {
    @usableFromInline
    package let mutex: Synchronization.Mutex<Value>

    /// Puts a value behind a lock.
    package init(_ value: consuming sending Value) { mutex = Synchronization.Mutex(value) }

    /// Runs `body` alone with the value. Not to be called from within itself.
    @inlinable
    @inline(never)
    package borrowing func withLock<R: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending R
    ) throws(Failure) -> sending R {
        try mutex.withLock(body)
    }
}

extension Mutex: Sendable where Value: ~Copyable {}
