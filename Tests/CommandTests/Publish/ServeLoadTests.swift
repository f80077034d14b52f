import CommandTestSupport
import Foundation
import Glibc
import Testing

/// Clients that ask and do not read.
@Suite("Serving slow readers", .serialized, .timeLimit(.minutes(10)))
struct ServeLoadTests {
    private func memory(_ server: RunningServer, _ field: String) throws -> Int {
        let path = "/proc/\(server.process.processIdentifier)/status"
        let line = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").first {
            $0.hasPrefix(field + ":")
        }
        return try #require(line.flatMap { Int($0.filter(\.isNumber)) }) >> 10
    }

    /// A connection that has asked for a file, from one of many addresses of this machine; -1 where it was refused.
    private func ask(_ port: UInt16, from host: UInt8, _ request: String) -> Int32 {
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var size: Int32 = 4_096
        setsockopt(client, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        func address(_ last: UInt8, _ port: UInt16) -> sockaddr_in {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = (UInt32(127) << 24 | UInt32(last)).bigEndian
            return address
        }
        func call(_ to: sockaddr_in, _ body: (UnsafePointer<sockaddr>) -> Int32) -> Int32 {
            var to = to
            return withUnsafePointer(to: &to) { $0.withMemoryRebound(to: sockaddr.self, capacity: 1, body) }
        }
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        guard call(address(host, 0), { bind(client, $0, length) }) == 0,
            call(address(1, port), { connect(client, $0, length) }) == 0
        else {
            close(client)
            return -1
        }
        _ = Array(request.utf8).withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        return client
    }

    private static let get = "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"

    private func site() throws -> Scratch {
        let scratch = try Scratch()
        let file = try scratch.write(Data("{}".utf8), to: "site/big").path
        #expect(truncate(file, 64 << 20) == 0)
        return scratch
    }

    @Test("A thousand clients that do not read take a bounded piece of memory, and it comes back when they are let go")
    func slowReaders() throws {
        let scratch = try site()
        defer { withExtendedLifetime(scratch) {} }
        let server = try RunningServer(scratch, arguments: ["--timeout", "4s"])
        let clients = (0..<1_000).map { ask(server.client.port, from: UInt8(1 + $0 % 8), Self.get) }
        defer { for client in clients where client >= 0 { close(client) } }
        usleep(2_500_000)
        let other = try server.client.send("GET", "/big", ["Range": "bytes=0-9"])
        #expect(other.status == 206, "\(other)")
        for _ in 0..<200 where try memory(server, "VmRSS") > 80 { usleep(100_000) }
        #expect(try memory(server, "VmHWM") < 150)
        #expect(try memory(server, "VmRSS") <= 80)
    }

    @Test("An address has so many connections, the server so many, and who does not send its request is let go")
    func caps() throws {
        let scratch = try site()
        let server = try RunningServer(scratch, arguments: ["--max-per-address", "3", "--timeout", "1s"])
        var byte: UInt8 = 0
        let slow = (0..<4).map { _ in ask(server.client.port, from: 9, "GET /big HT") }
        defer { for client in slow where client >= 0 { close(client) } }
        // The fourth is closed at once, the others when their time is over.
        #expect(recv(slow[3], &byte, 1, 0) <= 0)
        let start = ContinuousClock.now
        for client in slow.prefix(3) { #expect(recv(client, &byte, 1, 0) <= 0) }
        #expect(.now - start < .seconds(5))
        let refused = try Tool(scratch).run(["serve", "site", "--max-connections", "0"])
        #expect(refused.status == 64 && refused.error.contains("--max-connections takes at least 1"))
    }
}
