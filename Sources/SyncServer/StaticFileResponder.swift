import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import NIOPosix

/// What the responder needs to know about a connection.
struct ClientContext: InitializableFromSource {
    let channel: any Channel
    let address: String

    init(source: ApplicationRequestContextSource) {
        channel = source.channel
        address = channel.remoteAddress?.ipAddress ?? "-"
    }
}

/// Answers GET and HEAD with files of one tree.
///
/// Hummingbird's own `FileMiddleware` follows links, tags weakly, misreads suffix ranges and answers 416 without
/// the size, so the decisions are made here, in ``Answer``; Hummingbird does connections and HTTP.
struct StaticFileResponder: HTTPResponder {
    let tree: ServedTree
    let threads: NIOThreadPool
    let load: ServerLoad
    /// Longest time in which a client takes nothing of its answer.
    let timeout: TimeAmount
    /// Told after each answer, from any thread.
    let log: (@Sendable (AccessRecord) -> Void)?

    func respond(to request: Request, context: ClientContext) async throws -> Response {
        let start = ContinuousClock.now
        let record = AccessRecord(
            client: context.address,
            method: request.method.rawValue,
            target: request.uri.string,
            range: request.headers[.range],
            status: 0,
            bytes: 0,
            isComplete: true,
            duration: .zero
        )
        var (response, body) = await answer(request)
        let finished: @Sendable (UInt64, Bool) -> Void = {
            [log, status = Int(response.status.code)] bytes, complete in
            guard let log else { return }
            var record = record
            record.status = status
            record.bytes = bytes
            record.isComplete = complete
            record.duration = ContinuousClock.now - start
            log(record)
        }
        guard let body else {
            finished(0, true)
            return response
        }
        response.body = body.response(on: context.channel, finished)
        return response
    }

    /// The answer's head, and where there is one, its body.
    private func answer(_ request: Request) async -> (Response, FileBody?) {
        let isHead = request.method == .head
        guard isHead || request.method == .get else {
            return (Response(status: .methodNotAllowed, headers: [.allow: "GET, HEAD"]), nil)
        }
        let path: RequestPath
        do throws(RequestPath.Refusal) {
            path = try RequestPath(request.uri.path)
        } catch {
            return (Response(status: error == .malformed ? .badRequest : .notFound), nil)
        }
        // Opening can wait for a disk: not on the threads that everything else runs on.
        let opened = try? await threads.runIfActive { open(path) }  // Fails only while the threads shut down.
        switch opened {
        case .success(let file): return answer(request, isHead: isHead, path: path, file: file)
        case .failure(.notFound): return (Response(status: .notFound), nil)
        case .failure(.forbidden): return (Response(status: .forbidden), nil)
        case .failure(.unavailable), nil:
            return (Response(status: .serviceUnavailable, headers: [.retryAfter: "1"]), nil)
        }
    }

    private func open(_ path: RequestPath) -> Result<ServedFile, ServedTree.Failure> {
        do throws(ServedTree.Failure) {
            return .success(try tree.file(at: path))
        } catch {
            return .failure(error)
        }
    }

    private func answer(
        _ request: Request,
        isHead: Bool,
        path: RequestPath,
        file: ServedFile
    ) -> (Response, FileBody?) {
        let answer = Answer(to: request.headers, isHead: isHead, file: file.version)
        var headers: HTTPFields = [
            .acceptRanges: "bytes",
            .cacheControl: CachePolicy.value(for: path),
            .eTag: file.version.entityTag,
            .lastModified: file.version.modified.description,
        ]
        headers[.contentRange] = answer.contentRange
        if answer.body != nil {
            headers[.contentType] = CachePolicy.contentType(for: path)
            headers[.xContentTypeOptions] = "nosniff"
        }
        let status = HTTPResponse.Status(code: answer.status)
        guard let range = answer.body else {
            var response = Response(status: status, headers: headers)
            // RFC 9110 §8.6: in a 304 it would have to be the length that 200 has.
            if answer.status == 304 { response.headers[.contentLength] = nil }
            return (response, nil)
        }
        headers[.contentLength] = String(range.count)
        guard !isHead else { return (Response(status: status, headers: headers), nil) }
        let body = FileBody(file: file, range: range, load: load, timeout: timeout, threads: threads)
        return (Response(status: status, headers: headers), body)
    }
}

/// A run of a file's bytes as the body of an answer.
struct FileBody: Sendable {
    let file: ServedFile
    let range: Range<UInt64>
    let load: ServerLoad
    let timeout: TimeAmount
    let threads: NIOThreadPool

    /// The file became shorter, or its disk failed, after the head had gone out: only closing the connection
    /// tells the client.
    struct Truncated: Error {}

    /// The kernel asks for more when fewer **bytes** than this have not been sent yet, and so a slow client is seen to
    /// take something again and again, not megabytes once in minutes. TCP_NOTSENT_LOWAT, tcp(7).
    private static let unsent = 128 << 10
    private static let unsentOption = ChannelOptions.Types.SocketOption(
        level: .tcp,
        name: NIOBSDSocket.Option(rawValue: 25)
    )

    /// The body; `finished` is told once how many **bytes** went out and whether those were all.
    ///
    /// A piece is written when the kernel has taken the one before it, so a client that does not read holds one, or
    /// two, and no more, and is let go after ``timeout``. The answer ends only after the kernel has taken its last byte:
    /// Hummingbird closes a connection that has nothing to answer when the server stops, and what NIO still holds for it
    /// then is thrown away.
    func response(on channel: any Channel, _ finished: @escaping @Sendable (UInt64, Bool) -> Void)
        -> ResponseBody
    {
        ResponseBody(contentLength: range.count) { writer in
            load.begin()
            defer { load.end() }
            var offset = range.lowerBound
            do {
                #if canImport(Glibc)
                    // Elsewhere a slow client is only seen later.
                    _ = channel.setOption(Self.unsentOption, value: Self.unsent)
                #endif
                var next: ByteBuffer?
                while offset < range.upperBound {
                    let share = load.share
                    let buffer: ByteBuffer
                    if let next { buffer = next } else { buffer = try await chunk(share.bytes, at: offset) }
                    next = nil
                    guard buffer.readableBytes > 0 else { throw Truncated() }
                    let alarm = channel.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
                    defer { alarm.cancel() }
                    try await writer.write(buffer)
                    let taken = channel.eventLoop.makePromise(of: Void.self)
                    channel.writeAndFlush(HTTPResponsePart.body(ByteBuffer()), promise: taken)
                    let end = offset + UInt64(buffer.readableBytes)
                    if share.readsAhead, end < range.upperBound {
                        next = try await chunk(share.bytes, at: end)
                    }
                    try await taken.futureResult.get()
                    offset = end
                }
                try await writer.finish(nil)
            } catch {
                finished(offset - range.lowerBound, false)
                throw error
            }
            finished(offset - range.lowerBound, true)
        }
    }

    private func chunk(_ size: Int, at offset: UInt64) async throws -> ByteBuffer {
        let wanted = Int(min(UInt64(size), range.upperBound - offset))
        return try await threads.runIfActive {
            var buffer = ByteBufferAllocator().buffer(capacity: wanted)
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: wanted) { space in
                max(0, file.read(into: UnsafeMutableRawBufferPointer(rebasing: space[..<wanted]), at: offset))
            }
            return buffer
        }
    }
}
