import Logging
import SyncAgent
import SyncModel
import SyncServer
import SyncSystem

// Answers requests of the control API.
extension ControlServer {
    /// Most **bytes** of a request's body.
    static let bodyLimit = 1 << 20

    func respond(to request: HTTPRequest) async -> HTTPResponse {
        var response: HTTPResponse
        do throws(ControlError) { response = try await answer(request) } catch {
            logger.debug("\(escaped(request.method)) \(redacted(url: request.path)): \(error.message)")
            response = Self.response(error)
        }
        response.headers[Self.versionHeader] = version
        response.headers[.date] = HTTPDate(seconds: now()).description
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func answer(_ request: HTTPRequest) async throws(ControlError) -> HTTPResponse {
        guard Self.mayAsk(request.peerUser, agentOf: CurrentProcess.user) else {
            logger.warning("refused a connection of another user")
            return Self.response(
                ControlError(.refused, "This agent belongs to another user.", exitStatus: .refused), status: 403)
        }
        let route: Route
        do throws(Route.Refusal) { route = try Route(method: request.method, target: request.target) } catch {
            return Self.response(error, request)
        }
        return try await answer(route, request)
    }

    /// Whether the agent answers a user: only its own user and root, as the kernel names them.
    static func mayAsk(_ peer: UInt32?, agentOf user: UInt32) -> Bool { peer == user || peer == 0 }

    private func answer(_ route: Route, _ request: HTTPRequest) async throws(ControlError) -> HTTPResponse {
        switch route {
        case .agent: return try Self.json(await control.status())
        case .stopAgent:
            let command = try body([String: AgentStop].self, ControlKeys(only: "mode"), of: request)
            if let mode = command["mode"] { await control.stop(mode) }
            return HTTPResponse(status: 202)
        case .sessions: return try Self.json(["sessions": await control.sessions()])
        case .session(let name): return try Self.json(await control.session(name))
        case .enqueue:
            let reply = try await control.enqueue(body(EnqueueRequest.self, EnqueueRequest.keys, of: request))
            return try Self.json(reply, status: reply.isNew ? 201 : 200)
        case .pause(let name):
            try requireNothing(of: request)
            return try Self.json(await control.pause(name))
        case .resume(let name):
            try requireNothing(of: request)
            return try Self.json(await control.resume(name))
        case .cancel(let name):
            try requireNothing(of: request)
            return try Self.json(await control.cancel(name))
        case .prioritize(let name):
            let command = try body([String: [String]].self, ControlKeys(only: "paths"), of: request)
            return try Self.json(await control.prioritize(name, paths: command["paths"] ?? []))
        case .remove(let name, let files):
            try requireNothing(of: request)
            try await control.remove(name, files: files)
            return HTTPResponse(status: 204)
        case .hooks(let session): return try Self.json(["hooks": await control.hooks(session: session)])
        case .replay(let number):
            try requireNothing(of: request)
            return try Self.json(await control.replay(hook: number))
        case .metrics:
            let text = try await control.metrics()
            return HTTPResponse(
                status: 200, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
                body: .bytes(Array(text.utf8)))
        case .requests(let name): return try Self.json(await control.requests(of: name))
        case .tasks(let name, let state, let path):
            return try stream(await control.tasks(of: name, state: state, path: path))
        case .events(let name, let since, let follow, let progress):
            return try stream(await control.events(of: name, since: since, follow: follow, progress: progress))
        }
    }

    /// Refuses whatever is said to a command that takes nothing.
    private func requireNothing(of request: HTTPRequest) throws(ControlError) {
        if request.body?.isEmpty != true { _ = try body([String: Bool].self, ControlKeys(of: [Int]()), of: request) }
    }

    private func body<Value: Decodable>(_ type: Value.Type, _ keys: ControlKeys, of request: HTTPRequest)
        throws(ControlError) -> Value
    {
        guard let bytes = request.body else {
            throw ControlError(.invalid, "The request's body is longer than 1 MiB.", exitStatus: .usage)
        }
        return try keys.decode(type, from: bytes)
    }
}

// MARK: Answers

extension ControlServer {
    private static let versionHeader = HTTPFields.Name("Syncagent-Version")

    private static func json(_ value: some Encodable, status: Int = 200) throws(ControlError) -> HTTPResponse {
        var bytes = try value.controlJSON()
        bytes.append(0x0A)
        return HTTPResponse(status: status, headers: [.contentType: "application/json"], body: .bytes(bytes))
    }

    /// The response for an error, with the status for its code unless another is given.
    private static func response(_ error: ControlError, status: Int? = nil) -> HTTPResponse {
        // Codable structs of text and one number: encoding them does not fail.
        (try? json(["error": error], status: status ?? self.status(of: error.code))) ?? HTTPResponse(status: 500)
    }

    private static func response(_ refusal: Route.Refusal, _ request: HTTPRequest) -> HTTPResponse {
        switch refusal {
        case .notFound:
            let what = "There is no \(redacted(url: request.path)) here."
            return response(ControlError(.notFound, what, exitStatus: .noInput))
        case .badQuery(let message): return response(ControlError(.invalid, message, exitStatus: .usage))
        case .methodNotAllowed(let allowed):
            let what = "\(escaped(request.method)) is not allowed here; \(allowed) is."
            var answer = response(ControlError(.invalid, what, exitStatus: .usage), status: 405)
            answer.headers[.allow] = allowed
            return answer
        }
    }

    private static func status(of code: ControlError.Code) -> Int {
        switch code {
        case .unknownSession, .notFound: 404
        case .busy, .refused: 409
        case .invalid: 400
        case .stopping: 503
        case .unreachable: 502
        case .failed: 422
        case .internal: 500
        }
    }
}
