import CCurl
import Foundation
import SyncControl
import SyncModel
import SyncSystem

/// One request to the agent and its answer, over the Unix socket. libcurl's easy interface, on a thread of its own.
struct Exchange: Sendable {
    var socketPath: String
    var method: String
    /// Path and query, percent-encoded.
    var target: String
    var body: [UInt8]?
    /// Longest time for the whole exchange in **milliseconds**; `nil` for streams.
    var timeout: Int?

    /// Longest time to connect in **milliseconds**: a living agent accepts at once.
    private static let connectTimeout = 5_000

    /// What receives an answer's body.
    protocol Receiver: AnyObject {
        /// Takes bytes of a body with this status; `false` ends the exchange. May wait.
        func receive(_ bytes: UnsafeRawBufferPointer, status: Int) -> Bool
    }

    /// What libcurl's callbacks know. Lives on the exchange's thread.
    private final class Call {
        let easy: UnsafeMutableRawPointer
        let receiver: any Receiver
        let cancellation: StopFlag
        private var socket: Int32 = -1
        /// Whose agent it is, where it is not this user's: it was told nothing.
        private(set) var stranger: uid_t?

        init(easy: UnsafeMutableRawPointer, receiver: any Receiver, cancellation: StopFlag) {
            self.easy = easy
            self.receiver = receiver
            self.cancellation = cancellation
        }

        var status: Int {
            var code = 0
            _ = sa_curl_get_long(easy, CURLINFO_RESPONSE_CODE, &code)
            return code
        }

        /// Makes a socket for libcurl, which closes it. `CURLOPT_OPENSOCKETFUNCTION`.
        func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> Int32 {
            let place = address.pointee
            #if os(Linux)
                let type = place.socktype | Int32(SOCK_CLOEXEC.rawValue)
            #else
                let type = place.socktype
            #endif
            socket = Foundation.socket(place.family, type, place.protocol)
            return socket
        }

        /// Looks who is at the other end, before a byte is sent. `CURLOPT_PREREQFUNCTION`.
        func isOwn() -> Bool {
            let peer = peerUser(of: socket)
            if peer == geteuid() { return true }
            stranger = peer ?? .max
            return false
        }

        static func of(_ context: UnsafeMutableRawPointer) -> Call {
            Unmanaged<Call>.fromOpaque(context).takeUnretainedValue()
        }
    }

    private static let isReady = sa_curl_global_init() == CURLE_OK

    /// Runs the exchange on the calling thread, which waits.
    ///
    /// - Parameter cancellation: Seen within a second.
    /// - Returns: The answer's status.
    /// - Throws: ``ControlError`` with code `unreachable`; `CancellationError`.
    func perform(_ receiver: any Receiver, _ cancellation: StopFlag) throws -> Int {
        guard Self.isReady, let easy = curl_easy_init() else {
            throw ControlError(.internal, "libcurl does not start.", exitStatus: .internalError)
        }
        defer { curl_easy_cleanup(easy) }
        let call = Call(easy: easy, receiver: receiver, cancellation: cancellation)
        var headers = curl_slist_append(nil, "Content-Type: application/json")
        headers = curl_slist_append(headers, "Expect:")
        defer { curl_slist_free_all(headers) }
        try configure(easy, call, headers)

        let code = withExtendedLifetime(call) { curl_easy_perform(easy) }
        if cancellation.isSet { throw CancellationError() }
        if let stranger = call.stranger { throw foreign(stranger) }
        // The receiver ended it: what came is what it wanted.
        guard code == CURLE_OK || code == CURLE_WRITE_ERROR else { throw unreachable(code) }
        return call.status
    }

    private func configure(
        _ easy: UnsafeMutableRawPointer,
        _ call: Call,
        _ headers: UnsafeMutablePointer<curl_slist>?
    ) throws {
        var codes = [
            sa_curl_set_string(easy, CURLOPT_UNIX_SOCKET_PATH, socketPath),
            // The host is only a word here; the socket decides whom we talk to.
            sa_curl_set_string(easy, CURLOPT_URL, "http://syncagent" + target),
            sa_curl_set_string(easy, CURLOPT_PROTOCOLS_STR, "http"),
            sa_curl_set_long(easy, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)),
            sa_curl_set_long(easy, CURLOPT_FOLLOWLOCATION, 0),
            // http_proxy of the environment is not meant for this.
            sa_curl_set_string(easy, CURLOPT_PROXY, ""),
            sa_curl_set_long(easy, CURLOPT_NOSIGNAL, 1),
            sa_curl_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, Self.connectTimeout),
            sa_curl_set_long(easy, CURLOPT_TIMEOUT_MS, timeout ?? 0),
            sa_curl_set_string(easy, CURLOPT_CUSTOMREQUEST, method),
            sa_curl_set_list(easy, CURLOPT_HTTPHEADER, headers),
            sa_curl_set_long(easy, CURLOPT_NOPROGRESS, 0),
        ]
        if let body {
            codes.append(sa_curl_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, body.count))
            // Copied, so the array need not outlive the call. CURLOPT_COPYPOSTFIELDS.
            let copied = body.withUnsafeBytes { bytes in
                sa_curl_set_pointer(
                    easy,
                    CURLOPT_COPYPOSTFIELDS,
                    UnsafeMutableRawPointer(mutating: bytes.baseAddress)
                )
            }
            codes.append(copied)
        }
        let context = Unmanaged.passUnretained(call).toOpaque()
        codes.append(sa_curl_set_pointer(easy, CURLOPT_WRITEDATA, context))
        codes.append(sa_curl_set_pointer(easy, CURLOPT_XFERINFODATA, context))
        codes.append(sa_curl_set_pointer(easy, CURLOPT_OPENSOCKETDATA, context))
        codes.append(sa_curl_set_pointer(easy, CURLOPT_PREREQDATA, context))
        codes.append(
            sa_curl_set_opensocket(easy) { context, _, address in
                guard let context, let address else { return sa_curl_socket_bad() }
                return Call.of(context).open(address)
            }
        )
        codes.append(
            sa_curl_set_prereq(easy) { context, _, _, _, _ in
                guard let context else { return CURL_PREREQFUNC_ABORT }
                return Call.of(context).isOwn() ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
            }
        )
        codes.append(
            sa_curl_set_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let call = Call.of(context)
                let buffer = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return call.receiver.receive(buffer, status: call.status) ? buffer.count : 0
            }
        )
        // Called about once a second even when nothing moves: CURLOPT_XFERINFOFUNCTION.
        codes.append(
            sa_curl_set_progress(easy) { context, _, _, _, _ in
                guard let context else { return 1 }
                return Call.of(context).cancellation.isSet ? 1 : 0
            }
        )
        guard codes.allSatisfy({ $0 == CURLE_OK }) else {
            throw ControlError(
                .unreachable,
                "The agent's socket cannot be asked: \(escaped(socketPath)). Is the path longer than 107 bytes?",
                exitStatus: .configuration
            )
        }
    }

    private func foreign(_ user: uid_t) -> ControlError {
        ControlError(
            .refused,
            "\(escaped(socketPath)) is another user's (uid \(user)), and was asked nothing. Set XDG_RUNTIME_DIR and "
                + "XDG_STATE_HOME to directories of your own; with sudo, use 'sudo -H' without -E.",
            exitStatus: .refused
        )
    }

    private func unreachable(_ code: CURLcode) -> ControlError {
        let place = escaped(socketPath)
        switch code {
        case CURLE_COULDNT_CONNECT:
            return ControlError(.unreachable, "No agent answers at \(place).", exitStatus: .unavailable)
        case CURLE_OPERATION_TIMEDOUT:
            return ControlError(
                .unreachable,
                "The agent at \(place) does not answer in time.",
                exitStatus: .unavailable
            )
        default:
            let reason = String(cString: curl_easy_strerror(code))
            return ControlError(
                .unreachable,
                "The connection to the agent at \(place) broke: \(reason).",
                exitStatus: .unavailable
            )
        }
    }
}

extension Exchange {
    /// Gathers a whole body, up to a bound.
    private final class Collector: Receiver {
        var bytes: [UInt8] = []
        private static let limit = 64 << 20

        func receive(_ bytes: UnsafeRawBufferPointer, status: Int) -> Bool {
            self.bytes.append(contentsOf: bytes)
            return self.bytes.count <= Self.limit
        }
    }

    /// Runs the exchange without holding up the caller's thread.
    ///
    /// - Returns: The body of an answer that is no error.
    /// - Throws: ``ControlError``, the agent's own among them; `CancellationError`.
    func answer() async throws -> [UInt8] {
        do {
            return try await onThread("agent call") { flag in
                let collector = Collector()
                let status = try perform(collector, flag)
                guard status < 300 else { throw Self.error(status, collector.bytes) }
                return collector.bytes
            }
        } catch let error as ThreadError {
            throw Self.failure(error)
        }
    }

    static func failure(_ error: ThreadError) -> ControlError {
        ControlError(.failed, "\(error)", exitStatus: .unavailable)
    }

    /// What the agent says went wrong.
    static func error(_ status: Int, _ bytes: [UInt8]) -> ControlError {
        if let answer = try? ControlJSON.decode(ErrorAnswer.self, from: bytes) { return answer.value }
        return ControlError(
            .internal,
            "The agent answered with HTTP status \(status).",
            exitStatus: .internalError
        )
    }
}
