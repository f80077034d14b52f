package import CPosix

/// The user behind the other end of a connected Unix socket, as the kernel says: `SO_PEERCRED` of unix(7), or
/// getpeereid(3).
///
/// For a client that is whoever has called listen(2): the name of a socket proves nothing.
///
/// - Returns: `nil` when the kernel does not say.
package func peerUser(of socket: Int32) -> uid_t? {
    var user = uid_t.max
    return sa_peer_user(socket, &user) == 0 ? user : nil
}
