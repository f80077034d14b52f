import SyncModel
import SyncSystem

/// A static file server for a trial or a LAN: ranges, strong validators, conditional requests, many clients.
///
/// It has no TLS, no listings and no users. It serves regular files below one directory, follows no symbolic links and
/// hides names that begin with a dot.
package struct StaticServer: Sendable {
    private let settings: ServerSettings
    private let tree: ServedTree
    /// Answers in progress, and their maximum since ``idle`` was called.
    private let load = Monitor((answers: 0, peak: 0))
    private let idle: @Sendable () -> Void

    /// Number of concurrent answers that leave enough memory behind to be released.
    private static let many = 32

    /// Opens the directory.
    ///
    /// - Parameter idle: Called when no answer is in progress any more after many concurrent ones, on any thread.
    package init(
        directory: String, _ settings: ServerSettings = ServerSettings(), idle: @escaping @Sendable () -> Void = {}
    ) throws(ServerError) {
        (self.settings, self.idle) = (settings, idle)
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

    /// Serves until `stop` returns or the task is cancelled, see ``ServerSettings``.
    package func run(listening: @escaping @Sendable (Int) -> Void, until stop: @escaping @Sendable () async -> Void)
        async throws(ServerError)
    { try await settings.serve(.atOnce { respond(to: $0) }, listening: listening, until: stop) }
}

/// GET and HEAD for files of the tree. ``Answer`` decides the answer.
extension StaticServer {
    private func respond(to request: HTTPRequest) -> HTTPResponse {
        let start = ContinuousClock.now
        let response = answer(request)
        load.withLock { load in
            load.answers += 1
            load.peak = max(load.peak, load.answers)
        }
        return settings.logging(response, to: request, since: start) { [load, idle] _ in
            let isIdle = load.withLock { load in
                load.answers -= 1
                guard load.answers == 0, load.peak >= Self.many else { return false }
                load.peak = 0
                return true
            }
            if isIdle { idle() }
        }
    }

    private func answer(_ request: HTTPRequest) -> HTTPResponse {
        guard request.isHead || request.method == "GET" else {
            return HTTPResponse(status: 405, headers: [.allow: "GET, HEAD"])
        }
        if request.path == "/" {
            return Self.indexPage(host: request.headers[.host], hasManifest: tree.contains("/manifest.json"))
        }
        do throws(Unserved) {
            let path = try RequestPath(request.path)
            let (version, content) = try tree.file(at: path)
            return Self.answer(request, path, version, content)
        } catch { return HTTPResponse(error) }
    }

    private static func answer(
        _ request: HTTPRequest, _ path: RequestPath, _ version: FileVersion, _ content: OpenFile
    ) -> HTTPResponse {
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = HTTPResponse(
            answer, of: path, tag: version.entityTag, modified: version.modified.description)
        if let range = answer.body {
            response.body = .file(content, range)
        } else if answer.status == 304 {
            // RFC 9110 §8.6: a length in a 304 is that of the 200. No body is sent.
            response.body = .file(content, 0..<version.size)
        }
        return response
    }

    /// The page for browsers at `/`: what is served here, and the command to pull it. There is no listing.
    ///
    /// - Parameter host: This server's name in the request; `nil` if it is missing.
    private static func indexPage(host: String?, hasManifest: Bool) -> HTTPResponse {
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
        return HTTPResponse(page: "syncagent serve", body)
    }
}
