import SyncSystem

/// Starts a thread of a server: servers block in system calls, which a task's thread must not do.
func startServerThread(_ body: @escaping @Sendable () -> Void) throws(TestKitError) -> WorkerThread {
    do throws(ThreadError) {
        return try WorkerThread(name: "test-server") {
            // OpenSSL writes with write(2), which would end the process when a client has gone.
            CurrentProcess.blockPipeSignal()
            body()
        }
    } catch { throw TestKitError(error.description) }
}

/// A clock that stands still until a test moves it.
public final class TestClock: Sendable {
    private let now: Mutex<Duration>

    /// Starts at a time since an unnamed beginning.
    public init(elapsed: Duration = .zero) { now = Mutex(elapsed) }

    /// Time since the beginning.
    public var elapsed: Duration { now.withLock { $0 } }

    /// Time since the beginning, in **milliseconds**: as milliseconds since 1970 where one is wanted.
    public var milliseconds: Int64 { elapsed.milliseconds }

    /// Moves the clock; a negative step is a wall clock set back.
    public func advance(by step: Duration) { now.withLock { $0 += step } }
}
