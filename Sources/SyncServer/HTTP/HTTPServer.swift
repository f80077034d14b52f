import CMicroHTTPD
package import SyncSystem

/// An HTTP/1.1 server on a TCP port or a Unix socket: libmicrohttpd reads requests and sends answers, this module
/// decides who may connect, for how long, and what is answered.
///
/// 1. A separate thread accepts connections, passes them to libmicrohttpd's threads, and watches every deadline
///    (``ConnectionWatch``).
/// 2. A request that a client has begun must be complete in time, even if single bytes keep coming
/// (``ConnectionTable``). 3. Answers are bytes, a range of a file, which the kernel sends by itself (sendfile(2)), or a
/// stream
///    (``BodyStream``). While a task computes one, or a stream is empty, the connection is suspended.
package struct HTTPServer: Sendable {
    /// The address to listen on.
    package enum Address: Sendable {
        /// An IP address or a name of this host; port 0 for any free port.
        case tcp(address: String, port: Int)
        /// A path without a file; the caller removes the socket.
        case unix(path: String)
    }

    /// How requests become answers.
    package enum Answering: Sendable {
        /// On one of the server's threads: may wait for a disk, but for nothing else.
        case atOnce(@Sendable (HTTPRequest) -> HTTPResponse)
        /// In a task; the connection is suspended meanwhile.
        case later(@Sendable (HTTPRequest) async -> HTTPResponse)
    }

    /// Who may connect, and for how long.
    package struct Limits: Sendable {
        /// Most connections at a time; others wait in the kernel's queue.
        package var maximumConnections: Int
        /// Most connections of one address at a time; others are closed at once. `nil` for no limit.
        package var maximumPerAddress: Int?
        /// Whether the connection that has waited longest for its client is closed to stay within the limit.
        package var makesRoom = false
        /// A connection without a request is closed after this time; the next request on a connection must have its
        /// head within it.
        package var idleTimeout: Duration
        /// Longest time from the first byte of a request to its last.
        package var requestTimeout: Duration
        /// Longest time for an answer that is not a stream; `nil` for no limit.
        package var answerTimeout: Duration?
        /// Longest time in which a client accepts nothing of its answer, in whole **seconds**. `nil` for no limit.
        package var stallTimeout: Duration?
        /// Most **bytes** of a request's body.
        package var bodyLength: Int
        /// Longest time for answers in progress after a stop.
        package var stopTimeout: Duration
        /// Threads that read, answer and write.
        package var threads: Int

        package init(
            maximumConnections: Int, idleTimeout: Duration, requestTimeout: Duration, bodyLength: Int,
            stopTimeout: Duration, threads: Int
        ) {
            self.maximumConnections = maximumConnections
            self.idleTimeout = idleTimeout
            self.requestTimeout = requestTimeout
            self.bodyLength = bodyLength
            self.stopTimeout = stopTimeout
            self.threads = threads
        }
    }

    private let address: Address
    private let limits: Limits
    private let answering: Answering

    package init(at address: Address, _ limits: Limits, _ answering: Answering) {
        self.address = address
        self.limits = limits
        self.answering = answering
    }

    /// Serves until `stop` returns or the task is cancelled; then accepts no connections, lets answers in progress end
    /// within ``Limits/stopTimeout``, and returns when every thread has ended.
    ///
    /// - Parameters:
    ///   - listening: Called once, with the port of a TCP server, when connections are accepted.
    ///   - stop: Returns when the server must stop.
    /// - Throws: ``/SyncSystem/FileError`` if it cannot start.
    package func run(
        listening: @Sendable (_ port: Int?) async -> Void, until stop: @escaping @Sendable () async -> Void
    ) async throws(FileError) {
        // The work for tasks.
        let (works, start) = AsyncStream.makeStream(of: (@Sendable () async -> Void).self)
        let watch = try ConnectionWatch(address, limits, answering) { start.yield($0) }
        try watch.start()
        await listening(watch.port)
        await withDiscardingTaskGroup { group in
            group.addTask {
                await stop()
                start.yield {
                    await watch.stop()
                    start.finish()
                }
            }
            // Also ends when the task is cancelled.
            for await work in works { group.addTask { await work() } }
            await watch.stop()
            group.cancelAll()
        }
    }
}
