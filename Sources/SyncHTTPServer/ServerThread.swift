// What pthread_attr_t is comes with it.
import CMicroHTTPD

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Starts a thread that runs `body`, and nobody waits for. pthread_create(3)
///
/// - Returns: Whether it has started.
package func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
    let box = Unmanaged.passRetained(Body(body))
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    #if canImport(Darwin)
        var thread: pthread_t?
        let code = pthread_create(&thread, &attributes, { run($0) }, box.toOpaque())
    #else
        var thread = pthread_t()
        let code = pthread_create(&thread, &attributes, { run($0) }, box.toOpaque())
    #endif
    if code != 0 { box.release() }
    return code == 0
}

private func run(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context else { return nil }
    Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
    return nil
}
