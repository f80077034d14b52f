import CMicroHTTPD
import CPosix
import SyncSystem

/// A socket that accepts connections, closed exactly once.
struct ListeningSocket: ~Copyable {
    let raw: Int32
    /// The port; `nil` on a Unix socket.
    let port: Int?

    deinit { close(raw) }
}

extension ListeningSocket {
    /// Binds and listens. bind(2), listen(2).
    init(_ address: HTTPServer.Address) throws(HTTPServerError) {
        switch address {
        case .tcp(let host, let port): self = try Self.tcp(host, port)
        case .unix(let path): self = try Self.unix(path)
        }
    }

    private static func tcp(_ address: String, _ port: Int) throws(HTTPServerError) -> ListeningSocket {
        var hints = sa_http_hints()
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(address, String(port), &hints, &list)
        guard code == 0 else { throw HTTPServerError(reason: String(cString: gai_strerror(code))) }
        defer { freeaddrinfo(list) }
        var reason = "it has no address"
        var next = list
        while let candidate = next?.pointee {
            next = candidate.ai_next
            let raw = sa_http_socket(candidate.ai_family)
            guard raw >= 0 else {
                reason = errnoText
                continue
            }
            var yes: Int32 = 1
            // Without it a server could not be started again for a minute. socket(7), SO_REUSEADDR.
            setsockopt(raw, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
            if bind(raw, candidate.ai_addr, candidate.ai_addrlen) == 0, listen(raw, SOMAXCONN) == 0 {
                return ListeningSocket(raw: raw, port: boundPort(raw) ?? port)
            }
            reason = errnoText
            close(raw)
        }
        throw HTTPServerError(reason: reason)
    }

    private static func unix(_ path: String) throws(HTTPServerError) -> ListeningSocket {
        guard let address = UnixAddress(path) else { throw HTTPServerError(reason: "\(Errno.fileNameTooLong)") }
        let raw = sa_http_socket(AF_UNIX)
        guard raw >= 0 else { throw HTTPServerError(reason: errnoText) }
        guard address.withSockaddr({ bind(raw, $0, $1) }) == 0, listen(raw, SOMAXCONN) == 0 else {
            let reason = errnoText
            close(raw)
            throw HTTPServerError(reason: reason)
        }
        return ListeningSocket(raw: raw, port: nil)
    }

    private static func boundPort(_ raw: Int32) -> Int? { SocketAddress.filled { getsockname(raw, $0, $1) == 0 }?.port }
}

/// The address of one end of a connection.
struct SocketAddress {
    private(set) var storage = sockaddr_storage()
    private(set) var length = socklen_t(MemoryLayout<sockaddr_storage>.size)

    /// The address that a system call tells; `nil` when the call fails.
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
