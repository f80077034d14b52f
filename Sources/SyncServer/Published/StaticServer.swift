package import SyncModel
import SyncSystem

/// A static file server for a trial or a LAN: ranges, strong validators, conditional requests, many clients.
///
/// It has no TLS, no listing and no users. It serves regular files below one directory, follows no symbolic link
/// and hides names that begin with a dot.
package struct StaticServer: Sendable {
    /// An IP address or a name of this host.
    package var address = "127.0.0.1"
    /// 0 for any that is free.
    package var port = 0
    /// Most connections at a time; others wait in the kernel's queue.
    package var maximumConnections = 64
    /// Most connections of one address at a time; others are closed at once.
    package var maximumPerAddress = 256
    /// A client that takes nothing of its answer for so long, or does not send its request in so long, is let go.
    package var timeout = Duration.seconds(60)
    /// Told after each answer, from any thread.
    package var log: (@Sendable (AccessRecord) -> Void)?
    private let tree: ServedTree
    private let load: ServerLoad

    /// Opens the directory.
    ///
    /// - Parameter idle: Called when nothing is answered any more after many answers at a time, from any thread.
    package init(directory: String, idle: @escaping @Sendable () -> Void = {}) throws(ServerError) {
        load = ServerLoad(idle: idle)
        tree = try ServedTree(path: directory)
    }

    /// Raises the soft limit on open files towards the hard one and says how many connections fit: each needs a socket and a
    /// file, and some descriptors are for the rest. getrlimit(2).
    package static func connectionsThatFit() -> Int {
        // More connections than these are no trial and no LAN.
        guard let most = CurrentProcess.raiseOpenFileLimit(8_192) else { return 256 }
        return max(16, (most - 64) / 2)
    }

    /// Whether the tree has a file that is served at `path`, which begins with a slash.
    package func serves(_ path: String) -> Bool { tree.contains(path) }

    /// Serves until `stop` returns or the task is cancelled.
    ///
    /// A stop closes the port, lets answers under way end within five seconds and returns.
    /// `listening` is told the port once it accepts connections.
    ///
    /// - Throws: ``ServerError``.
    package func run(listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws
    {
        var limits = HTTPServer.Limits(
            maximumConnections: maximumConnections, idleTimeout: timeout, requestTimeout: timeout,
            // A request for a file has none; one that has is answered all the same.
            bodyLength: 0, stopTimeout: .seconds(5),
            // Each may wait for a disk; a client waits only for those that its thread has.
            threads: max(4, processorCount))
        limits.maximumPerAddress = maximumPerAddress
        limits.stallTimeout = timeout
        let server = HTTPServer(at: .tcp(address: address, port: port), limits, .atOnce { respond(to: $0) })
        do throws(FileError) {
            try await server.run(listening: { listening($0 ?? port) }, until: stop)
        } catch { throw ServerError.cannotListen(address: address, port: port, reason: error.reason) }
    }
}

/// GET and HEAD for files of the tree. What is answered is decided in ``Answer``.
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
            // RFC 9110 §8.6: where a 304 says a length, it is that of 200. No body goes out.
            if answer.status == 304 { response.body = .file(content, 0..<version.size) }
            return response
        }
        response.headers[.contentType] = path.contentType
        response.headers[.xContentTypeOptions] = "nosniff"
        response.body = .file(content, range)
        return response
    }

    /// What a browser is shown at `/`: what is served here, and the command that brings it. There is no listing.
    ///
    /// - Parameter host: As the request names this server; `nil` where it does not.
    private static func indexPage(host: String?, hasManifest: Bool) -> [UInt8] {
        // The client's own word: only what can stand in a host and a port is shown.
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
    /// As it came; foreign text.
    package var target: String
    /// The `Range` header as it came; foreign text.
    package var range: String?
    package var status: Int
    /// Body **bytes** handed to the connection.
    package var bytes: UInt64
    /// Whether the whole answer could be handed over.
    package var isComplete: Bool
    package var duration: Duration

    /// What became of an answer.
    package init(
        _ request: HTTPRequest, status: Int, bytes: UInt64, isComplete: Bool, since start: ContinuousClock.Instant
    ) {
        (client, method, target) = (request.client, request.method, request.target)
        (range, self.status, self.bytes, self.isComplete) = (request.headers[.range], status, bytes, isComplete)
        duration = ContinuousClock.now - start
    }
}

/// How many answers are under way: memory is given back when many have ended.
final class ServerLoad: Sendable {
    /// Under way, and the most at a time since memory was given back.
    private let state = Mutex((answers: 0, peak: 0))
    private let idle: @Sendable () -> Void

    /// So many answers at a time leave memory behind that is worth giving back.
    private static let many = 32

    /// - Parameter idle: Called when nothing is answered any more after many answers at a time.
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

/// Why a server does not come up.
package enum ServerError: Error, Sendable, Equatable {
    /// The directory to serve cannot be opened.
    case cannotOpen(directory: String, reason: String)
    /// The address cannot be listened on.
    case cannotListen(address: String, port: Int, reason: String)

    /// What the process should exit with.
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
