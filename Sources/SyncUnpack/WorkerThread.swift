import CPosix

/// A thread of our own: workers block in system calls, which Swift's shared executor must not.
package final class WorkerThread: Sendable {
    private let thread: Monitor<Bool>

    /// Starts `body` on a new thread.
    package init(name: String, body: @escaping @Sendable () -> Void) {
        let ended = Monitor(false)
        thread = ended
        let box = Unmanaged.passRetained(Start(name: name, body: body, ended: ended))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, 1 << 20)
        var identifier = pthread_t()
        let code = pthread_create(
            &identifier,
            &attributes,
            { context in
                guard let context else { return nil }
                let start = Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
                sa_name_thread(start.name)
                start.body()
                start.ended.change { $0 = true }
                return nil
            },
            box.toOpaque()
        )
        pthread_attr_destroy(&attributes)
        if code != 0 {
            // No thread to be had (F095): do the work here, so that nothing is lost, only slower.
            let start = box.takeRetainedValue()
            start.body()
            ended.change { $0 = true }
        }
    }

    /// Waits for the thread's end.
    package func join() { thread.wait { $0 ? true : nil } }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void
        let ended: Monitor<Bool>

        init(name: String, body: @escaping @Sendable () -> Void, ended: Monitor<Bool>) {
            self.name = String(name.prefix(15))  // prctl(2), PR_SET_NAME: 16 bytes with the NUL.
            self.body = body
            self.ended = ended
        }
    }
}
