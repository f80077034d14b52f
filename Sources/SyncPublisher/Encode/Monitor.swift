#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A lock and the conditions waited for under it: pthread_mutex_lock(3), pthread_cond_wait(3).
///
/// `Synchronization.Mutex` has no condition to wait for.
final class Monitor: @unchecked Sendable {  // Safe: pthread objects are made for any thread.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let conditions: UnsafeMutablePointer<pthread_cond_t>
    private let count: Int

    init(conditions count: Int) {
        self.count = count
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
        conditions = .allocate(capacity: count)
        conditions.initialize(repeating: pthread_cond_t(), count: count)
        for index in 0..<count { pthread_cond_init(conditions + index, nil) }
    }

    deinit {
        for index in 0..<count { pthread_cond_destroy(conditions + index) }
        conditions.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs `body` under the lock.
    func locked<R>(_ body: () -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body()
    }

    /// Waits under the lock until `condition` is signalled; may wake for no reason.
    func wait(_ condition: Int) { pthread_cond_wait(conditions + condition, mutex) }

    func signal(_ condition: Int) { pthread_cond_signal(conditions + condition) }

    func broadcast() {
        for index in 0..<count { pthread_cond_broadcast(conditions + index) }
    }
}

/// A thread of its own, for work that blocks; the concurrency pool must not.
struct WorkThread: ~Copyable {
    private let handle: pthread_t

    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts a thread; `nil` when the system has none left. pthread_create(3).
    static func start(_ run: @escaping @Sendable () -> Void) -> WorkThread? {
        let context = Unmanaged.passRetained(Body(run))
        #if canImport(Glibc)
            var handle = pthread_t()
            let result = pthread_create(
                &handle,
                nil,
                { argument in
                    if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
                    return nil
                },
                context.toOpaque()
            )
        #else
            var created: pthread_t?
            let result = pthread_create(
                &created,
                nil,
                { argument in
                    Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
                    return nil
                },
                context.toOpaque()
            )
            guard let handle = created else {
                context.release()
                return nil
            }
        #endif
        guard result == 0 else {
            context.release()
            return nil
        }
        return WorkThread(handle: handle)
    }

    private init(handle: pthread_t) { self.handle = handle }

    /// Waits for its end.
    consuming func join() { pthread_join(handle, nil) }
}

/// Threads that are joined together.
final class WorkThreads {
    private final class Entry {
        var thread: WorkThread?
        init(_ thread: consuming WorkThread) { self.thread = consume thread }
    }

    private var entries: [Entry] = []

    var count: Int { entries.count }

    func start(_ run: @escaping @Sendable () -> Void) {
        if let thread = WorkThread.start(run) { entries.append(Entry(thread)) }
    }

    func join() {
        for entry in entries { entry.thread.take()?.join() }
        entries = []
    }
}
