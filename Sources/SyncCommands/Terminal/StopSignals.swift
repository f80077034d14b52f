import Foundation
import SyncModel
import SyncSystem

import struct Synchronization.Atomic

/// SIGINT and SIGTERM as a request to stop, SIGPIPE as nothing (F085).
///
/// The first SIGINT, SIGTERM or SIGHUP cancels the running work, which keeps what it has; a SIGINT or SIGTERM after that
/// ends the process at once. Handlers, not `SIG_IGN` and not a blocked mask: a program started by execve(2) gets the
/// default actions back, signal(7).
enum StopSignals {
    /// The write end of the pipe between handler and thread; -1 before it exists.
    private static let pipeEnd = Atomic<Int32>(-1)
    private static let firstSignal = Atomic<Int32>(0)
    private static let firstTime = Mutex(ContinuousClock.now)
    /// A signal that comes so soon after the first is the same request: timeout(1) sends SIGTERM to the process and then to
    /// its group.
    private static let echo = Duration.milliseconds(100)

    /// Writing to a closed pipe gives EPIPE instead of ending the process.
    static func ignoreBrokenPipes() { install(SIGPIPE) { _ in } }

    private static let stopSignals = [SIGINT, SIGTERM, SIGHUP]

    /// How the process should exit because of a signal; `nil` when none has come.
    static var requestedStatus: ExitStatus? {
        switch firstSignal.load(ordering: .acquiring) {
        case 0: nil
        case SIGINT: .interrupted
        default: .terminated
        }
    }

    /// Runs `body` in a task that the first stop signal cancels. One call a process.
    ///
    /// `notice` is told once, when the first signal has come; `atOnce` before a second SIGINT or SIGTERM ends the process.
    static func cancelling<R: Sendable>(
        notice: @escaping @Sendable () -> Void,
        atOnce: @escaping @Sendable () -> Void,
        _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        let task = Task { try await body() }
        listen(atOnce: atOnce) {
            notice()
            task.cancel()
        }
        return try await task.value
    }

    /// As ``cancelling(notice:atOnce:_:)``, for a command that ends with the signal's status.
    ///
    /// - Parameter limit: How long `body` may take to end after the signal; the process ends then, whatever it does. Only for
    ///   commands that have nothing to save; `nil` for as long as it takes.
    /// - Throws: What `body` throws; after a signal, whatever that was, ``CommandFailure`` with status 130 or 143.
    static func ending<R: Sendable>(
        within limit: Duration? = nil,
        notice: @escaping @Sendable () -> Void = {},
        atOnce: @escaping @Sendable () -> Void = {},
        _ body: @escaping @Sendable () async throws -> R
    ) async throws -> R {
        let inTime = { @Sendable in
            // A thread of its own: to say so may take for ever, too, where nobody reads. Without one nothing is lost but time.
            if let limit {
                _ = try? WorkerThread(name: "overdue") {
                    usleep(UInt32(clamping: limit.milliseconds * 1_000))
                    _exit((requestedStatus ?? .terminated).rawValue)
                }
            }
            notice()
        }
        do {
            return try await cancelling(notice: inTime, atOnce: atOnce, body)
        } catch {
            if let status = requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }

    /// How long whoever only looks on may take to end.
    static let onlooker = Duration.seconds(1)

    /// Returns when the first stop signal has come, or the task is cancelled. One call a process.
    static func firstRequest(atOnce: @escaping @Sendable () -> Void) async {
        let (requests, source) = AsyncStream.makeStream(of: Void.self)
        listen(atOnce: atOnce) { source.finish() }
        for await _ in requests {}
    }

    /// Calls `stop` once, from a thread of its own, for the first signal.
    private static func listen(atOnce: @escaping @Sendable () -> Void, stop: @escaping @Sendable () -> Void) {
        listen { signal in
            let mark = firstSignal.compareExchange(
                expected: 0,
                desired: signal,
                ordering: .acquiringAndReleasing
            )
            if mark.exchanged {
                firstTime.withLock { $0 = .now }
                stop()
            } else if signal != SIGHUP, .now - firstTime.withLock({ $0 }) > echo {
                atOnce()
                _exit((signal == SIGINT ? ExitStatus.interrupted : .terminated).rawValue)
            }
        }
    }

    private static func listen(_ received: @escaping @Sendable (Int32) -> Void) {
        var ends: [Int32] = [-1, -1]
        // Without descriptors or a thread the default actions stay: the process still ends when asked to.
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let readEnd = ends[0]

        let listener = try? WorkerThread(name: "signals") {
            unblock(stopSignals)
            var number: UInt8 = 0
            while true {
                let count = read(readEnd, &number, 1)
                if count == 1 { received(Int32(number)) } else if count == 0 || errno != EINTR { return }
            }
        }
        guard listener != nil else {
            for end in ends { _ = close(end) }
            return
        }
        pipeEnd.store(ends[1], ordering: .releasing)
        for number in stopSignals {
            install(number) { number in
                let saved = errno
                var byte = UInt8(truncatingIfNeeded: number)
                // write(2) is async-signal-safe, signal-safety(7); a full pipe means a request is there already.
                _ = write(StopSignals.pipeEnd.load(ordering: .relaxed), &byte, 1)
                errno = saved
            }
        }
    }

    /// Lets signals reach this thread: a process can be started with all of them blocked. pthread_sigmask(3).
    private static func unblock(_ signals: [Int32]) {
        var set = sigset_t()
        sigemptyset(&set)
        for number in signals { sigaddset(&set, number) }
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    private static func install(_ number: Int32, _ handler: @escaping @convention(c) (Int32) -> Void) {
        // nohup(1) and a shell's `&` hand down an ignored signal; it stays ignored. SIGTERM never is.
        let previous = signal(number, handler)
        if number != SIGTERM, isIgnored(previous) { signal(number, SIG_IGN) }
    }

    private static func isIgnored(_ handler: (@convention(c) (Int32) -> Void)?) -> Bool {
        unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
