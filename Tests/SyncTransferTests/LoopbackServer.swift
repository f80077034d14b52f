import Glibc
import Synchronization

/// One request as the server read it.
struct ServedRequest: Sendable {
    let path: String
    /// Lower-case names.
    let headers: [String: String]

    /// The two numbers of `Range: bytes=a-b`; `nil` for an open end.
    var range: (first: Int, last: Int?)? {
        guard let text = headers["range"], text.hasPrefix("bytes=") else { return nil }
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int(ends[0]) else { return nil }
        return (first, Int(ends[1]))
    }
}

/// One accepted connection; what a handler answers with.
final class ServedConnection: Sendable {
    let descriptor: Int32
    private let isOpen = Mutex(true)
    init(descriptor: Int32) { self.descriptor = descriptor }

    func write(_ text: String) { write(Array(text.utf8)) }

    func write(_ bytes: some Sequence<UInt8>) {
        let all = Array(bytes)
        var sent = 0
        while sent < all.count {
            let count = all[sent...].withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// Ends with FIN.
    func close() {
        isOpen.withLock { if $0 { shutdown(descriptor, Int32(SHUT_RDWR)); $0 = false } }
    }

    /// Ends with RST.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        isOpen.withLock { $0 = false }
    }

    fileprivate var isAlive: Bool { isOpen.withLock { $0 } }

    /// Sends `body[range]` with the headers that fit.
    func answer(_ body: [UInt8], to request: ServedRequest, headers: String = "") {
        guard let range = request.range else {
            write("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\(headers)\r\n")
            return write(body)
        }
        guard range.first < body.count else {
            return write("HTTP/1.1 416 No\r\nContent-Range: bytes */\(body.count)\r\nContent-Length: 0\r\n\r\n")
        }
        let last = min(range.last ?? body.count - 1, body.count - 1)
        let told = "Content-Range: bytes \(range.first)-\(last)/\(body.count)\r\nContent-Length: \(last - range.first + 1)"
        write("HTTP/1.1 206 Partial\r\n\(told)\r\n\(headers)\r\n")
        write(body[range.first...last])
    }
}

/// A server of a few lines on 127.0.0.1: one thread a connection, a closure for the answers.
final class LoopbackServer: Sendable {
    typealias Handler = @Sendable (ServedRequest, ServedConnection, Int) -> Void

    let port: UInt16
    private let listener: Int32
    private let log = Mutex<[ServedRequest]>([])
    private let peak = Mutex<(open: Int, most: Int)>((0, 0))

    /// - Parameter handler: Gets the request, the connection and the number of the request, from 1.
    init(_ handler: @escaping Handler) throws {
        signal(SIGPIPE, SIG_IGN)
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(socket, raw, length) == 0 && listen(socket, 256) == 0
                    && getsockname(socket, raw, &length) == 0
            }
        }
        guard bound else { throw ServerError() }
        listener = socket
        port = UInt16(bigEndian: address.sin_port)
        startThread { [self] in
            while true {
                let descriptor = accept(socket, nil, nil)
                guard descriptor >= 0 else { return }
                startThread { self.serve(descriptor, handler) }
            }
        }
    }

    struct ServerError: Error {}

    func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    var requests: [ServedRequest] { log.withLock { $0 } }
    /// Most connections that were open at a time.
    var mostConnections: Int { peak.withLock { $0.most } }

    func stop() { shutdown(listener, Int32(SHUT_RDWR)); close(listener) }

    private func serve(_ descriptor: Int32, _ handler: Handler) {
        peak.withLock { $0.open += 1; $0.most = max($0.most, $0.open) }
        let connection = ServedConnection(descriptor: descriptor)
        var buffer: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while connection.isAlive {
            while let end = headEnd(buffer) {
                let request = parse(buffer[..<end])
                buffer.removeFirst(end)
                let number = log.withLock { $0.append(request); return $0.count }
                handler(request, connection, number)
            }
            guard connection.isAlive else { break }
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { break }
            buffer += chunk[..<count]
        }
        close(descriptor)
        peak.withLock { $0.open -= 1 }
    }

    private func headEnd(_ buffer: [UInt8]) -> Int? {
        guard buffer.count >= 4 else { return nil }
        return (4...buffer.count).first { Array(buffer[($0 - 4)..<$0]) == [13, 10, 13, 10] }
    }

    private func parse(_ head: ArraySlice<UInt8>) -> ServedRequest {
        let lines = String(decoding: head, as: UTF8.self).split(separator: "\r\n").map(String.init)
        let words = (lines.first ?? "").split(separator: " ")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        return ServedRequest(path: words.count > 1 ? String(words[1]) : "", headers: headers)
    }
}

private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

func startThread(_ run: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    let body = Unmanaged.passRetained(Body(run))
    pthread_create(&thread, nil, { Unmanaged<Body>.fromOpaque($0!).takeRetainedValue().run(); return nil }, body.toOpaque())
    pthread_detach(thread)
}
