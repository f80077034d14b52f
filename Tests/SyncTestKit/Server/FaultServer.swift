import Synchronization

/// A scripted HTTP server on 127.0.0.1 that can do wrong what real servers do wrong, on cue.
///
/// Real sockets, threads of its own, and no chance in it: equal requests get equal answers.
/// ```swift
/// let server = try FaultServer()
/// server.script("/a", .object(file).dropping(at: 1_000), .object(file))
/// // … fetch server.url("/a") …
/// #expect(server.log.bytesSent(to: "/a") == 1_000 + remaining)
/// ```
/// Stops when the last reference goes, or with ``stop()``. HTTP/1.0, HTTP/1.1 (RFC 9112) and HTTP/2 (RFC 9113), in cleartext or
/// over TLS.
public final class FaultServer: Sendable {
    /// The port on 127.0.0.1. It stays the server's own while ``closePort()`` is in force.
    public let port: UInt16

    /// What has been asked and sent.
    public var log: ByteLog { core.log }

    private let core: ServerCore

    /// What holds for every connection of a server.
    public struct Options: Sendable {
        /// TLS, or `nil` for cleartext. HTTP/2 comes by ALPN, in cleartext by prior knowledge (RFC 9113 §3.3).
        public var tls: ServerTLS?
        /// `SETTINGS_MAX_CONCURRENT_STREAMS`; `nil` says nothing.
        public var http2Streams: Int?

        /// Cleartext.
        public init() {}
    }

    /// Starts a server on a free port; every path answers 404 until it is scripted.
    public init(_ options: Options = Options()) throws(TestKitError) {
        core = try ServerCore(options)
        let socket = try Socket.bound(port: 0)
        port = socket.port
        do { try core.listen(on: socket) } catch {
            socket.close()
            throw error
        }
    }

    /// Starts a server that speaks TLS with a certificate.
    public convenience init(tls: ServerTLS) throws(TestKitError) {
        var options = Options()
        options.tls = tls
        try self.init(options)
    }

    deinit { core.stop() }

    private var scheme: String { core.options.tls == nil ? "http" : "https" }

    /// The URL of a path on this server; `path` begins with `/`.
    public func url(_ path: String) -> String { "\(scheme)://127.0.0.1:\(port)\(path)" }

    /// The same path under the name `localhost`: another origin for a client, the same server.
    public func localhostURL(_ path: String) -> String { "\(scheme)://localhost:\(port)\(path)" }

    /// Shows another certificate to coming connections.
    public func changeTLS(_ tls: ServerTLS) throws(TestKitError) { try core.setTLS(tls) }

    // MARK: Script

    /// Serves an object without faults.
    public func serve(_ object: ServedObject, at path: String) { core.script.set(path, answers: [.object(object)]) }

    /// Answers requests to a path in this order, then with the last answer again and again.
    public func script(_ path: String, _ answers: FaultAnswer...) { core.script.set(path, answers: answers) }

    /// Answers requests to a path in this order, then with the last answer again and again.
    public func script(_ path: String, _ answers: [FaultAnswer]) { core.script.set(path, answers: answers) }

    /// Answers requests to a path by a rule. It is called on a thread of the server and must not call ``stop()``.
    public func respond(to path: String, _ rule: @escaping @Sendable (ServedRequest) -> FaultAnswer) {
        core.script.set(path, rule: rule)
    }

    /// Answers requests to paths that have no script of their own.
    public func respondToOthers(_ rule: @escaping @Sendable (ServedRequest) -> FaultAnswer) {
        core.script.setFallback(rule)
    }

    /// Decides about coming connections in this order, then with the last one again and again.
    public func scriptConnections(_ faults: ConnectionFault...) { core.script.setConnections(faults) }

    // MARK: The port

    /// Refuses new connections and breaks the open ones; nobody else gets the port.
    public func closePort() throws(TestKitError) { try core.closePort(port) }

    /// Takes connections again after ``closePort()``.
    public func openPort() throws(TestKitError) { try core.openPort() }

    /// Lets every answer go on that stalls now.
    public func releaseStalls() { core.stalls.wrappingAdd(1, ordering: .sequentiallyConsistent) }

    /// Ends the server and waits for its threads. Open connections break. Harmless a second time.
    public func stop() { core.stop() }
}

extension FaultServer {
    /// A rule for an old copy in a cache: `fresh` only for requests that say `Cache-Control: no-cache`.
    public static func staleCache(_ stale: ServedObject, fresh: ServedObject)
        -> @Sendable (ServedRequest) -> FaultAnswer
    {
        { request in
            let asks = request.header("cache-control")?.contains("no-cache") == true
            return .object(asks ? fresh : stale)
        }
    }
}

/// A port of 127.0.0.1 on which nobody listens and nobody else can, as long as this value lives.
public final class ClosedPort: Sendable {
    /// The port.
    public let port: UInt16
    private let socket: Socket

    /// Takes a free port.
    public init() throws(TestKitError) {
        socket = try Socket.bound(port: 0)
        port = socket.port
    }

    deinit { socket.close() }

    /// The URL of a path there.
    public func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }
}
