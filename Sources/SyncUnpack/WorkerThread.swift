import CPosix

/// The system has no thread for us. pthread_create(3).
package struct ThreadError: Error, CustomStringConvertible {
    /// An errno value.
    package let code: Int32

    package init(code: Int32) { self.code = code }

    package var description: String {
        "cannot start a thread: \(String(cString: strerror(code))); raise the limit on processes or memory"
    }
}

/// A thread of our own: workers block in system calls, which Swift's shared executor must not.
package final class WorkerThread: Sendable {
    /// Starts a thread: ``init(name:body:)``, or what a test puts in its place.
    package typealias Starter =
        @Sendable (_ name: String, _ body: @escaping @Sendable () -> Void) throws(ThreadError) -> WorkerThread

    /// Starts threads of the system.
    package static let system: Starter = { name, body throws(ThreadError) in
        try WorkerThread(name: name, body: body)
    }

    private let thread: Monitor<Bool>

    /// Starts `body` on a new thread.
    ///
    /// - Throws: ``ThreadError``; then `body` is not called (F095).
    package init(name: String, body: @escaping @Sendable () -> Void) throws(ThreadError) {
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
        guard code != 0 else { return }
        box.release()
        throw ThreadError(code: code)
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
