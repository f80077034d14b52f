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

/// Starts `body` on a new thread that nobody joins: work that blocks in system calls, which Swift's shared executor
/// must not do. Foundation's `Thread` keeps silent where there is no thread to be had, and its body is never called.
///
/// - Parameters:
///   - name: As ps(1) shows it, at most 15 bytes of it.
///   - stackSize: In **bytes**; `nil` for what the system gives.
/// - Throws: ``ThreadError``; then `body` is not called (F095).
package func detachThread(
    _ name: String,
    stackSize: Int? = nil,
    _ body: @escaping @Sendable () -> Void
) throws(ThreadError) {
    let start = Unmanaged.passRetained(ThreadStart(name: name, body: body))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    if let stackSize { pthread_attr_setstacksize(&attributes, stackSize) }
    var identifier = pthread_t()
    let code = pthread_create(
        &identifier,
        &attributes,
        { context in
            guard let context else { return nil }
            let start = Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
            sa_name_thread(start.name)
            start.body()
            return nil
        },
        start.toOpaque()
    )
    pthread_attr_destroy(&attributes)
    guard code != 0 else { return }
    start.release()
    throw ThreadError(code: code)
}

private final class ThreadStart: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = String(name.prefix(15))  // prctl(2), PR_SET_NAME: 16 bytes with the NUL.
        self.body = body
    }
}
