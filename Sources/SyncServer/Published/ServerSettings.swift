package import SyncModel
import SyncSystem

/// Where a server of files listens, who may connect to it, and who is told what it answers.
package struct ServerSettings: Sendable {
    /// An IP address or a name of this host.
    package var address = "127.0.0.1"
    /// 0 for any free port.
    package var port = 0
    /// Most connections at a time; others wait in the kernel's queue.
    package var maximumConnections = 64
    /// Most connections of one address at a time; others are closed at once.
    package var maximumPerAddress = 256
    /// Longest time in which a client accepts nothing of its answer, or does not complete its request.
    package var timeout = Duration.seconds(60)
    /// Called after each answer, on any thread.
    package var log: (@Sendable (AccessRecord) -> Void)?

    package init() {}

    /// Serves until `stop` returns or the task is cancelled.
    ///
    /// A stop closes the port, lets answers in progress end within five seconds and returns.
    /// `listening` receives the port once connections are accepted.
    func serve(
        _ answering: HTTPServer.Answering, listening: @escaping @Sendable (Int) -> Void,
        until stop: @escaping @Sendable () async -> Void
    ) async throws(ServerError) {
        var limits = HTTPServer.Limits(
            maximumConnections: maximumConnections, idleTimeout: timeout, requestTimeout: timeout,
            // A request for a file has no body; one that has is answered anyway.
            bodyLength: 0, stopTimeout: .seconds(5),
            // Each thread may wait for a disk, and delays only its own clients.
            threads: max(4, processorCount))
        limits.maximumPerAddress = maximumPerAddress
        limits.stallTimeout = timeout
        let server = HTTPServer(at: .tcp(address: address, port: port), limits, answering)
        do throws(FileError) { try await server.run(listening: { listening($0 ?? port) }, until: stop) } catch {
            throw ServerError(
                .unavailable,
                "Cannot listen on \(escaped(address)) port \(port): \(error.reason). Choose another with --port or "
                    + "--bind; --port 0 picks a free one.")
        }
    }

    /// The response, which is logged once it has been sent.
    ///
    /// - Parameter sent: Gets the **bytes** of the body that were sent.
    func logging(
        _ response: HTTPResponse, to request: HTTPRequest, since start: ContinuousClock.Instant,
        sent: @escaping @Sendable (UInt64) -> Void
    ) -> HTTPResponse {
        var response = response
        let status = response.status
        let hasBody = !request.isHead && status != 304
        response.whenSent = { [log] bytes, isComplete in
            let bytes = hasBody ? bytes : 0
            sent(bytes)
            log?(AccessRecord(request, status: status, bytes: bytes, isComplete: isComplete, since: start))
        }
        return response
    }
}

/// One answered request, for a log.
package struct AccessRecord: Sendable, Equatable {
    /// The client's address.
    package var client: String
    package var method: String
    /// As received; external text.
    package var target: String
    /// The `Range` header as received; external text.
    package var range: String?
    package var status: Int
    /// Body **bytes** sent; of an answer that was cut off, those that the client has acknowledged.
    package var bytes: UInt64
    /// Whether the whole answer was sent.
    package var isComplete: Bool
    package var duration: Duration

    /// Makes the record of an answer.
    package init(
        _ request: HTTPRequest, status: Int, bytes: UInt64, isComplete: Bool, since start: ContinuousClock.Instant
    ) {
        (client, method, target) = (request.client, request.method, request.target)
        (range, self.status, self.bytes, self.isComplete) = (request.headers[.range], status, bytes, isComplete)
        duration = ContinuousClock.now - start
    }
}

/// Why a server or a cache cannot start.
package struct ServerError: Error, Sendable, Equatable {
    /// The exit status of the process.
    package let status: ExitStatus
    /// One line for people.
    package let message: String

    init(_ status: ExitStatus, _ message: String) { (self.status, self.message) = (status, message) }
}
