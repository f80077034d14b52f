import Foundation

/// One request on a connection of its own, with nothing added and nothing made tidy.
package struct HTTPClient: Sendable {
    package let port: UInt16

    package init(port: UInt16) { self.port = port }

    /// What came back.
    package struct Answer: Sendable {
        package var status = 0
        /// Names in lower case.
        package var headers: [String: String] = [:]
        package var body: [UInt8] = []
    }

    package struct Failure: Error {
        package let step: String

        package init(step: String) { self.step = step }
    }

    /// Sends the request and reads until the server closes.
    package func send(_ method: String = "GET", _ target: String, _ headers: [String: String] = [:]) throws -> Answer {
        let connection = try open(method, target, headers)
        defer { close(connection) }
        return try Self.parse(try Self.readAll(connection))
    }

    /// Sends the request and leaves the answer in the socket.
    package func open(_ method: String = "GET", _ target: String, _ headers: [String: String] = [:]) throws -> Int32 {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            close(connection)
            throw Failure(step: "connect: \(String(cString: strerror(errno)))")
        }
        var text = "\(method) \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        for (name, value) in headers { text += "\(name): \(value)\r\n" }
        text += "\r\n"
        let bytes = Array(text.utf8)
        guard write(connection, bytes, bytes.count) == bytes.count else { throw Failure(step: "write") }
        return connection
    }

    package static func readAll(_ connection: Int32) throws -> [UInt8] {
        var result: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = read(connection, &buffer, buffer.count)
            if count == 0 { return result }
            guard count > 0 else { throw Failure(step: "read: \(String(cString: strerror(errno)))") }
            result += buffer[..<count]
        }
    }

    package static func parse(_ bytes: [UInt8]) throws -> Answer {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { throw Failure(step: "head") }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        guard let status = lines.first?.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
            throw Failure(step: "status line")
        }
        var answer = Answer(status: status, body: Array(bytes[end.upperBound...]))
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { throw Failure(step: "header \(line)") }
            answer.headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        return answer
    }
}
