import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A thread that can be waited for. Servers block in system calls, which a task's thread must not do.
struct TestThread: @unchecked Sendable {  // Safe: `pthread_t` is for any thread.
    // A `pthread_t` is an opaque value that any thread may hand to pthread_join(3); ``join()`` is called once.
    private let handle: pthread_t

    /// Starts a thread that runs `body` and ends.
    init(_ body: @escaping @Sendable () -> Void) throws(TestKitError) {
        let box = Unmanaged.passRetained(ThreadBody(run: body))
        #if canImport(Darwin)
            var made: pthread_t?
            let status = pthread_create(&made, nil, runThreadBody, box.toOpaque())
        #else
            var made = pthread_t()
            let status = pthread_create(&made, nil, runThreadBody, box.toOpaque())
        #endif
        guard status == 0 else {
            box.release()
            throw TestKitError("pthread_create: \(String(cString: strerror(status)))")
        }
        #if canImport(Darwin)
            guard let made else { throw TestKitError("pthread_create gave no thread") }
        #endif
        handle = made
    }

    /// Waits until the thread has ended.
    func join() { _ = pthread_join(handle, nil) }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(run: @escaping @Sendable () -> Void) { self.run = run }
}

#if canImport(Darwin)
    private func runThreadBody(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        blockPipeSignal()
        Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
        return nil
    }
#else
    private func runThreadBody(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard let context else { return nil }
        blockPipeSignal()
        Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
        return nil
    }
#endif

/// OpenSSL writes with write(2), which would end the process when a client has gone. `pthread_sigmask(3)`
private func blockPipeSignal() {
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
}

/// Sleeps for this thread alone.
func pauseThread(milliseconds: Int) { _ = usleep(useconds_t(milliseconds) * 1_000) }

/// A clock that stands still until a test moves it.
public final class TestClock: Sendable {
    private let now: Mutex<Duration>

    /// Starts at a time since an unnamed beginning.
    public init(elapsed: Duration = .zero) { now = Mutex(elapsed) }

    /// Time since the beginning.
    public var elapsed: Duration { now.withLock { $0 } }

    /// Time since the beginning, in **milliseconds**: as milliseconds since 1970 where one is wanted.
    public var milliseconds: Int64 {
        let parts = elapsed.components
        return parts.seconds * 1_000 + parts.attoseconds / 1_000_000_000_000_000
    }

    /// Moves the clock; a negative step is a wall clock set back.
    public func advance(by step: Duration) { now.withLock { $0 += step } }
}
