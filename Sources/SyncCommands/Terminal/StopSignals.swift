import SyncModel
import SyncSystem

import struct Synchronization.Atomic

/// SIGINT and SIGTERM as a request to stop, SIGPIPE as nothing.
///
/// The first SIGINT, SIGTERM or SIGHUP cancels the running work, which keeps what it has; a SIGINT or SIGTERM after that
/// ends the process at once.
enum StopSignals {
    private static let firstSignal = Atomic<Int32>(0)
    private static let firstTime = Mutex(ContinuousClock.now)
    /// A signal that comes so soon after the first is the same request: timeout(1) sends SIGTERM to the process and then to
    /// its group.
    private static let echo = Duration.milliseconds(100)

    /// How the process should exit because of a signal; `nil` when none has come.
    static var requestedStatus: ExitStatus? {
        switch firstSignal.load(ordering: .acquiring) {
        case 0: nil
        case Signal.interrupt.rawValue: .interrupted
        default: .terminated
        }
    }

    /// Whether the first was SIGHUP: the terminal has closed, and nobody has stopped anything.
    static var hasHungUp: Bool { firstSignal.load(ordering: .acquiring) == Signal.hangUp.rawValue }

    /// Runs `body` in a task that the first stop signal cancels. One call a process.
    ///
    /// `notice` is told once, when the first signal has come; `atOnce` before a second SIGINT or SIGTERM ends the process.
    static func cancelling<R: Sendable>(
        notice: @escaping @Sendable () -> Void, atOnce: @escaping @Sendable () -> Void,
        _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        // Nothing begins before signals are heard.
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
    /// - Parameter limit: How long `body` may take to end after the signal; the process ends then, whatever it does. Only for
    ///   commands that have nothing to save; `nil` for as long as it takes.
    /// - Throws: What `body` throws; after a signal, whatever that was, ``CommandFailure`` with status 130 or 143.
    static func ending<R: Sendable>(
        within limit: Duration? = nil, notice: @escaping @Sendable () -> Void = {},
        atOnce: @escaping @Sendable () -> Void = {}, _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        let inTime = { @Sendable in
            // A thread of its own: to say so may take for ever, too, where nobody reads. Without one nothing is lost but time.
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

    /// How long whoever only looks on may take to end.
    static let onlooker = Duration.seconds(1)

    /// Hears signals from now on, so before the command says that it is ready. One call a process.
    ///
    /// - Returns: What waits until the first stop signal has come, or the task is cancelled.
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
