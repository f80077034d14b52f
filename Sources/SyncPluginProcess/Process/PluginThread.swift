import CPosix

/// Starts a thread of our own: a plugin's loop waits in poll(2), which Swift's shared executor must not.
///
/// - Returns: Whether there was a thread to be had.
func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    let start = Unmanaged.passRetained(ThreadStart(name: name, body: body))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    var identifier = pthread_t()
    let code = pthread_create(
        &identifier,
        &attributes,
        { context in
            guard let context else { return nil }
            let start = Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
            sa_name_thread(start.name)
            sa_block_pipe_signal()
            start.body()
            return nil
        },
        start.toOpaque()
    )
    pthread_attr_destroy(&attributes)
    if code != 0 { start.release() }
    return code == 0
}

private final class ThreadStart: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = String(name.prefix(15))  // prctl(2), PR_SET_NAME: 16 bytes with the NUL.
        self.body = body
    }
}
