import SyncModel

/// Answers GET and HEAD with files of one tree. What is answered is decided in ``Answer``.
struct StaticFileResponder: Sendable {
    let tree: ServedTree
    let load: ServerLoad
    /// Told after each answer, from any thread.
    let log: (@Sendable (AccessRecord) -> Void)?

    func respond(to request: HTTPRequest) -> HTTPResponse {
        let start = ContinuousClock.now
        var response = answer(request)
        load.begin()
        let status = response.status
        let hasBody = !request.isHead && status != 304
        response.whenSent = { [load, log] bytes, isComplete in
            load.end()
            log?(
                AccessRecord(
                    client: request.client, method: request.method, target: request.target,
                    range: request.headers[.range], status: status, bytes: hasBody ? bytes : 0, isComplete: isComplete,
                    duration: ContinuousClock.now - start))
        }
        return response
    }

    private func answer(_ request: HTTPRequest) -> HTTPResponse {
        guard request.isHead || request.method == "GET" else {
            return HTTPResponse(status: 405, headers: [.allow: "GET, HEAD"])
        }
        if request.path == "/" {
            let page = IndexPage(host: request.headers[.host], hasManifest: tree.contains("/manifest.json"))
            return HTTPResponse(
                status: 200,
                headers: [
                    .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache",
                    .xContentTypeOptions: "nosniff",
                ], body: .bytes(page.html))
        }
        let path: RequestPath
        do throws(RequestPath.Refusal) { path = try RequestPath(request.path) } catch {
            return HTTPResponse(status: error == .malformed ? 400 : 404)
        }
        do throws(ServedTree.Failure) { return answer(request, path: path, file: try tree.file(at: path)) } catch {
            switch error {
            case .notFound: return HTTPResponse(status: 404)
            case .forbidden: return HTTPResponse(status: 403)
            case .unavailable: return HTTPResponse(status: 503, headers: [.retryAfter: "1"])
            }
        }
    }

    private func answer(_ request: HTTPRequest, path: RequestPath, file: ServedFile) -> HTTPResponse {
        let answer = Answer(to: request.headers, isHead: request.isHead, file: file.version)
        var response = HTTPResponse(
            status: answer.status,
            headers: [
                .acceptRanges: "bytes", .cacheControl: CachePolicy.value(for: path), .eTag: file.version.entityTag,
                .lastModified: file.version.modified.description,
            ])
        response.headers[.contentRange] = answer.contentRange
        guard let range = answer.body else {
            // RFC 9110 §8.6: where a 304 says a length, it is that of 200. No body goes out.
            if answer.status == 304 { response.body = .file(file.content, 0..<file.version.size) }
            return response
        }
        response.headers[.contentType] = CachePolicy.contentType(for: path)
        response.headers[.xContentTypeOptions] = "nosniff"
        response.body = .file(file.content, range)
        return response
    }
}

/// What caches may do with an object, and what it is.
enum CachePolicy {
    /// A pack is named by its digest, so it never changes; everything else is asked for again each time, which
    /// its entity tag makes cheap. RFC 9111 §5.2.2, RFC 8246.
    static func value(for path: RequestPath) -> String {
        isPack(path) ? "public, max-age=31536000, immutable, no-transform" : "no-cache, no-transform"
    }

    /// The media type by suffix. Packs and assets are opaque.
    static func contentType(for path: RequestPath) -> String {
        guard let name = path.names.last else { return "application/octet-stream" }
        let text = String(decoding: name, as: UTF8.self)
        if text.hasSuffix(".json") { return "application/json" }
        if text.hasSuffix(".zst") { return "application/zstd" }
        return "application/octet-stream"
    }

    /// Whether the path ends in `packs/<sha256>.pack`.
    static func isPack(_ path: RequestPath) -> Bool {
        let suffix = Array(".pack".utf8)
        guard path.names.count >= 2, let name = path.names.last, name.suffix(suffix.count).elementsEqual(suffix) else {
            return false
        }
        return path.names[path.names.count - 2].elementsEqual("packs".utf8)
            && SHA256Digest(hex: name.dropLast(suffix.count)) != nil
    }
}

/// What a browser is shown at `/`: what is served here, and the command that brings it. There is no listing.
struct IndexPage: Sendable {
    /// As the request names this server; `nil` where it does not.
    let host: String?
    let hasManifest: Bool

    /// UTF-8.
    var html: [UInt8] {
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
