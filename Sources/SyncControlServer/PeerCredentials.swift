/// Who is at the other end of a connection, as the kernel says.
struct PeerCredentials: Sendable {
    /// `UInt32.max` where the kernel does not say.
    var user: UInt32 = .max

    /// Whether this user's agent answers: to the same user and to root.
    func mayAsk(agentOf user: UInt32) -> Bool { self.user != .max && (self.user == user || self.user == 0) }
}
