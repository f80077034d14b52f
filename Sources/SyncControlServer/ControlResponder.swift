import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import SyncControl
import SyncModel

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Answers requests of the control API.
struct ControlResponder: Sendable {
    let control: any AgentControl
    let version: String
    /// **Seconds** since 1970.
    let now: @Sendable () -> Int64
    let streams: EventStreams
    let logger: Logger

    /// Most **bytes** of a request's body.
    static let bodyLimit = 1 << 20

    func respond(to request: Request, on channel: any Channel) async -> Response {
        var response: Response
        do throws(ControlError) {
            response = try await answer(request, channel)
        } catch {
            logger.debug("\(request.method.rawValue) \(redacted(url: request.uri.path)): \(error.message)")
            response = Self.response(error)
        }
        response.headers[Self.versionHeader] = version
        response.headers[.date] = Self.date(now())
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func answer(_ request: Request, _ channel: any Channel) async throws(ControlError) -> Response {
        guard let peer = await PeerCredentials.of(channel), peer.mayAsk(agentOf: geteuid()) else {
            logger.warning("refused a connection of another user")
            return Self.response(
                ControlError(
                    .refused,
                    "This agent belongs to another user.",
                    exitStatus: .refused
                ),
                status: .forbidden
            )
        }
        let route: Route
        do throws(Route.Refusal) {
            route = try Route(method: request.method.rawValue, target: request.uri.string)
        } catch {
            return Self.response(error, request)
        }
        return try await answer(route, request, channel)
    }

    private func answer(
        _ route: Route,
        _ request: Request,
        _ channel: any Channel
    ) async throws(ControlError) -> Response {
        switch route {
        case .agent:
            return try Self.json(await control.status())
        case .stopAgent:
            let command = try await body(StopCommand.self, of: request)
            await control.stop(command.mode)
            return Response(status: .accepted)
        case .sessions:
            return try Self.json(SessionsAnswer(await control.sessions()))
        case .session(let name):
            return try Self.json(await control.session(name))
        case .enqueue:
            let reply = try await control.enqueue(body(EnqueueRequest.self, of: request))
            return try Self.json(reply, status: reply.isNew ? .created : .ok)
        case .pause(let name):
            return try Self.json(await control.pause(name))
        case .resume(let name):
            return try Self.json(await control.resume(name))
        case .cancel(let name):
            return try Self.json(await control.cancel(name))
        case .prioritize(let name):
            let command = try await body(PriorityCommand.self, of: request)
            return try Self.json(await control.prioritize(name, paths: command.paths))
        case .remove(let name, let files):
            try await control.remove(name, files: files)
            return Response(status: .noContent)
        case .hooks(let session):
            return try Self.json(HooksAnswer(await control.hooks(session: session)))
        case .replay(let number):
            return try Self.json(await control.replay(hook: number))
        case .metrics:
            let text = try await control.metrics()
            return Response(
                status: .ok,
                headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                body: ResponseBody(byteBuffer: ByteBuffer(string: text))
            )
        case .events(let name, let since, let follow, let progress):
            let lines = try await control.events(of: name, since: since, follow: follow, progress: progress)
            let buffer = try streams.open()
            return Response(
                status: .ok,
                headers: [.contentType: "application/x-ndjson"],
                body: streams.body(lines, through: buffer, on: channel)
            )
        }
    }

    private func body<Value: ControlRequest>(
        _ type: Value.Type,
        of request: Request
    ) async throws(ControlError) -> Value {
        let bytes: [UInt8]
        do {
            bytes = Array(buffer: try await request.body.collect(upTo: Self.bodyLimit))
        } catch {
            throw ControlError(
                .invalid,
                "The request's body is longer than 1 MiB, or was cut off.",
                exitStatus: .usage
            )
        }
        return try ControlJSON.decodeRequest(type, from: bytes)
    }
}

// MARK: Answers

extension ControlResponder {
    private static let versionHeader = HTTPField.Name("Syncagent-Version") ?? .server

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, RFC 9110 §5.6.7; `nil` for a time that has no such form.
    private static func date(_ seconds: Int64) -> String? {
        var time = time_t(seconds)
        var parts = tm()
        guard gmtime_r(&time, &parts) != nil else { return nil }
        var text = [CChar](repeating: 0, count: 64)
        // The names are English: nobody calls setlocale(3) here.
        let count = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static func json(
        _ value: some Encodable,
        status: HTTPResponse.Status = .ok
    ) throws(ControlError) -> Response {
        var bytes = try ControlJSON.encode(value)
        bytes.append(0x0A)
        return Response(
            status: status,
            headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        )
    }

    /// An error as an answer; with the status that its code means, unless another is given.
    private static func response(_ error: ControlError, status: HTTPResponse.Status? = nil) -> Response {
        // Codable structs of text and one number: encoding them does not fail.
        (try? json(ErrorAnswer(error), status: status ?? self.status(of: error.code)))
            ?? Response(status: .internalServerError)
    }

    private static func response(_ refusal: Route.Refusal, _ request: Request) -> Response {
        switch refusal {
        case .notFound:
            let what = "There is no \(redacted(url: request.uri.path)) here."
            return response(ControlError(.notFound, what, exitStatus: .noInput))
        case .badQuery(let message):
            return response(ControlError(.invalid, message, exitStatus: .usage))
        case .methodNotAllowed(let allowed):
            let what = "\(escaped(request.method.rawValue)) is not for this; \(allowed) is."
            var answer = response(
                ControlError(.invalid, what, exitStatus: .usage),
                status: .methodNotAllowed
            )
            answer.headers[.allow] = allowed
            return answer
        }
    }

    private static func status(of code: ControlError.Code) -> HTTPResponse.Status {
        switch code {
        case .unknownSession, .notFound: .notFound
        case .busy, .refused: .conflict
        case .invalid: .badRequest
        case .stopping: .serviceUnavailable
        case .unreachable: .badGateway
        case .failed: .unprocessableContent
        case .internal: .internalServerError
        }
    }
}
