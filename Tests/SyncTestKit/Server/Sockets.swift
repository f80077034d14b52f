import CPosix
import Glibc
import SyncSystem

/// A call to the system failed while a test server was set up.
public struct TestKitError: Error, Sendable, CustomStringConvertible {
    /// What failed and why, one line.
    public let description: String

    /// Makes an error with one line for people.
    public init(_ description: String) { self.description = description }

    /// The error behind `errno`, for the call named `function`.
    static func system(_ function: String) -> TestKitError { TestKitError("\(function): \(errnoText)") }
}

/// A TCP socket on the loopback interface, closed exactly once by whoever holds it.
///
/// Only numbers live here; reading and writing happen on the thread of one connection.
struct Socket: Sendable {
    let descriptor: Int32

    /// Makes a socket bound to 127.0.0.1, not yet listening: connections to it are refused.
    /// Port 0 lets the system choose a free one. `ip(7)`
    static func bound(port: UInt16) throws(TestKitError) -> Socket {
        let made = sa_stream_socket(AF_INET)
        guard made >= 0 else { throw .system("socket") }
        let result = Socket(descriptor: made)
        result.set(SOL_SOCKET, SO_REUSEADDR, 1)
        let status = withLoopback(port) { bind(made, $0, $1) }
        guard status == 0 else {
            let error = TestKitError.system("bind to 127.0.0.1:\(port)")
            result.close()
            throw error
        }
        return result
    }

    /// Whether something takes connections on a port of 127.0.0.1.
    static func canConnect(to port: UInt16) -> Bool {
        let made = sa_stream_socket(AF_INET)
        guard made >= 0 else { return false }
        let probe = Socket(descriptor: made)
        defer { probe.close() }
        return withLoopback(port) { connect(made, $0, $1) } == 0
    }

    /// The port the socket is bound to; 0 if the system does not say.
    var port: UInt16 {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return status == 0 ? UInt16(bigEndian: address.sin_port) : 0
    }

    /// Starts to take connections. `listen(2)`
    func startListening() throws(TestKitError) { guard listen(descriptor, 128) == 0 else { throw .system("listen") } }

    /// Waits for the next connection; `nil` when the socket was shut down.
    func nextConnection() -> Socket? {
        while true {
            let made = accept(descriptor, nil, nil)
            if made >= 0 {
                // A program that a test starts must not keep the connection open.
                sa_set_close_on_exec(made)
                return Socket(descriptor: made)
            }
            guard [.interrupted, Errno(rawValue: ECONNABORTED)].contains(Errno.last) else { return nil }
        }
    }

    /// Reads what is there, at most `buffer.count` **bytes**; 0 at the end, `nil` on an error.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        let count = retryingOnInterrupt { recv(descriptor, buffer.baseAddress, buffer.count, 0) }
        return count < 0 ? nil : count
    }

    /// Writes some of the bytes; `nil` when the peer is gone.
    func write(_ buffer: UnsafeRawBufferPointer) -> Int? {
        let count = retryingOnInterrupt { sa_send_quietly(descriptor, buffer.baseAddress, buffer.count) }
        return count < 0 ? nil : count
    }

    /// Waits until there is something to read, at most `milliseconds`.
    func waitReadable(milliseconds: Int32) -> Bool {
        var entries = [PollEntry(descriptor)]
        return waitForAny(of: &entries, atMost: milliseconds)
    }

    /// Whether the peer has closed its end, or the connection is broken. Reads nothing.
    var isAbandoned: Bool {
        switch peek(descriptor) {
        case .bytes, .nothing: false
        case .ended, .failed: true
        }
    }

    /// Sends small answers at once. `tcp(7)`
    func sendWithoutDelay() { set(Int32(IPPROTO_TCP), TCP_NODELAY, 1) }

    /// Wakes whoever blocks in this socket, and ends the connection with FIN. `shutdown(2)`
    func endBothWays() { shutDown(descriptor) }

    /// Says "no more bytes" with FIN and still reads. `shutdown(2)`
    func endWriting() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Makes the coming ``close()`` send RST. `socket(7)`, SO_LINGER
    func resetOnClose() {
        var option = linger(l_onoff: 1, l_linger: 0)
        _ = setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Whether ``resetOnClose()`` has been called.
    private var willReset: Bool {
        var option = linger()
        var length = socklen_t(MemoryLayout<linger>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, &length) == 0 && option.l_onoff != 0
    }

    /// Ends with FIN and reads on until the peer ends too, so that what it sent meanwhile does not turn the
    /// end into RST, which would destroy bytes under way (RFC 9112 §9.6). A reset that was asked for stays one.
    func closeGently(while goesOn: () -> Bool) {
        guard !willReset else { return }
        endWriting()
        let limit = ContinuousClock.now + .seconds(1)
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { buffer in
            while goesOn(), ContinuousClock.now < limit {
                guard waitReadable(milliseconds: 5) else { continue }
                guard let count = read(into: buffer), count > 0 else { return }
            }
        }
    }

    /// **Bytes** that the peer's system has not acknowledged yet; 0 where the system does not say.
    var unacknowledged: Int32 { sa_unacknowledged(descriptor) }

    /// Gives the descriptor back. Call once.
    func close() { _ = CPosix.close(descriptor) }

    private func set(_ level: Int32, _ name: Int32, _ value: Int32) {
        var value = value
        _ = setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}

/// Calls `body` with the address of a port of 127.0.0.1.
private func withLoopback(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
}

/// Whether this process may do anything; some servers then want to be told whose rights to keep.
var isSuperuser: Bool { CurrentProcess.user == 0 }
