import SyncSystem

/// A thread that can be waited for. Servers block in system calls, which a task's thread must not do.
struct TestThread: Sendable {
    private let thread: WorkerThread

    /// Starts a thread that runs `body` and ends.
    init(_ body: @escaping @Sendable () -> Void) throws(TestKitError) {
        do throws(ThreadError) {
            thread = try WorkerThread(name: "test-server") {
                // OpenSSL writes with write(2), which would end the process when a client has gone.
                CurrentProcess.blockPipeSignal()
                body()
            }
        } catch {
            throw TestKitError(error.description)
        }
    }

    func join() { thread.join() }
}

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
