import CPosix

/// Tells when this machine's addresses or routes change, so that unreachable hosts are tried again at once.
///
/// `rtnetlink(7)`. Where the kernel or a container forbids it, no change is ever seen.
final class NetworkChanges {
    /// To be polled for reading; `nil` if unavailable.
    let descriptor: Int32?

    init() {
        let opened = sa_route_socket()
        guard opened >= 0 else {
            descriptor = nil
            return
        }
        // struct sockaddr_nl: family, padding, port 0 for "choose one", groups.
        var address = NetlinkAddress(family: UInt16(AF_NETLINK), padding: 0, port: 0, groups: Self.groups)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(opened, raw, socklen_t(MemoryLayout<NetlinkAddress>.size)) == 0
            }
        }
        guard bound else {
            close(opened)
            descriptor = nil
            return
        }
        descriptor = opened
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

    private struct NetlinkAddress {
        var family: UInt16
        var padding: UInt16
        var port: UInt32
        var groups: UInt32
    }

    /// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE: linux/rtnetlink.h.
    private static let groups: UInt32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400
}
