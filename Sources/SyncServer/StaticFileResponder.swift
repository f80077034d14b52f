import SyncHTTPServer

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
                    client: request.client,
                    method: request.method,
                    target: request.target,
                    range: request.headers[.range],
                    status: status,
                    bytes: hasBody ? bytes : 0,
                    isComplete: isComplete,
                    duration: ContinuousClock.now - start
                )
            )
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
                ],
                body: .bytes(page.html)
            )
        }
        let path: RequestPath
        do throws(RequestPath.Refusal) {
            path = try RequestPath(request.path)
        } catch {
            return HTTPResponse(status: error == .malformed ? 400 : 404)
        }
        do throws(ServedTree.Failure) {
            return answer(request, path: path, file: try tree.file(at: path))
        } catch {
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
                .acceptRanges: "bytes",
                .cacheControl: CachePolicy.value(for: path),
                .eTag: file.version.entityTag,
                .lastModified: file.version.modified.description,
            ]
        )
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
