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
        return try await answer(routed: request)
    }

    /// Whether the agent answers a user: only its own user and root, as the kernel names them.
    static func mayAsk(_ peer: UInt32?, agentOf user: UInt32) -> Bool { peer == user || peer == 0 }
}

// MARK: Answers

extension ControlServer {
    private static let versionHeader = HTTPFields.Name("Syncagent-Version")

    static func json(_ value: some Encodable, status: Int = 200) throws(ControlError) -> HTTPResponse {
        var bytes = try value.controlJSON()
        bytes.append(0x0A)
        return HTTPResponse(status: status, headers: [.contentType: "application/json"], body: .bytes(bytes))
    }

    /// The response for an error, with the status for its code unless another is given.
    private static func response(_ error: ControlError, status: Int? = nil) -> HTTPResponse {
        // Codable structs of text and one number: encoding them does not fail.
        (try? json(["error": error], status: status ?? self.status(of: error.code))) ?? HTTPResponse(status: 500)
    }

    static func response(_ refusal: Refusal, _ request: HTTPRequest) -> HTTPResponse {
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
