import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem

/// Answers the requests to a cache.
final class CacheAnswers: Sendable {
    private let context: CacheContext
    private let identity: String
    private let log: (@Sendable (AccessRecord) -> Void)?
    private let documents: DocumentCache
    private let objects: ObjectCache
    private let facts: FactIndex

    /// A file that is no pack and longer than this many **bytes** is kept only if a client asks for all of it.
    private static let longestByRange: UInt64 = 64 << 20
    /// Most **bytes** that wait for a client.
    private static let streamCapacity = 256 << 10

    init(_ context: CacheContext, identity: String, log: (@Sendable (AccessRecord) -> Void)?) {
        (self.context, self.identity, self.log) = (context, identity, log)
        documents = DocumentCache(context)
        objects = ObjectCache(context)
        facts = FactIndex(documents: documents, objects: objects, context)
    }

    func respond(to request: HTTPRequest) async -> HTTPResponse {
        let start = ContinuousClock.now
        context.counts.requests.add(1)
        var response = await answer(request)
        let status = response.status
        let hasBody = !request.isHead && status != 304
        response.whenSent = { [context, log] bytes, isComplete in
            let sent = hasBody ? bytes : 0
            context.counts.sentBytes.add(sent)
            log?(AccessRecord(request, status: status, bytes: sent, isComplete: isComplete, since: start))
        }
        return response
    }

    private func answer(_ request: HTTPRequest) async -> HTTPResponse {
        guard request.isHead || request.method == "GET" else {
            return HTTPResponse(status: 405, headers: [.allow: "GET, HEAD"])
        }
        // The cache serves one directory, and is no proxy for other places that a client might name.
        guard request.target.hasPrefix("/") else { return HTTPResponse(status: 421) }
        guard request.headers[.via]?.contains(identity) != true else { return HTTPResponse(status: 508) }
        switch request.path {
        case "/": return page()
        case "/metrics": return metrics()
        default: break
        }
        let path: RequestPath
        do throws(Unserved) { path = try RequestPath(request.path) } catch {
            return HTTPResponse(status: error == .malformed ? 400 : 404)
        }
        if !path.isHidden, DocumentCache.isDocument(path.names) { return await document(request, path) }
        guard let (object, map) = await facts.object(at: path) else {
            return path.isHidden ? HTTPResponse(status: 404) : await pass(request, path)
        }
        return await self.object(request, path, object, map)
    }

    private func page() -> HTTPResponse {
        let page = """
            <!DOCTYPE html>
            <html lang="en">
            <head><meta charset="utf-8"><title>syncagent serve --cache</title></head>
            <body>
            <p>This is a cache of a set of files for syncagent: <a href="/manifest.json">manifest.json</a></p>
            </body>
            </html>

            """
        return HTTPResponse(
            status: 200,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache", .xContentTypeOptions: "nosniff",
            ], body: .bytes(Array(page.utf8)))
    }

    private func metrics() -> HTTPResponse {
        HTTPResponse(
            status: 200, headers: [.contentType: CacheContext.metricsType, .cacheControl: "no-store"],
            body: .bytes(Array(context.metrics.utf8)))
    }

    /// The answer to a client after a failed request to the origin.
    private static func response(to error: TransferError) -> HTTPResponse {
        switch error.code.status ?? error.status {
        case 404: return HTTPResponse(status: 404)
        case 410: return HTTPResponse(status: 410)
        case 401, 403: return HTTPResponse(status: 403)
        default: break
        }
        if error.code == .cancelled { return HTTPResponse(status: 503, headers: [.retryAfter: "1"]) }
        return HTTPResponse(status: error.code == .unreachable || error.code == .timedOut ? 504 : 502)
    }
}

// MARK: Documents

extension CacheAnswers {
    private func document(_ request: HTTPRequest, _ path: RequestPath) async -> HTTPResponse {
        switch await documents.current(path.names, reload: Self.bypassesCache(request)) {
        case .current(let document, let file): return Self.answer(request, path, document, file)
        case .stale(let document, let file):
            context.counts.stale.add(1)
            var response = Self.answer(request, path, document, file)
            response.headers[.age] = String(max(0, context.now() - document.checked))
            response.headers[.warning] = "111 - \"Revalidation failed\""
            return response
        case .failed(let error): return Self.response(to: error)
        case .refused: return HTTPResponse(status: 502)
        case .pass: return await pass(request, path)
        }
    }

    /// Whether a client asks to bypass caches: then those on the way to the publisher are bypassed, too. RFC 9111
    /// §5.2.1.4
    private static func bypassesCache(_ request: HTTPRequest) -> Bool {
        request.headers[.cacheControl]?.lowercased().contains("no-cache") == true
    }

    /// The date of a document without one: newer than that of any client.
    private static let noDate = HTTPDate(seconds: 253_402_300_799)

    private static func answer(
        _ request: HTTPRequest, _ path: RequestPath, _ document: DocumentCache.Document, _ file: SharedDescriptor
    ) -> HTTPResponse {
        let version = FileVersion(
            size: document.size, modified: document.validator.lastModified.flatMap { HTTPDate($0) } ?? noDate,
            entityTag: document.tag)
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = Self.response(answer, version, path)
        response.headers[.lastModified] = document.validator.lastModified
        guard let range = answer.body else { return response }
        response.body = body(range, isHead: request.isHead) { stream in
            var position = range.lowerBound
            while position < range.upperBound {
                let count = min(CacheStore.piece, range.upperBound - position)
                guard let bytes = readBytes(file.raw, DocumentCache.Document.start + position, Int(count)) else {
                    return stream.breakOff()
                }
                guard await stream.write(bytes) else { return }
                position += count
            }
            stream.end()
        }
        return response
    }

    /// The head of an answer from the held bytes of a path: all of them, a part, or nothing.
    private static func response(_ answer: Answer, _ version: FileVersion, _ path: RequestPath) -> HTTPResponse {
        var response = HTTPResponse(
            status: answer.status,
            headers: [.acceptRanges: "bytes", .cacheControl: path.cacheControl, .eTag: version.entityTag])
        response.headers[.contentRange] = answer.contentRange
        if answer.body != nil {
            response.headers[.contentType] = path.contentType
            response.headers[.xContentTypeOptions] = "nosniff"
        }
        return response
    }

    /// A body of known length that a task writes.
    private static func body(
        _ range: Range<UInt64>, isHead: Bool, _ write: @escaping @Sendable (BodyStream) async -> Void
    ) -> HTTPResponse.Body {
        guard !range.isEmpty else { return .bytes([]) }
        let stream = BodyStream(capacity: streamCapacity, length: range.upperBound - range.lowerBound)
        return .stream(stream) { stream in
            if !isHead { await write(stream) }
            await stream.left()
        }
    }
}

// MARK: Objects with names

extension CacheAnswers {
    private func object(_ request: HTTPRequest, _ path: RequestPath, _ object: NamedObject, _ map: PackMap?) async
        -> HTTPResponse
    {
        var size = object.size ?? 0
        if object.size == nil {
            switch await objects.size(of: object.digest, path.names) {
            case .success(let found): size = found
            case .failure(let error): return Self.response(to: error)
            }
        }
        guard size > 0 else { return await pass(request, path) }
        // The name identifies the version of the object, so `If-Range` is ignored.
        var headers = request.headers
        headers[.ifRange] = nil
        let version = FileVersion(size: size, modified: Self.noDate, entityTag: "\"\(object.digest.hex)\"")
        let answer = Answer(to: headers, isHead: request.isHead, file: version)
        var response = Self.response(answer, version, path)
        guard let range = answer.body else { return response }
        if request.isHead {
            response.body = Self.body(range, isHead: true) { _ in }
            return response
        }
        let reading = ObjectCache.Reading(object: object, names: path.names, size: size, map: map, range: range)
        let reload = Self.bypassesCache(request)
        let isWhole = range.lowerBound == 0 && range.upperBound == size
        if !object.isPack, size > Self.longestByRange, !isWhole, !objects.isHeld(object.digest, at: range.lowerBound) {
            return await passObject(reading, response, reload)
        }
        let first = await objects.next(reading, at: range.lowerBound, unproven: nil, ReadCursor())
        switch first {
        case .refused: return HTTPResponse(status: 502)
        case .failed(let error): return Self.response(to: error)
        case .stopped: return HTTPResponse(status: 503, headers: [.retryAfter: "1"])
        case .pass: return await passObject(reading, response, reload)
        case .bytes(_, _, let wasHeld): (wasHeld ? context.counts.hits : context.counts.misses).add(1)
        }
        response.body = Self.body(range, isHead: false) { await self.send(reading, first, to: $0) }
        return response
    }

    /// Sends the held bytes, and bytes as they arrive, up to the end of an answer.
    private func send(_ reading: ObjectCache.Reading, _ first: ObjectCache.Piece, to stream: BodyStream) async {
        let cursor = ReadCursor()
        var (piece, position) = (first, reading.range.lowerBound)
        var unproven: Flight?
        while true {
            switch piece {
            case .bytes(let bytes, let flight, _):
                guard await stream.write(bytes) else { return }
                position += UInt64(bytes.count)
                // If the slice cannot be kept, the rest comes from this flight even once it is verified.
                if let flight { (unproven, cursor.flight) = (flight, flight) }
            case .refused, .failed, .stopped: return stream.breakOff()
            case .pass:
                let passing = Passing(reading, from: position)
                // A whole object that is not verified to its end must not look whole.
                if position > 0, reading.range == 0..<reading.size, passing.check == nil { return stream.breakOff() }
                context.counts.passed.add(1)
                let download = Download.start(
                    context.origin.request(
                        reading.names, range: position..<reading.range.upperBound, size: reading.size),
                    on: context.origin.transport, isNamed: true)
                return await Self.send(download, passing, to: stream)
            }
            guard position < reading.range.upperBound else { return stream.end() }
            piece = await objects.next(reading, at: position, unproven: unproven, cursor)
        }
    }
}

// MARK: Passing through

extension CacheAnswers {
    /// A body that is passed through, and how it can be verified all the same.
    private struct Passing: Sendable {
        /// **Bytes** that must arrive; `nil` for as many as there are.
        var length: UInt64?
        var start: UInt64 = 0
        var check: SliceCheck?

        init() {}

        init(_ reading: ObjectCache.Reading, from position: UInt64) {
            (length, start) = (reading.range.upperBound - position, position)
            let range = position..<reading.range.upperBound
            check =
                range == 0..<reading.size
                ? .whole(reading.object.digest) : reading.map?.check(of: range)
        }
    }

    /// Passes the bytes of an object through without keeping them.
    private func passObject(_ reading: ObjectCache.Reading, _ prepared: HTTPResponse, _ reload: Bool) async
        -> HTTPResponse
    {
        context.counts.passed.add(1)
        let download = Download.start(
            context.origin.request(reading.names, range: reading.range, size: reading.size, reload: reload),
            on: context.origin.transport, isNamed: true)
        if case .failure(let error) = await download.head() { return Self.response(to: error) }
        var response = prepared
        response.body = Self.body(reading.range, isHead: false) {
            await Self.send(download, Passing(reading, from: reading.range.lowerBound), to: $0)
        }
        return response
    }

    /// Passes a request through for a path that no digest names.
    private func pass(_ request: HTTPRequest, _ path: RequestPath) async -> HTTPResponse {
        context.counts.passed.add(1)
        if request.isHead || request.headers[.range] != nil, let response = await passPart(request, path) {
            return response
        }
        var asked = context.origin.request(path.names, reload: Self.bypassesCache(request))
        let known = Validator(etag: request.headers[.ifNoneMatch], lastModified: request.headers[.ifModifiedSince])
        if !known.isEmpty { asked.knownValidator = known }
        let download = Download.start(asked, on: context.origin.transport)
        switch await download.head() {
        case .failure(let error): return Self.response(to: error)
        case .success(let head):
            var response = Self.response(head, path, status: head.status == 304 ? 304 : 200)
            if head.status == 304 { return response }
            if request.isHead {
                download.cancel()
                return response
            }
            guard let size = head.objectSize else {
                response.body = .stream(BodyStream(capacity: Self.streamCapacity)) { stream in
                    await Self.send(download, Passing(), to: stream)
                    await stream.left()
                }
                return response
            }
            response.body = Self.body(0..<size, isHead: false) { stream in
                var passing = Passing()
                passing.length = size
                await Self.send(download, passing, to: stream)
            }
            return response
        }
    }

    /// Passes a HEAD request through, or one for a part; `nil` if the origin does not say how long the file is.
    private func passPart(_ request: HTTPRequest, _ path: RequestPath) async -> HTTPResponse? {
        let reload = Self.bypassesCache(request)
        let look = Download.start(
            context.origin.request(path.names, range: 0..<1, reload: reload), on: context.origin.transport)
        let head: ResponseHead
        switch await look.head() {
        case .failure(let error): return error.code.status == 416 ? nil : Self.response(to: error)
        case .success(let found): head = found
        }
        look.cancel()
        guard let size = head.objectSize else { return nil }
        let version = FileVersion(
            size: size, modified: head.validator.lastModified.flatMap { HTTPDate($0) } ?? Self.noDate,
            entityTag: head.validator.etag.flatMap { $0.hasPrefix("\"") ? $0 : nil } ?? "")
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = Self.response(head, path, status: answer.status)
        response.headers[.contentRange] = answer.contentRange
        guard let range = answer.body else { return response }
        if request.isHead {
            response.body = Self.body(range, isHead: true) { _ in }
            return response
        }
        var asked = context.origin.request(path.names, range: range, size: size, reload: reload)
        asked.validator = head.validator
        let download = Download.start(asked, on: context.origin.transport)
        switch await download.head() {
        case .failure(let error): return Self.response(to: error)
        case .success(let found) where found.validator.etag != head.validator.etag:
            // A new version came between the two requests; the head of this answer is of the old one.
            download.cancel()
            return HTTPResponse(status: 503, headers: [.retryAfter: "1"])
        case .success: break
        }
        response.body = Self.body(range, isHead: false) { stream in
            var passing = Passing()
            (passing.length, passing.start) = (range.upperBound - range.lowerBound, range.lowerBound)
            await Self.send(download, passing, to: stream)
        }
        return response
    }

    private static func response(_ head: ResponseHead, _ path: RequestPath, status: Int) -> HTTPResponse {
        var response = HTTPResponse(
            status: status, headers: [.acceptRanges: "bytes", .cacheControl: path.cacheControl])
        response.headers[.eTag] = head.validator.etag
        response.headers[.lastModified] = head.validator.lastModified
        if status != 304 {
            response.headers[.contentType] = head.contentType ?? path.contentType
            response.headers[.xContentTypeOptions] = "nosniff"
        }
        return response
    }

    /// Sends bytes as they arrive. If they can be verified, the last piece is sent only once they are.
    private static func send(_ download: Download, _ passing: Passing, to stream: BodyStream) async {
        var verifier: SliceVerifier?
        if let check = passing.check { verifier = try? SliceVerifier(check, from: passing.start) }
        var count: UInt64 = 0
        var held: [UInt8] = []
        while true {
            switch await download.next() {
            case .bytes(let bytes):
                count += UInt64(bytes.count)
                guard bytes.withUnsafeBytes({ verifier?.take($0) ?? true }) else {
                    download.cancel()
                    return stream.breakOff()
                }
                let ready = held
                held = bytes
                if !ready.isEmpty, await !stream.write(ready) { return download.cancel() }
            case .ended:
                let isWhole = passing.length.map { $0 == count } ?? true
                guard isWhole, verifier?.end(at: passing.start + count) ?? true else { return stream.breakOff() }
                if !held.isEmpty, await !stream.write(held) { return }
                return stream.end()
            case .failed:
                download.cancel()
                return stream.breakOff()
            }
        }
    }
}

extension HTTPFields.Name {
    fileprivate static let age = Self("Age")
    fileprivate static let via = Self("Via")
    fileprivate static let warning = Self("Warning")
}
