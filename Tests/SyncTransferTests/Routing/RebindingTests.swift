import Foundation
import SyncModel
import SyncPlugins
import SyncTestKit
import SyncTransfer
import Testing

/// A name that looks public and is not, behind a redirect from a public address. V29
///
/// Needs a machine on which 203.0.113.1 (RFC 5737) is local and `rebind.test` is 127.0.0.1: `Tests/rebinding.sh` makes one
/// in namespaces, and `Tests/run.sh` calls that.
@Suite("Private addresses behind public names", .timeLimit(.minutes(10)))
struct RebindingTests {
    static var isPossible: Bool {
        guard let listener = Listener(address: "203.0.113.1") else { return false }
        close(listener.descriptor)
        var found: UnsafeMutablePointer<addrinfo>?
        defer { freeaddrinfo(found) }
        return getaddrinfo("rebind.test", nil, nil, &found) == 0
    }

    /// Whether there is a name with an address that is reached and never answers.
    static var hasHole: Bool {
        var found: UnsafeMutablePointer<addrinfo>?
        defer { freeaddrinfo(found) }
        return getaddrinfo("six.test", nil, nil, &found) == 0
    }

    /// A socket that listens on an address that can be chosen.
    struct Listener {
        let descriptor: Int32
        let port: UInt16

        init?(address text: String, port wanted: UInt16 = 0) {
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr(text)
            address.sin_port = wanted.bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let descriptor = descriptor
            let isListening = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                    bind(descriptor, raw, length) == 0 && listen(descriptor, 16) == 0
                        && getsockname(descriptor, raw, &length) == 0
                }
            }
            port = UInt16(bigEndian: address.sin_port)
            guard isListening else {
                close(descriptor)
                return nil
            }
        }

        /// Answers as many connections, each with its text, on a thread that nobody waits for.
        ///
        /// - Parameter last: What is done before the last of them is closed.
        func answer(_ texts: [String], last: @escaping @Sendable () -> Void = {}) {
            let descriptor = descriptor
            let thread = Thread {
                for (number, text) in texts.enumerated() {
                    let client = accept(descriptor, nil, nil)
                    var buffer = [UInt8](repeating: 0, count: 4096)
                    _ = recv(client, &buffer, buffer.count, 0)
                    _ = send(client, text, text.utf8.count, Int32(MSG_NOSIGNAL))
                    if number == texts.count - 1 { last() }
                    close(client)
                }
            }
            thread.start()
        }
    }

    @Test(
        "Refused by the connected address, before a request goes out [V29 F024]",
        .enabled(if: isPossible, "203.0.113.1 and rebind.test are not on this machine: Tests/rebinding.sh"))
    func refused() async throws {
        let object = ServedObject.patterned(size: 1_000)
        let inside = try FaultServer()
        inside.serve(object, at: "/secret")
        let outside = try #require(Listener(address: "203.0.113.1"))
        let location = "http://rebind.test:\(inside.port)/secret"
        let leads = "HTTP/1.1 302 Go\r\nLocation: \(location)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        outside.answer(Array(repeating: leads, count: 4))
        let url = "http://203.0.113.1:\(outside.port)/a"
        let bench = try Bench(server: inside)
        let error = try await bench.failure(bench.start(object, from: [url]))
        #expect(error.code == .refusedByPolicy)
        #expect(inside.log.requestCount == 0)

        // A connection that was made for somebody who may use it is not used for somebody who may not.
        try await bench.deliver(object, from: [location])
        #expect(try await bench.failure(bench.start(object, from: [url])).code == .refusedByPolicy)
        #expect(inside.log.requestCount == 1)

        // What a manifest from there names is refused likewise, and so is its own host once it has moved inside.
        let manifest = TransferRequest.Referrer(url: url, isPublic: true)
        let named = bench.start(object, from: [location]) { $0.referrer = manifest }
        #expect(try await bench.failure(named).code == .refusedByPolicy)
        #expect(inside.log.requestCount == 1)

        let trusting = try Bench(server: inside) { $0.redirects.privateTargets = .hosts(["rebind.test"]) }
        try await trusting.deliver(object, from: [url])
    }
    @Test(
        "A public address that breaks off is asked again, also where its name has a private one, too [F024 F004]",
        .enabled(if: isPossible, "203.0.113.1 and rebind.test are not on this machine: Tests/rebinding.sh"))
    func bothAddresses() async throws {
        let outside = try #require(Listener(address: "203.0.113.1"))
        outside.answer(["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"])
        let bench = try Bench()
        let manifest = TransferRequest.Referrer(url: "http://203.0.113.1/manifest.json", isPublic: true)
        let url = "http://both.test:\(outside.port)/a"
        try await bench.deliver(ServedObject(Array("hello".utf8)), from: [url]) { $0.referrer = manifest }
    }

    @Test(
        "A name that moves to another address is asked there, and what has come stays [F047]",
        .enabled(if: isPossible, "203.0.113.1 and rebind.test are not on this machine: Tests/rebinding.sh"))
    func moved() async throws {
        let object = ServedObject(Array("hello".utf8))
        let head = "HTTP/1.1 206 Partial\r\nETag: \"1\"\r\nConnection: close\r\n"
        let first = try #require(Listener(address: "127.0.0.2"))
        let second = try #require(Listener(address: "127.0.0.3", port: first.port))
        let names = try #require(FileManager.default.contents(atPath: "/etc/hosts"))
        // In place: it is mounted there, in a namespace of its own.
        @Sendable func move(to address: String) throws {
            let file = try FileHandle(forWritingTo: URL(fileURLWithPath: "/etc/hosts"))
            try file.truncate(atOffset: 0)
            try file.write(contentsOf: names + Data("\(address) moves.test\n".utf8))
        }
        defer { try? move(to: "127.0.0.1") }
        try move(to: "127.0.0.2")
        // Two bytes; and from then on nobody is there.
        first.answer(["HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhe"]) {
            close(first.descriptor)
            try? move(to: "127.0.0.3")
        }
        second.answer([head + "Content-Range: bytes 2-4/5\r\nContent-Length: 3\r\n\r\nllo"])
        let bench = try Bench()
        try await bench.deliver(object, from: ["http://moves.test:\(first.port)/a"])
    }

    @Test(
        "Where a name has an IPv6 address that answers nothing, the other one is asked before that gives up [F048]",
        .enabled(if: hasHole, "nothing answers at [2001:db8::2] only where Tests/rebinding.sh makes it so"))
    func silentAddress() async throws {
        let object = ServedObject.patterned(size: 1_000)
        let bench = try Bench()
        bench.server.serve(object, at: "/a")
        let start = ContinuousClock.now
        try await bench.deliver(object, from: ["http://six.test:\(bench.server.port)/a"])
        // libcurl waits 200 ms before it tries the next one; the kernel gives up after 3 s.
        #expect(ContinuousClock.now - start < .milliseconds(2_500))
    }
}
