import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem

/// Answers the requests to a cache.
final class CacheAnswers: Sendable {
    private let context: CacheContext
    private let identity: String
    private let settings: ServerSettings
    private let documents: DocumentCache
    private let objects: ObjectCache
    private let facts: FactIndex

    /// A file that is no pack and longer than this many **bytes** is kept only if a client asks for all of it.
    private static let longestByRange: UInt64 = 64 << 20
    /// Most **bytes** that wait for a client.
    private static let streamCapacity = 256 << 10

    init(_ context: CacheContext, _ settings: ServerSettings, identity: String) {
        (self.context, self.settings, self.identity) = (context, settings, identity)
        documents = DocumentCache(context)
        objects = ObjectCache(context)
        facts = FactIndex(documents: documents, objects: objects, context)
    }

    func respond(to request: HTTPRequest) async -> HTTPResponse {
        let start = ContinuousClock.now
        context.counts.withLock { $0.requests += 1 }
        let response: HTTPResponse
        do throws(TransferError) { response = try await answer(request) } catch { response = Self.response(to: error) }
        return settings.logging(response, to: request, since: start) { [context] bytes in
            context.counts.withLock { $0.sentBytes &+= bytes }
        }
    }

    /// - Throws: The error of the origin.
    private func answer(_ request: HTTPRequest) async throws(TransferError) -> HTTPResponse {
        guard request.isHead || request.method == "GET" else {
            return HTTPResponse(status: 405, headers: [.allow: "GET, HEAD"])
        }
        // The cache serves one directory, and is no proxy for other places that a client might name.
        guard request.target.hasPrefix("/") else { return HTTPResponse(status: 421) }
        guard request.headers[.via]?.contains(identity) != true else { return HTTPResponse(status: 508) }
        switch request.path {
        case "/":
            return HTTPResponse(
                page: "syncagent serve --cache",
                "<p>This is a cache of a set of files for syncagent: <a href=\"/manifest.json\">manifest.json</a></p>")
        case "/metrics":
            return HTTPResponse(
                status: 200, headers: [.contentType: CacheContext.metricsType, .cacheControl: "no-store"],
                body: .bytes(Array(context.metrics.utf8)))
        default: break
        }
        let path: RequestPath
        do throws(Unserved) { path = try RequestPath(request.path) } catch { return HTTPResponse(error) }
        if !path.isHidden, DocumentCache.isDocument(path.names) { return try await document(request, path) }
        guard let (object, map) = await facts.object(at: path) else {
            return path.isHidden ? HTTPResponse(status: 404) : try await pass(request, path)
        }
        return try await self.object(request, path, object, map)
    }

    /// The answer to a client after a failed request to the origin.
    private static func response(to error: TransferError) -> HTTPResponse {
        switch error.code.status ?? error.status {
        case 404: return HTTPResponse(status: 404)
        case 410: return HTTPResponse(status: 410)
        case 401, 403: return HTTPResponse(status: 403)
        default: break
        }
        if error.code == .cancelled { return HTTPResponse(.unavailable) }
        return HTTPResponse(status: error.code == .unreachable || error.code == .timedOut ? 504 : 502)
    }
}

// MARK: Documents

extension CacheAnswers {
    private func document(_ request: HTTPRequest, _ path: RequestPath) async throws(TransferError) -> HTTPResponse {
        switch await documents.current(path.names, reload: Self.bypassesCache(request)) {
        case .current(let document, let file): return Self.answer(request, path, document, file)
        case .stale(let document, let file):
            context.counts.withLock { $0.stale += 1 }
            var response = Self.answer(request, path, document, file)
            response.headers[.age] = String(max(0, context.now() - document.checked))
            response.headers[.warning] = "111 - \"Revalidation failed\""
            return response
        case .failed(let error): throw error
        case .refused: return HTTPResponse(status: 502)
        case .pass: return try await pass(request, path)
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
        let modified = document.validator.lastModified
        let version = FileVersion(
            size: document.size, modified: modified.flatMap { HTTPDate($0) } ?? noDate, entityTag: document.tag)
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = HTTPResponse(answer, of: path, tag: version.entityTag, modified: modified)
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
    private func object(_ request: HTTPRequest, _ path: RequestPath, _ object: NamedObject, _ map: PackMap?)
        async throws(TransferError) -> HTTPResponse
    {
        var size = object.size ?? 0
        if object.size == nil { size = try await objects.size(of: object.digest, path.names) }
        guard size > 0 else { return try await pass(request, path) }
        // The name identifies the version of the object, so `If-Range` is ignored.
        var headers = request.headers
        headers[.ifRange] = nil
        let version = FileVersion(size: size, modified: Self.noDate, entityTag: "\"\(object.digest.hex)\"")
        let answer = Answer(to: headers, isHead: request.isHead, file: version)
        var response = HTTPResponse(answer, of: path, tag: version.entityTag, modified: nil)
        guard let range = answer.body else { return response }
        if request.isHead {
            response.body = Self.body(range, isHead: true) { _ in }
            return response
        }
        let reading = ObjectCache.Reading(object: object, names: path.names, size: size, map: map, range: range)
        let reload = Self.bypassesCache(request)
        let isWhole = range.lowerBound == 0 && range.upperBound == size
        if !object.isPack, size > Self.longestByRange, !isWhole, !objects.isHeld(object.digest, at: range.lowerBound) {
            return try await passObject(reading, response, reload)
        }
        let first = await objects.next(reading, at: range.lowerBound, unproven: nil, ReadCursor())
        switch first {
        case .refused: return HTTPResponse(status: 502)
        case .failed(let error): throw error
        case .stopped: return HTTPResponse(.unavailable)
        case .pass: return try await passObject(reading, response, reload)
        case .bytes(_, _, let wasHeld):
            context.counts.withLock { $0[keyPath: wasHeld ? \CacheCounts.hits : \.misses] += 1 }
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
                let rest = position..<reading.range.upperBound
                let check = reading.check(of: rest)
                // A whole object that is not verified to its end must not look whole.
                if position > 0, reading.range == 0..<reading.size, check == nil { return stream.breakOff() }
                context.counts.withLock { $0.passed += 1 }
                let download = context.origin.start(
                    context.origin.request(reading.names, range: rest, size: reading.size), isNamed: true)
                return await Self.send(download, rest, check, to: stream)
            }
            guard position < reading.range.upperBound else { return stream.end() }
            piece = await objects.next(reading, at: position, unproven: unproven, cursor)
        }
    }
}

// MARK: Passing through

extension CacheAnswers {
    /// Passes the bytes of an object through without keeping them.
    private func passObject(_ reading: ObjectCache.Reading, _ prepared: HTTPResponse, _ reload: Bool)
        async throws(TransferError) -> HTTPResponse
    {
        context.counts.withLock { $0.passed += 1 }
        let range = reading.range
        let download = context.origin.start(
            context.origin.request(reading.names, range: range, size: reading.size, reload: reload), isNamed: true)
        _ = try await download.head()
        var response = prepared
        response.body = Self.body(range, isHead: false) {
            await Self.send(download, range, reading.check(of: range), to: $0)
        }
        return response
    }

    /// Passes a request through for a path that no digest names.
    private func pass(_ request: HTTPRequest, _ path: RequestPath) async throws(TransferError) -> HTTPResponse {
        context.counts.withLock { $0.passed += 1 }
        if request.isHead || request.headers[.range] != nil, let response = try await passPart(request, path) {
            return response
        }
        var asked = context.origin.request(path.names, reload: Self.bypassesCache(request))
        let known = Validator(etag: request.headers[.ifNoneMatch], lastModified: request.headers[.ifModifiedSince])
        if !known.isEmpty { asked.knownValidator = known }
        let download = context.origin.start(asked)
        let head = try await download.head()
        let isKnown = head.status == 304
        var response = HTTPResponse(
            isKnown ? Answer(status: 304) : Answer(status: 200, body: 0..<(head.objectSize ?? 0)), of: path,
            tag: head.validator.etag, modified: head.validator.lastModified, type: head.contentType)
        if isKnown { return response }
        if request.isHead {
            download.cancel()
            return response
        }
        if let size = head.objectSize {
            response.body = Self.body(0..<size, isHead: false) { await Self.send(download, 0..<size, to: $0) }
        } else {
            response.body = .stream(BodyStream(capacity: Self.streamCapacity)) { stream in
                await Self.send(download, nil, to: stream)
                await stream.left()
            }
        }
        return response
    }

    /// Passes a HEAD request through, or one for a part; `nil` if the origin does not say how long the file is.
    private func passPart(_ request: HTTPRequest, _ path: RequestPath) async throws(TransferError) -> HTTPResponse? {
        let reload = Self.bypassesCache(request)
        let look = context.origin.start(context.origin.request(path.names, range: 0..<1, reload: reload))
        let head: ResponseHead
        do throws(TransferError) { head = try await look.head() } catch {
            if error.code.status == 416 { return nil }
            throw error
        }
        look.cancel()
        guard let size = head.objectSize else { return nil }
        let (tag, modified) = (head.validator.etag, head.validator.lastModified)
        let version = FileVersion(
            size: size, modified: modified.flatMap { HTTPDate($0) } ?? Self.noDate,
            entityTag: tag.flatMap { $0.hasPrefix("\"") ? $0 : nil } ?? "")
        let answer = Answer(to: request.headers, isHead: request.isHead, file: version)
        var response = HTTPResponse(answer, of: path, tag: tag, modified: modified, type: head.contentType)
        guard let range = answer.body else { return response }
        if request.isHead {
            response.body = Self.body(range, isHead: true) { _ in }
            return response
        }
        var asked = context.origin.request(path.names, range: range, size: size, reload: reload)
        asked.validator = head.validator
        let download = context.origin.start(asked)
        guard try await download.head().validator.etag == tag else {
            // A new version came between the two requests; the head of this answer is of the old one.
            download.cancel()
            return HTTPResponse(.unavailable)
        }
        response.body = Self.body(range, isHead: false) { await Self.send(download, range, to: $0) }
        return response
    }

    /// Sends bytes as they arrive. If they can be verified, the last piece is sent only once they are.
    ///
    /// - Parameter range: The **bytes** of the object that must arrive; `nil` for as many as there are.
    private static func send(
        _ download: Download, _ range: Range<UInt64>?, _ check: SliceCheck? = nil, to stream: BodyStream
    ) async {
        let start = range?.lowerBound ?? 0
        var verifier: SliceVerifier?
        if let check { verifier = try? SliceVerifier(check, from: start) }
        var count: UInt64 = 0
        var held: [UInt8] = []
        do throws(TransferError) {
            while let bytes = try await download.next() {
                count += UInt64(bytes.count)
                guard bytes.withUnsafeBytes({ verifier?.take($0) ?? true }) else {
                    download.cancel()
                    return stream.breakOff()
                }
                let ready = held
                held = bytes
                if !ready.isEmpty, await !stream.write(ready) { return download.cancel() }
            }
        } catch {
            download.cancel()
            return stream.breakOff()
        }
        let isWhole = range.map { start + count == $0.upperBound } ?? true
        guard isWhole, verifier?.end(at: start + count) ?? true else { return stream.breakOff() }
        if !held.isEmpty, await !stream.write(held) { return }
        stream.end()
    }
}

extension HTTPFields.Name {
    fileprivate static let age = Self("Age")
    fileprivate static let via = Self("Via")
    fileprivate static let warning = Self("Warning")
}
