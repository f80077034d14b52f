import CPosix

/// The address of a Unix socket: a path or, with a leading `@`, a name in the abstract namespace. unix(7)
package struct UnixAddress {
    private var address = sockaddr_un()
    private let length: socklen_t

    /// Most **bytes** of a path. unix(7)
    package static let longestPath = 107

    /// - Returns: `nil` for a path that is longer than ``longestPath``; a name may have one byte more, `@` included.
    package init?(_ text: String) {
        var bytes = Array(text.utf8)
        if bytes.first == UInt8(ascii: "@") { bytes[0] = 0 } else { bytes.append(0) }
        address.sun_family = sa_family_t(AF_UNIX)
        guard bytes.count <= MemoryLayout.size(ofValue: address.sun_path),
            let start = MemoryLayout.offset(of: \sockaddr_un.sun_path)
        else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        length = socklen_t(start + bytes.count)
    }

    private func withSockaddr<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    /// Connects to the socket. connect(2)
    ///
    /// - Returns: A descriptor; `nil` if nobody listens, and ``Errno/last`` says why.
    package func connected() -> Descriptor? {
        guard let socket = Descriptor(opened: sa_stream_socket(AF_UNIX)),
            withSockaddr({ connect(socket.raw, $0, $1) }) == 0
        else { return nil }
        return socket
    }

    /// Gives the address to a socket. bind(2)
    ///
    /// - Returns: Whether it has it now; if not, ``Errno/last`` says why.
    package func isBound(to socket: Int32) -> Bool { withSockaddr { bind(socket, $0, $1) } == 0 }

    /// Sends one datagram to the socket. sendto(2)
    package func send(_ message: [UInt8]) -> Errno? {
        guard let socket = Descriptor(opened: sa_datagram_socket(AF_UNIX)) else { return .last }
        return withSockaddr { sendto(socket.raw, message, message.count, 0, $0, $1) } < 0 ? .last : nil
    }
}
