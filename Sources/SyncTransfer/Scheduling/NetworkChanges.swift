import CPosix

/// Detects changes of this machine's addresses or routes, so that unreachable hosts are tried again at once.
///
/// `rtnetlink(7)`. Where the kernel or a container forbids it, no change is ever seen.
final class NetworkChanges {
    /// To be polled for reading; `nil` if unavailable.
    let descriptor: Int32?

    init() {
        let opened = sa_route_socket()
        descriptor = opened >= 0 ? opened : nil
    }

    deinit { if let descriptor { close(descriptor) } }

    /// Drains the socket, whatever the content; returns whether there was any.
    func takeChange() -> Bool {
        guard let descriptor else { return false }
        var changed = false
        withUnsafeTemporaryAllocation(byteCount: 8192, alignment: 8) { buffer in
            while recv(descriptor, buffer.baseAddress, buffer.count, 0) > 0 { changed = true }
        }
        return changed
    }
}
