import CMicroHTTPD
import CPosix
import SyncSystem

/// Binds and listens. bind(2), listen(2)
///
/// - Returns: The socket, and its port; `nil` on a Unix socket.
func listeningSocket(at address: HTTPServer.Address) throws(FileError) -> (socket: SharedDescriptor, port: Int?) {
    switch address {
    case .tcp(let host, let port): try listeningSocket(host, port)
    case .unix(let path): (try listeningSocket(path), nil)
    }
}

private func listeningSocket(_ host: String, _ port: Int) throws(FileError) -> (socket: SharedDescriptor, port: Int?) {
    var hints = sa_http_hints()
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &list)
    var failure = FileError(
        step: "listen on", path: "\(host) port \(port)",
        remark: code == 0 ? "it has no address" : String(cString: gai_strerror(code)))
    guard code == 0 else { throw failure }
    defer { freeaddrinfo(list) }
    var next = list
    while let candidate = next?.pointee {
        next = candidate.ai_next
        if let socket = SharedDescriptor(Descriptor(opened: sa_http_socket(candidate.ai_family))) {
            var yes: Int32 = 1
            // Otherwise a server could not be restarted for a minute. socket(7), SO_REUSEADDR.
            setsockopt(socket.raw, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            if bind(socket.raw, candidate.ai_addr, candidate.ai_addrlen) == 0, listen(socket.raw, SOMAXCONN) == 0 {
                return (socket, SocketAddress.filled { getsockname(socket.raw, $0, $1) == 0 }?.port ?? port)
            }
        }
        failure = .last(failure.step, failure.path)
    }
    throw failure
}

private func listeningSocket(_ path: String) throws(FileError) -> SharedDescriptor {
    guard let address = UnixAddress(path) else {
        throw FileError(step: "listen on", path: path, code: .fileNameTooLong)
    }
    guard let socket = SharedDescriptor(Descriptor(opened: sa_http_socket(AF_UNIX))),
        address.isBound(to: socket.raw), listen(socket.raw, SOMAXCONN) == 0
    else { throw .last("listen on", path) }
    return socket
}

/// The address of one end of a connection.
struct SocketAddress {
    private(set) var storage = sockaddr_storage()
    private(set) var length = socklen_t(MemoryLayout<sockaddr_storage>.size)

    /// The address from a system call; `nil` if the call fails.
    static func filled(by call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool)
        -> SocketAddress?
    {
        var address = SocketAddress()
        let isFilled = withUnsafeMutablePointer(to: &address.storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { call($0, &address.length) }
        }
        return isFilled ? address : nil
    }

    func withSockaddr<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        withUnsafePointer(to: storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    var port: Int? { name(NI_NUMERICSERV, wantsHost: false).flatMap { Int($0) } }

    /// The IP address as text; `nil` for a Unix socket's.
    var host: String? { name(NI_NUMERICHOST, wantsHost: true) }

    private func name(_ flags: Int32, wantsHost: Bool) -> String? {
        guard [AF_INET, AF_INET6].contains(Int32(storage.ss_family)) else { return nil }
        var text = [CChar](repeating: 0, count: 128)
        let size = socklen_t(text.count)
        let code = withSockaddr { address, length in
            wantsHost
                ? getnameinfo(address, length, &text, size, nil, 0, flags)
                : getnameinfo(address, length, nil, 0, &text, size, flags)
        }
        guard code == 0 else { return nil }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
