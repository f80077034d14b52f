import CCurl
import SyncCurl
import SyncModel

extension CurlWorker {
    /// Why an exchange ended badly; `nil` when it did not. libcurl's "OK" is not believed beyond that: whether
    /// the body is whole is counted by us (techniques: 7.88 reports success for ended HTTP/2 streams).
    func fault(of exchange: Exchange, result: CURLcode) -> Fault? {
        if exchange.refusedAddress, !exchange.isAnswered {
            let host = exchange.plan.chain.current.origin.host
            return Fault(.policy, "\(host) has a private address, and a public server led there")
        }
        if let fault = exchange.fault { return fault }
        if result == CURLE_OK || exchange.isServed { return nil }
        let text = exchange.easy.message(for: result)
        let tunnel = exchange.easy.long(CURLINFO_HTTP_CONNECTCODE)
        if [401, 403, 407].contains(tunnel), !exchange.isConnected {
            return Fault(.proxyAuthentication, "the proxy refuses the tunnel (\(tunnel))")
        }
        return Fault(kind(of: result, text: text, exchange), text)
    }

    private func kind(of code: CURLcode, text: String, _ exchange: Exchange) -> Fault.Kind {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT,
            CURLE_INTERFACE_FAILED, CURLE_PROXY:
            .unreachable
        case CURLE_OPERATION_TIMEDOUT: exchange.isConnected ? .idle : .unreachable
        case CURLE_SSL_CONNECT_ERROR: isTLSRefusal(text) ? .tls : .unreachable
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_CIPHER,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CRL_BADFILE, CURLE_SSL_INVALIDCERTSTATUS,
            CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED,
            CURLE_SSL_CLIENTCERT, CURLE_USE_SSL_FAILED:
            .tls
        case CURLE_RECV_ERROR where text.contains("chunked-encoding"): .malformed
        case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE, CURLE_HTTP2,
            CURLE_HTTP2_STREAM:
            .broken
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING: .malformed
        // A header line beyond libcurl's own bound.
        case CURLE_OUT_OF_MEMORY where exchange.isConnected && !exchange.isAnswered: .malformed
        default: .libcurl
        }
    }

    /// A handshake that was refused, and not one that was cut off.
    private func isTLSRefusal(_ text: String) -> Bool {
        ["alert", "version", "unsupported", "no protocols", "handshake failure", "certificate", "cipher"]
            .contains { text.contains($0) }
    }
}

extension RedirectChain.Refusal {
    var fault: Fault {
        switch self {
        case .tooMany(let limit): Fault(.redirect, "more than \(limit) redirects")
        case .cycle(let url):
            Fault(.redirect, "redirects in a circle, to \(SyncModel.redacted(url: url)) again")
        case .badLocation(let reason): Fault(.redirect, "a redirect without a usable target: \(reason)")
        case .downgrade(let from, let to):
            Fault(
                .policy,
                "a redirect from https to http, \(SyncModel.redacted(url: from)) to \(SyncModel.redacted(url: to))"
            )
        }
    }
}

/// For events and errors.
func redacted(_ url: CurlURL) -> String { SyncModel.redacted(url: url.text) }

extension CurlURL {
    /// Whether the query is a signature: such a URL carries its own authority, and another one breaks it.
    package var isSigned: Bool {
        guard let query else { return false }
        return query.split(separator: "&").contains { parameter in
            let name = parameter.prefix { $0 != "=" }.lowercased()
            return ["x-amz-signature", "x-goog-signature", "signature", "sig", "key-pair-id"].contains(name)
        }
    }
}
