import Foundation

/// Tells systemd how the agent is: sd_notify(3), a datagram to the socket that `NOTIFY_SOCKET` names.
struct ServiceNotice: Sendable {
    private let path: String?
    /// How often the watchdog wants to hear, or `nil`: half of `WATCHDOG_USEC`, sd_watchdog_enabled(3).
    let watchdogInterval: Duration?

    init(environment: EnvironmentPaths) {
        path = environment.notifySocket()
        watchdogInterval = environment.watchdogMicroseconds(process: getpid()).map { .microseconds($0 / 2) }
    }

    func ready() { send("READY=1") }
    func stopping() { send("STOPPING=1") }
    func alive() { send("WATCHDOG=1") }

    /// Sends, or does nothing where nobody listens: the agent works all the same.
    private func send(_ text: String) {
        guard let path, path.utf8.count > 1, path.hasPrefix("/") || path.hasPrefix("@") else { return }
        var address = sockaddr_un()
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        address.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(path.utf8)
        // The abstract namespace, unix(7).
        if path.hasPrefix("@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t((MemoryLayout.offset(of: \sockaddr_un.sun_path) ?? 2) + bytes.count)
        #if os(Linux)
            let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #else
            let descriptor = socket(AF_UNIX, SOCK_DGRAM, 0)
        #endif
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let message = Array(text.utf8)
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(descriptor, message, message.count, 0, $0, length)
            }
        }
    }
}
