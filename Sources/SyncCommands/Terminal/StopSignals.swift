import SyncModel
import SyncSystem

import struct Synchronization.Atomic

/// SIGINT, SIGTERM and SIGHUP as requests to stop.
///
/// The first of them cancels the running work, which keeps its results. A SIGINT or SIGTERM after that ends the process
/// at once.
enum StopSignals {
    private static let firstSignal = Atomic<Int32>(0)
    private static let firstTime = Mutex(ContinuousClock.now)
    /// A signal that follows the first so soon is the same request: timeout(1) sends SIGTERM to the process and then to
    /// its group.
    private static let echo = Duration.milliseconds(100)

    /// The exit status after a signal; `nil` if none has come.
    static var requestedStatus: ExitStatus? {
        switch firstSignal.load(ordering: .acquiring) {
        case 0: nil
        case Signal.interrupt.rawValue: .interrupted
        default: .terminated
        }
    }

    /// Whether the first signal was SIGHUP: the terminal was closed, and nobody has stopped anything.
    static var hasHungUp: Bool { firstSignal.load(ordering: .acquiring) == Signal.hangUp.rawValue }

    /// Runs `body` in a task that the first stop signal cancels. At most one call per process.
    ///
    /// `notice` is called once, after the first signal; `atOnce` is called before a second SIGINT or SIGTERM ends the
    /// process.
    static func cancelling<R: Sendable>(
        notice: @escaping @Sendable () -> Void, atOnce: @escaping @Sendable () -> Void,
        _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        // The work begins only after the signal handlers are installed.
        let (beginning, gate) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            for await _ in beginning {}
            return try await body()
        }
        listen(atOnce: atOnce) {
            notice()
            task.cancel()
        }
        gate.finish()
        return try await task.value
    }

    /// As ``cancelling(notice:atOnce:_:)``, for a command that ends with the signal's status.
    ///
    /// - Parameter limit: How long `body` may take to end after the signal. After that the process ends, whatever
    ///   `body` does. Only for commands that have nothing to save; `nil` for no limit.
    /// - Throws: The errors of `body`; after a signal, in any case, ``CommandFailure`` with status 130 or 143.
    static func ending<R: Sendable>(
        within limit: Duration? = nil, notice: @escaping @Sendable () -> Void = {},
        atOnce: @escaping @Sendable () -> Void = {}, _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        let inTime = { @Sendable in
            // On a thread of its own, since `notice` may block for ever if nobody reads. Without the thread, only the
            // limit is lost.
            if let limit {
                _ = try? WorkerThread(name: "overdue") {
                    pauseThread(milliseconds: Int(limit.milliseconds))
                    CurrentProcess.exit((requestedStatus ?? .terminated).rawValue)
                }
            }
            notice()
        }
        do { return try await cancelling(notice: inTime, atOnce: atOnce, body) } catch {
            if let status = requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }

    /// How long a command that only watches may take to end.
    static let onlooker = Duration.seconds(1)

    /// Listens for signals from now on, so it is called before the command reports that it is ready. At most one call
    /// per process.
    ///
    /// - Returns: A function that returns after the first stop signal, or when the task is cancelled.
    static func firstRequest() -> @Sendable () async -> Void {
        let (requests, source) = AsyncStream.makeStream(of: Void.self)
        listen(atOnce: {}) { source.finish() }
        return { for await _ in requests {} }
    }

    /// Calls `stop` once, from a thread of its own, for the first signal.
    private static func listen(atOnce: @escaping @Sendable () -> Void, stop: @escaping @Sendable () -> Void) {
        SignalPipe.listen(to: [.interrupt, .terminate, .hangUp]) { signal in
            let mark = firstSignal.compareExchange(
                expected: 0, desired: signal.rawValue, ordering: .acquiringAndReleasing)
            if mark.exchanged {
                firstTime.withLock { $0 = .now }
                stop()
            } else if signal != .hangUp, .now - firstTime.withLock({ $0 }) > echo {
                atOnce()
                CurrentProcess.exit((signal == .interrupt ? ExitStatus.interrupted : .terminated).rawValue)
            }
        }
    }
}
