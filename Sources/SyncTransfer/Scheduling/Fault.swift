import CCurl
import COpenSSL
package import SyncModel
package import SyncPlugins
import SyncSystem

/// A remedy for a fault.
package enum TransferAdvice: Hashable, Sendable, CaseIterable {
    /// The server asks for credentials.
    case nameCredentials
    /// The server refuses the credentials that were sent.
    case renewCredentials
    /// Access is refused: credentials are missing, or a link has expired.
    case checkAccess
    /// The object does not exist: look at what was uploaded.
    case checkUpload
    /// The server is overloaded or broken.
    case waitForServer
    /// The proxy asks for credentials.
    case nameProxyCredentials
    /// The proxy refuses the credentials that were sent.
    case renewProxyCredentials
    /// The proxy does not allow the server, or is not a proxy.
    case askProxyOwner, checkProxy
    /// A captive portal wants a login.
    case logIn
    /// The server compresses content that must be sent unchanged.
    case sendUncompressed
    /// The server has another version, or an incomplete one.
    case checkVersion
    /// The certificate is from an unknown authority.
    case nameAuthority
    /// An http port received a TLS request, or the other way round.
    case isPlainHTTP, isTLS
    /// The server speaks no version of TLS that is accepted here.
    case checkTLSVersion
    /// No CA certificates can be read.
    case installAuthorities
    /// This machine's own certificate and key do not go together, or cannot be read.
    case checkKey
    /// The certificate is not yet valid.
    case checkClock
    /// The certificate has expired.
    case renewCertificate
    /// A policy forbids http after https, or a private address that a public server names.
    case allowDowngrade, allowPrivateTarget
    /// Redirects lead in a circle.
    case leaveLoop
    /// The server wants a cookie back before it stops redirecting, as for a log-in or consent page.
    case doWithoutCookie
}

/// The fault of one attempt.
package struct Fault: Error, Equatable, Sendable {
    /// The kind of fault, which selects the row of the retry table.
    package enum Kind: Hashable, Sendable {
        /// The name, route, port or TLS handshake failed: nothing was reached.
        case unreachable
        /// The server was reached, then sent no byte for the idle time.
        case idle
        /// Bytes arrive, but fewer than the minimum speed.
        case slow
        /// Reset, closed early, or an HTTP/2 stream ended.
        case broken
        /// The peer cannot be trusted or speaks no allowed version.
        case tls
        /// A final status that is neither success nor redirect.
        case status(Int)
        /// The proxy requires other credentials.
        case proxyAuthentication
        /// An answer that breaks HTTP.
        case malformed
        /// An answer in a coding or form that was not asked for.
        case unwantedForm
        /// A 206 or 416 that does not fit the requested range.
        case wrongRange
        /// Another length than the manifest's: an old version, or another object.
        case otherSize
        /// A web page in place of the object, from another host.
        case captivePortal
        /// A redirect that breaks a rule of the chain.
        case redirect
        /// A redirect that a policy forbids.
        case policy
        /// More bytes than allowed.
        case tooLarge
        /// The sink wants bytes from before the start of the answer.
        case rewound
        /// Another exchange has the whole object already.
        case superseded
        /// The server supports no ranges, and most of this object is not wanted.
        case noRanges
        /// The sink ended the transfer.
        case stopped
        /// libcurl failed for a reason with no better name.
        case libcurl
    }

    package let kind: Kind
    /// One line for people.
    package let detail: String
    /// **Seconds** to wait, as the server requested.
    package var retryAfter: Int64?
    /// `WWW-Authenticate` of a 401: the server's words, not for display.
    package private(set) var challenge: String?
    /// The advice, where ``kind`` does not imply it.
    private let given: TransferAdvice?

    package init(
        _ kind: Kind, _ detail: String, retryAfter: Int64? = nil, challenge: String? = nil,
        advice: TransferAdvice? = nil
    ) {
        self.kind = kind
        self.challenge = challenge
        given = advice
        self.detail = escaped(detail)  // Parts of it are the server's words.
        self.retryAfter = retryAfter
    }

    /// The detail, with advice if there is any.
    ///
    /// - Parameter words: The wording of the caller of the transport, which alone knows its options.
    package func message(_ words: (TransferAdvice) -> String?) -> String {
        advice.flatMap(words).map { "\(detail); \($0)" } ?? detail
    }

    /// A remedy for the user.
    package var advice: TransferAdvice? {
        if let given { return given }
        return switch kind {
        case .status(401): .nameCredentials
        case .status(403): .checkAccess
        case .status(404), .status(410): .checkUpload
        case .captivePortal, .status(511): .logIn
        case .status(429), .status(500...): .waitForServer
        case .proxyAuthentication: .nameProxyCredentials
        case .otherSize, .tooLarge: .checkVersion
        default: nil
        }
    }

    /// The status of the answer, if that was the fault.
    package var status: Int? { if case .status(let status) = kind { status } else { nil } }

    /// Whether the fault says something about the host, and so about its other objects. Objects that a host does not
    /// have, or refuses to us, may belong to another project.
    package var isOfHost: Bool {
        switch kind {
        case .unreachable, .idle, .slow, .broken, .tls, .malformed: true
        case .status: remedy() == .again
        case .proxyAuthentication, .unwantedForm, .wrongRange, .otherSize, .captivePortal, .redirect, .policy,
            .tooLarge, .rewound, .superseded, .noRanges, .stopped, .libcurl:
            false
        }
    }

    /// The cause, where ``code`` is not specific enough; else `nil`.
    package var cause: FailureCause? {
        switch kind {
        case .broken: .unreachable
        case .captivePortal, .status(511): .loginPage
        default: nil
        }
    }

    /// The code that the caller of the transport gets when no attempt remains.
    package var code: TransferError.Code {
        switch kind {
        case .unreachable: .unreachable
        case .idle, .slow: .timedOut
        case .broken, .malformed, .unwantedForm, .wrongRange, .otherSize, .captivePortal, .rewound, .superseded,
            .noRanges:
            .badAnswer
        case .tls: .tls
        case .status(401), .status(403), .proxyAuthentication: .authentication
        case .status(let status): .badStatus(status)
        case .redirect: .redirectRefused
        case .policy: .refusedByPolicy
        case .tooLarge: .tooLarge
        case .stopped: .stoppedBySink
        case .libcurl: .misuse
        }
    }
}

extension Fault {
    /// The fault of an exchange; `nil` if it ended well. libcurl's "OK" is not enough: whether the body is complete is
    /// counted here (libcurl 7.88 reports success for ended HTTP/2 streams).
    init?(of exchange: Exchange, result: CURLcode) {
        // If the name has public addresses, too, one of those may have been requested.
        if exchange.refusedAddress, !exchange.isAnswered, !exchange.answeredFromPublic {
            let host = exchange.plan.chain.current.origin.host
            self.init(
                .policy, "\(host) has a private address, and a public server led there", advice: .allowPrivateTarget)
            return
        }
        if let fault = exchange.fault {
            self = fault.attributed(to: exchange)
            return
        }
        if exchange.isServed { return nil }
        if result == CURLE_OK {
            // libcurl 7.88 takes a head that is cut off behind its first line for an answer with an empty body.
            if exchange.isAnswered { return nil }
            self.init(.broken, "the connection ended within the head of the answer")
            return
        }
        if let fault = Self.ofProxy(result, exchange) {
            self = fault
            return
        }
        let text = Self.withoutTime(exchange.easy.message(for: result))
        let kind = Self.kind(of: result, text: text, exchange)
        var advice = Self.advice(on: result, text: text, exchange)
        if advice == .isTLS, exchange.plan.answeringProxy != nil { advice = .checkProxy }
        let way = exchange.plan.proxy.map { " (through \($0.named))" } ?? ""
        self.init(kind, text + way, advice: advice)
    }

    /// The fault with what the request adds about its origin: whether credentials were sent, and whether a proxy may
    /// have answered in the server's place.
    private func attributed(to exchange: Exchange) -> Fault {
        let plan = exchange.plan
        if kind == .proxyAuthentication, let proxy = plan.proxy { return Self.refusal(by: proxy, 407) }
        guard let status else { return self }
        var (detail, given) = (detail, given)
        let isSigned = exchange.host.credential.isSignature
        if plan.showsCredentials, [401, 403].contains(status) || status == 400 && isSigned {
            detail += ", the credentials \(status == 400 ? "or their region " : "")are refused"
            // A signature is valid for some minutes.
            let sent = isSigned ? exchange.headers.date.flatMap { HTTPDate($0) } : nil
            given = sent.map { abs($0.seconds - plan.unixTime) > 600 } == true ? .checkClock : .renewCredentials
        }
        if let proxy = plan.answeringProxy {
            detail += " (the server's, or that of \(proxy.named))"
        }
        return Fault(kind, detail, retryAfter: retryAfter, challenge: challenge, advice: given)
    }

    /// The fault of a proxy that did not connect to the server; `nil` without a proxy, or if it did.
    private static func ofProxy(_ result: CURLcode, _ exchange: Exchange) -> Fault? {
        guard let proxy = exchange.plan.proxy, !exchange.isConnected else { return nil }
        switch exchange.easy.long(CURLINFO_HTTP_CONNECTCODE) {
        case 200..<300: return nil
        case let status where status > 0: return refusal(by: proxy, status)
        default: break
        }
        // With SOCKS, only these codes show that the server was not reached.
        let isSocks = proxy.url.lowercased().hasPrefix("socks")
        guard !isSocks || [CURLE_COULDNT_CONNECT, CURLE_COULDNT_RESOLVE_PROXY, CURLE_PROXY].contains(result) else {
            return nil
        }
        let text = withoutTime(exchange.easy.message(for: result))
        let kind = kind(of: result, text: text, exchange)
        return Fault(kind, "\(proxy.named): \(text)", advice: advice(on: result, text: text, exchange))
    }

    /// The fault for a proxy's answer to a request for a tunnel.
    private static func refusal(by proxy: ProxyConfiguration, _ status: Int) -> Fault {
        let name = proxy.named
        return switch status {
        case 401, 407:
            proxy.user == nil
                ? Fault(.proxyAuthentication, "\(name) requires credentials (\(status))")
                : Fault(
                    .proxyAuthentication, "\(name) refuses the credentials (\(status))", advice: .renewProxyCredentials)
        case 403: Fault(.proxyAuthentication, "\(name) does not allow it (\(status))", advice: .askProxyOwner)
        case 502, 503, 504: Fault(.unreachable, "\(name) cannot reach it (\(status))")
        default: Fault(.broken, "\(name) gives no tunnel (\(status))", advice: .checkProxy)
        }
    }

    /// The message without its time, such as `after 3 ms`, which would make every attempt a different cause.
    private static func withoutTime(_ text: String) -> String {
        var words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard let place = words.indices.dropLast(2).first(where: { words[$0] == "after" && $0 > 0 }),
            Int(words[place + 1]) != nil, words[place + 2].hasPrefix("ms")
        else { return text }
        let end = words[place + 2].dropFirst(2)
        words.removeSubrange(place...(place + 2))
        words[place - 1] += end
        return words.joined(separator: " ")
    }

    /// The advice on an error of libcurl.
    ///
    /// For a certificate, OpenSSL's number says what is wrong: CURLINFO_SSL_VERIFYRESULT, `<openssl/x509_vfy.h>`. For a
    /// port that speaks another protocol, there are only words.
    private static func advice(on code: CURLcode, text: String, _ exchange: Exchange) -> TransferAdvice? {
        switch code {
        case CURLE_SSL_CACERT_BADFILE: return .installAuthorities
        case CURLE_SSL_CERTPROBLEM: return .checkKey
        case CURLE_SSL_CONNECT_ERROR
        where text.contains("wrong version number") || text.contains("packet length too long"): return .isPlainHTTP
        case CURLE_SSL_CONNECT_ERROR
        where text.contains("alert protocol version") || text.contains("unsupported protocol"): return .checkTLSVersion
        // The client's own certificate.
        case CURLE_SSL_CONNECT_ERROR where text.contains("alert certificate expired"): return .renewCertificate
        case CURLE_UNSUPPORTED_PROTOCOL where text.contains("HTTP/0.9"): return .isTLS
        case CURLE_PEER_FAILED_VERIFICATION: break
        default: return nil
        }
        // The proxy's result first: the server's may be from the handle's last use, if its handshake was never begun.
        let results = [CURLINFO_PROXY_SSL_VERIFYRESULT, CURLINFO_SSL_VERIFYRESULT].map(exchange.easy.long)
        return switch Int32(clamping: results.first { $0 != 0 } ?? 0) {
        case X509_V_ERR_CERT_NOT_YET_VALID: .checkClock
        case X509_V_ERR_CERT_HAS_EXPIRED: .renewCertificate
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_CERT_UNTRUSTED:
            .nameAuthority
        default: nil
        }
    }

    private static func kind(of code: CURLcode, text: String, _ exchange: Exchange) -> Kind {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED,
            CURLE_PROXY:
            .unreachable
        case CURLE_OPERATION_TIMEDOUT: exchange.isConnected ? .idle : .unreachable
        case CURLE_SSL_CONNECT_ERROR: isTLSRefusal(text) ? .tls : .unreachable
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CRL_BADFILE, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_PINNEDPUBKEYNOTMATCH,
            CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_CLIENTCERT, CURLE_USE_SSL_FAILED:
            .tls
        case CURLE_RECV_ERROR where text.contains("chunked-encoding"): .malformed
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE, CURLE_HTTP2, CURLE_HTTP2_STREAM:
            .broken
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING: .malformed
        // A header line longer than libcurl's limit.
        case CURLE_OUT_OF_MEMORY where exchange.isConnected && !exchange.isAnswered: .malformed
        default: .libcurl
        }
    }

    /// Whether a handshake was refused rather than cut off, by libcurl's words for it. The words behind the host's name
    /// are not examined: a host may have any name.
    static func isTLSRefusal(_ text: String) -> Bool {
        let told = text.split(separator: " in connection to ", maxSplits: 1).first ?? ""
        return [
            "alert", "version", "unsupported", "no protocols", "handshake failure", "certificate", "cipher",
            "packet length too long",
        ].contains { told.contains($0) }
    }
}
