import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Who is at the other end of a connection, as the kernel says: `struct ucred`, unix(7), SO_PEERCRED.
struct PeerCredentials: Sendable {
    var process: Int32 = 0
    var user: UInt32 = .max
    var group: UInt32 = .max

    /// Whether this user's agent answers: to the same user and to root.
    func mayAsk(agentOf user: UInt32) -> Bool { self.user == user || self.user == 0 }

    /// Asks the kernel; `nil` where the channel is no socket or the kernel does not say.
    static func of(_ channel: any Channel) async -> PeerCredentials? {
        guard let socket = channel as? any SocketOptionProvider else { return nil }
        #if os(Linux)
            let answer: EventLoopFuture<PeerCredentials> = socket.unsafeGetSocketOption(
                level: .socket,
                name: NIOBSDSocket.Option(rawValue: SO_PEERCRED)
            )
            // A connection that has just been closed has nobody at its end.
            return try? await answer.get()
        #else
            return nil
        #endif
    }
}
