import CPosix
import Dispatch
import Synchronization

/// Work done one after another on a thread of its own, which there is only while there is work.
///
/// Not a queue of libdispatch's: its pool reads proc(5) to see what its threads do, and ends the process where /proc is
/// not mounted.
final class ThreadLane: Sendable {
    private struct State: Sendable {
        var waiting: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    /// Entered while there is a thread.
    private let running = DispatchGroup()

    /// - Returns: Whether `work` will be done: without a thread to be had it is not, F095.
    func add(_ work: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.waiting.append(work)
            if state.isRunning { return true }
            running.enter()
            state.isRunning = startThread(detached: true, { [self] in run() }) != nil
            if !state.isRunning {
                state.waiting.removeAll()
                running.leave()
            }
            return state.isRunning
        }
    }

    /// Waits until everything added has run.
    func drain() { running.wait() }

    private func run() {
        while let work = next() { work() }
        running.leave()
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
    }
}

/// Calls that block, each on a thread of its own.
enum PluginThreads {
    /// Without a thread to be had nothing is called: whoever waits has a deadline.
    static func async(_ work: @escaping @Sendable () -> Void) { _ = startThread(detached: true, work) }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Runs `run` on a new thread.
///
/// - Parameter detached: Whether nobody joins it.
/// - Returns: `nil` when the system has no more threads.
func startThread(detached: Bool = false, _ run: @escaping @Sendable () -> Void) -> pthread_t? {
    let body = Unmanaged.passRetained(ThreadBody(run))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    if detached { pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED)) }
    var thread = pthread_t()
    let code = pthread_create(
        &thread,
        &attributes,
        { context in
            guard let context else { return nil }
            Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run()
            return nil
        },
        body.toOpaque()
    )
    guard code == 0 else {
        body.release()
        return nil
    }
    return thread
}
