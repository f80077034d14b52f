import Glibc

/// A client that sends bytes and reports exactly what comes back, and how it ends.
final class RawClient {
    enum End: Equatable { case fin, reset, quiet }

    private let descriptor: Int32

    /// Connects, or is `nil` when the port refuses.
    init?(port: UInt16) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if status != 0 { return nil }
    }

    deinit { close(descriptor) }

    func send(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count <= 0 { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads until the end, or until nothing comes for `quiet` **milliseconds**.
    func readToEnd(quiet: Int32 = 5_000) -> (bytes: [UInt8], end: End) {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, quiet) > 0 else { return (bytes, .quiet) }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count == 0 { return (bytes, .fin) }
            if count < 0 { return (bytes, .reset) }
            bytes += buffer[..<count]
        }
    }
}

/// One answer, taken apart.
struct RawAnswer {
    let status: Int
    let headers: [(name: String, value: String)]
    let body: [UInt8]
    let end: RawClient.End

    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// Sends one request on a connection of its own that ends with the answer.
    init?(port: UInt16, _ target: String, _ headers: [String] = [], method: String = "GET", quiet: Int32 = 5_000) {
        guard let client = RawClient(port: port) else { return nil }
        let lines = ["\(method) \(target) HTTP/1.1", "Host: 127.0.0.1", "Connection: close"] + headers
        client.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
        let (bytes, end) = client.readToEnd(quiet: quiet)
        self.end = end
        guard let split = (0..<max(0, bytes.count - 3)).first(where: { bytes[$0..<($0 + 4)] == [13, 10, 13, 10] })
        else {
            (status, self.headers, body) = (0, [], bytes);
            return
        }
        let lines2 = String(decoding: bytes[..<split], as: UTF8.self).split(separator: "\r\n")
        status = lines2.first.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
        self.headers = lines2.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return (parts[0].lowercased(), String(parts.last?.drop { $0 == " " } ?? ""))
        }
        body = Array(bytes[(split + 4)...])
    }
}
