import CCurl
import Foundation
import SyncModel
import SyncSystem

// One request to the agent and its answer, over the Unix socket.
extension ControlClient {
    /// Longest time to connect in **milliseconds**: a living agent accepts at once.
    private static let connectTimeout = 5_000

    /// How often the call checks for cancellation while nothing arrives, in **milliseconds**.
    private static let pollInterval: Int32 = 1_000

    /// Most **bytes** of a response body.
    private static let limit = 64 << 20

    /// Runs a call on the calling thread, which waits.
    ///
    /// - Parameters:
    ///   - target: Path and query, percent-encoded.
    ///   - timeout: Longest time for the whole call in **milliseconds**; `nil` for streams.
    ///   - cancellation: Noticed within a second.
    ///   - receive: Takes bytes of a body, with the response's status; `false` ends the call. May block.
    /// - Returns: The response's status.
    /// - Throws: ``ControlError`` with code `unreachable`; `CancellationError`.
    func perform(
        _ method: String, _ target: String, _ body: [UInt8]? = nil, timeout: Int? = nil, until cancellation: StopFlag,
        receive: @escaping (UnsafeRawBufferPointer, Int) -> Bool
    ) throws -> Int {
        // libcurl would look for a host of that name.
        guard UnixAddress(socketPath) != nil else {
            throw ControlError(
                .failed,
                "The path of the agent's socket is longer than \(UnixAddress.longestPath) bytes: \(escaped(socketPath)). "
                    + "Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, to a shorter directory.", exitStatus: .configuration)
        }
        let call: HTTPCall
        do throws(CurlError) { call = try prepared(method, target, body) } catch {
            throw ControlError(
                .unreachable, "Cannot connect to the agent's socket \(escaped(socketPath)): \(error)",
                exitStatus: .configuration)
        }
        // Checks the peer before a byte is sent: it may be another user's agent.
        var otherUser: uid_t?
        call.mayUse = { socket in
            let peer = peerUser(of: socket)
            if peer == CurrentProcess.user { return true }
            otherUser = peer ?? .max
            return false
        }
        let end: HTTPCall.End
        do throws(CurlError) {
            end = try call.perform(
                until: timeout.map { ContinuousClock.now + .milliseconds($0) }, every: Self.pollInterval,
                isStopped: { cancellation.isSet }, receive: receive)
        } catch { throw ControlError(.internal, "libcurl cannot be initialized.", exitStatus: .internalError) }
        if cancellation.isSet { throw CancellationError() }
        if let otherUser { throw foreign(otherUser) }
        switch end {
        case .answered(let status): return status
        case .failed(let code): throw unreachable(code)
        case .timedOut: throw unreachable(CURLE_OPERATION_TIMEDOUT)
        case .stopped: throw CancellationError()
        }
    }

    private func prepared(_ method: String, _ target: String, _ body: [UInt8]?) throws(CurlError) -> HTTPCall {
        // The host is only a placeholder; the socket determines the peer.
        let call = try HTTPCall(
            "http://syncagent" + target, method: method, headers: ["Content-Type: application/json"], body: body)
        try call.easy.set(CURLOPT_UNIX_SOCKET_PATH, socketPath)
        try call.easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Self.connectTimeout)
        return call
    }

    private func foreign(_ user: uid_t) -> ControlError {
        ControlError(
            .refused,
            "\(escaped(socketPath)) belongs to another user (uid \(user)); nothing was sent to it. Set XDG_RUNTIME_DIR and "
                + "XDG_STATE_HOME to directories of your own; with sudo, use 'sudo -H' without -E.",
            exitStatus: .refused)
    }

    private func unreachable(_ code: CURLcode) -> ControlError {
        let place = escaped(socketPath)
        switch code {
        case CURLE_COULDNT_CONNECT:
            return ControlError(.unreachable, "No agent answers at \(place).", exitStatus: .unavailable)
        case CURLE_OPERATION_TIMEDOUT:
            return ControlError(.unreachable, "The agent at \(place) did not answer in time.", exitStatus: .unavailable)
        default:
            let reason = String(cString: curl_easy_strerror(code))
            return ControlError(
                .unreachable, "The connection to the agent at \(place) was lost: \(reason).", exitStatus: .unavailable)
        }
    }

    /// Runs a call without blocking the caller's thread.
    ///
    /// - Returns: The body of a successful response.
    /// - Throws: ``ControlError``, also from the agent; `CancellationError`.
    func answer(_ method: String, _ target: String, _ body: [UInt8]? = nil, timeout: Duration? = nil) async throws
        -> [UInt8]
    {
        let seconds = min(max(0.001, (timeout ?? self.timeout) / .seconds(1)), 86_400)
        do {
            return try await onThread("agent call") { flag in
                var answer: [UInt8] = []
                let status = try perform(method, target, body, timeout: Int(seconds * 1_000), until: flag) {
                    bytes, _ in
                    answer.append(contentsOf: bytes)
                    return answer.count <= Self.limit
                }
                guard status < 300 else { throw Self.error(status, answer) }
                return answer
            }
        } catch let error as ThreadError { throw Self.failure(error) }
    }

    static func failure(_ error: ThreadError) -> ControlError {
        ControlError(.failed, "\(error)", exitStatus: .unavailable)
    }

    /// The error in the agent's response.
    static func error(_ status: Int, _ bytes: [UInt8]) -> ControlError {
        ControlError(body: bytes)
            ?? ControlError(.internal, "The agent answered with HTTP status \(status).", exitStatus: .internalError)
    }
}
