import NIOCore
import NIOPosix
import Synchronization

/// Lets Swift's tasks run on the threads that serve the socket.
///
/// Swift runs tasks on libdispatch otherwise, and on Linux libdispatch's pool looks at its threads once a second for as
/// long as the process lives: an agent at rest would wake 86,400 times a day for nothing. Threads of NIO sleep until
/// something comes.
package enum TaskThreads {
    /// Takes the tasks of this process over. From the main thread, once, before the first task is made.
    ///
    /// - Returns: Whether they run on NIO's threads; if not, everything works as well, and the process wakes more often.
    @discardableResult
    package static func takeOver() -> Bool {
        let isTaken = NIOSingletons.unsafeTryInstallSingletonPosixEventLoopGroupAsConcurrencyGlobalExecutor()
        isTakenOver.store(isTaken, ordering: .releasing)
        return isTaken
    }

    private static let isTakenOver = Atomic<Bool>(false)

    /// Waits. `Task.sleep` is libdispatch's in any case, and its first call starts that pool: where tasks run on NIO's
    /// threads, these wait.
    ///
    /// - Throws: When the task is cancelled: then at once.
    package static func sleep(for duration: Duration) async throws {
        guard isTakenOver.load(ordering: .acquiring) else { return try await Task.sleep(for: duration) }
        let nanoseconds = max(.zero, min(duration, .seconds(86_400 * 365))) / .nanoseconds(1)
        let alarm = MultiThreadedEventLoopGroup.singleton.any()
            .scheduleTask(in: .nanoseconds(Int64(nanoseconds))) {}
        try await withTaskCancellationHandler {
            try await alarm.futureResult.get()
        } onCancel: {
            alarm.cancel()
        }
    }
}
