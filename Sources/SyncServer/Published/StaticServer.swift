package import SyncModel
import SyncSystem

/// A static file server for a trial or a LAN: ranges, strong validators, conditional requests, many clients.
///
/// It has no TLS, no listings and no users. It serves regular files below one directory, follows no symbolic links and
/// hides names that begin with a dot.
package struct StaticServer: Sendable {
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
    private let tree: ServedTree
    private let load: ServerLoad

    /// Opens the directory.
    ///
    /// - Parameter idle: Called when no answer is in progress any more after many concurrent ones, on any thread.
    package init(directory: String, idle: @escaping @Sendable () -> Void = {}) throws(ServerError) {
        load = ServerLoad(idle: idle)
        tree = try ServedTree(path: directory)
    }

    /// Raises the soft limit on open files up to the hard limit and returns how many connections fit: each needs a
    /// socket and a file, and some descriptors are reserved. getrlimit(2).
    package static func connectionsThatFit() -> Int {
        // More connections than these exceed a trial or a LAN.
        guard let most = CurrentProcess.raiseOpenFileLimit(8_192) else { return 256 }
        return max(16, (most - 64) / 2)
    }

    /// Whether the tree serves a file at `path`, which begins with a slash.
    package func serves(_ path: String) -> Bool { tree.contains(path) }

    /// Serves until `stop` returns or the task is cancelled.
    ///
    /// A stop closes the port, lets answers in progress end within five seconds and returns.
    /// `listening` receives the port once connections are accepted.
    ///
    /// - Throws: ``ServerError``.
    package func run(listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        var limits = HTTPServer.Limits(
            maximumConnections: maximumConnections, idleTimeout: timeout, requestTimeout: timeout,
            // A request for a file has no body; one that has is answered anyway.
            bodyLength: 0, stopTimeout: .seconds(5),
            // Each thread may wait for a disk, and delays only its own clients.
            threads: max(4, processorCount))
        limits.maximumPerAddress = maximumPerAddress
        limits.stallTimeout = timeout
        let server = HTTPServer(at: .tcp(address: address, port: port), limits, .atOnce { respond(to: $0) })
        do throws(FileError) {
            try await server.run(listening: { listening($0 ?? port) }, until: stop)
        } catch { throw ServerError.cannotListen(address: address, port: port, reason: error.reason) }
    }
}

/// GET and HEAD for files of the tree. ``Answer`` decides the answer.
extension StaticServer {
    private func respond(to request: HTTPRequest) -> HTTPResponse {
        let start = ContinuousClock.now
        var response = answer(request)
        load.begin()
        let status = response.status
        let hasBody = !request.isHead && status != 304
        response.whenSent = { [load, log] bytes, isComplete in
            load.end()
            log?(
                AccessRecord(
                    request, status: status, bytes: hasBody ? bytes : 0, isComplete: isComplete, since: start))
        }
        return response
    }

    private func answer(_ request: HTTPRequest) -> HTTPResponse {
        guard request.isHead || request.method == "GET" else {
            return HTTPResponse(status: 405, headers: [.allow: "GET, HEAD"])
        }
        if request.path == "/" {
            let page = Self.indexPage(host: request.headers[.host], hasManifest: tree.contains("/manifest.json"))
            return HTTPResponse(
                status: 200,
                headers: [
                    .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache",
                    .xContentTypeOptions: "nosniff",
                ], body: .bytes(page))
        }
        do throws(Unserved) {
            let path = try RequestPath(request.path)
            let (version, content) = try tree.file(at: path)
            return Self.answer(request, path, version, content)
        } catch {
            switch error {
            case .malformed: return HTTPResponse(status: 400)
            case .notFound: return HTTPResponse(status: 404)
            case .forbidden: return HTTPResponse(status: 403)
            case .unavailable: return HTTPResponse(status: 503, headers: [.retryAfter: "1"])
            }
        }
    }

    private static func answer(
        _ request: HTTPRequest, _ path: RequestPath, _ version: FileVersion, _ content: OpenFile
    ) -> HTTPResponse {
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = HTTPResponse(
            status: answer.status,
            headers: [
                .acceptRanges: "bytes", .cacheControl: path.cacheControl, .eTag: version.entityTag,
                .lastModified: version.modified.description,
            ])
        response.headers[.contentRange] = answer.contentRange
        guard let range = answer.body else {
            // RFC 9110 §8.6: a length in a 304 is that of the 200. No body is sent.
            if answer.status == 304 { response.body = .file(content, 0..<version.size) }
            return response
        }
        response.headers[.contentType] = path.contentType
        response.headers[.xContentTypeOptions] = "nosniff"
        response.body = .file(content, range)
        return response
    }

    /// The page for browsers at `/`: what is served here, and the command to pull it. There is no listing.
    ///
    /// - Parameter host: This server's name in the request; `nil` if it is missing.
    private static func indexPage(host: String?, hasManifest: Bool) -> [UInt8] {
        // Client input: only characters of a host and a port are shown.
        let isHost = host.map { host in
            !host.isEmpty && host.utf8.count < 300
                && host.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-:[]".contains($0)) }
        }
        let url = "http://\(isHost == true ? host ?? "" : "HOST")/manifest.json"
        let body =
            hasManifest
            ? """
            <p>This server has a set of files for syncagent: <a href="/manifest.json">manifest.json</a></p>
            <pre>syncagent pull \(url) --into DIRECTORY</pre>
            """ : "<p>This server has files for syncagent, but no <code>manifest.json</code> at the top level.</p>"
        let page = """
            <!DOCTYPE html>
            <html lang="en">
            <head><meta charset="utf-8"><title>syncagent serve</title></head>
            <body>
            \(body)
            </body>
            </html>

            """
        return Array(page.utf8)
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

/// Counts answers in progress, so that memory is released when many have ended.
final class ServerLoad: Sendable {
    /// Answers in progress, and their maximum since memory was released.
    private let state = Mutex((answers: 0, peak: 0))
    private let idle: @Sendable () -> Void

    /// Number of concurrent answers that leave enough memory behind to be released.
    private static let many = 32

    /// - Parameter idle: Called when no answer is in progress any more after many concurrent ones.
    init(idle: @escaping @Sendable () -> Void) { self.idle = idle }

    /// An answer begins.
    func begin() {
        state.withLock { state in
            state.answers += 1
            state.peak = max(state.peak, state.answers)
        }
    }

    /// An answer has ended.
    func end() {
        let isIdle = state.withLock { state in
            state.answers -= 1
            guard state.answers == 0, state.peak >= Self.many else { return false }
            state.peak = 0
            return true
        }
        if isIdle { idle() }
    }
}

/// Why a server cannot start.
package enum ServerError: Error, Sendable, Equatable {
    /// The directory to serve cannot be opened.
    case cannotOpen(directory: String, reason: String)
    /// The address cannot be listened on.
    case cannotListen(address: String, port: Int, reason: String)

    /// The exit status of the process.
    package var status: ExitStatus {
        switch self {
        case .cannotOpen: .noInput
        case .cannotListen: .unavailable
        }
    }

    /// One line for people.
    package var message: String {
        switch self {
        case .cannotOpen(let directory, let reason): "Cannot serve \(escaped(directory)): \(reason)."
        case .cannotListen(let address, let port, let reason):
            "Cannot listen on \(escaped(address)) port \(port): \(reason). Choose another with --port or --bind; "
                + "--port 0 picks a free one."
        }
    }
}
