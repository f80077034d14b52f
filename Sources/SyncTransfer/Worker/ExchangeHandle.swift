import CCurl
import SyncPlugins
import SyncSystem

extension EasyHandle {
    /// Sets the options that all transfers share, once per handle.
    func applyDefaults(
        _ configuration: TransportConfiguration, kind: HandleKind, origin: Origin, credential: Credential.Kind?
    ) throws(CurlError) {
        try restrictProtocols()
        try set(CURLOPT_NOSIGNAL, 1)  // Signals and threads do not mix: CURLOPT_NOSIGNAL.
        try set(CURLOPT_NOPROGRESS, 1)
        // Do not wait for a resolver thread whose name server is silent. CURLOPT_QUICK_EXIT.
        try set(CURLOPT_QUICK_EXIT, 1)
        try set(CURLOPT_BUFFERSIZE, configuration.bufferSize)
        try set(CURLOPT_TCP_KEEPALIVE, 1)
        try set(CURLOPT_PIPEWAIT, 0)  // It has faults before 8.0.0.
        // A name whose address does not answer may have moved. libcurl would use the old address for a minute, which is
        // longer than any wait here. CURLOPT_DNS_CACHE_TIMEOUT, in seconds.
        try set(CURLOPT_DNS_CACHE_TIMEOUT, 5)
        // 0 would be libcurl's own limit.
        let timeout = min(max(1, configuration.connectTimeout / .milliseconds(1)), Double(Int32.max))
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(timeout))
        try set(CURLOPT_MAXLIFETIME_CONN, 3600)  // Certificates rotate.
        try set(CURLOPT_USERAGENT, configuration.userAgent)
        try set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        try set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        // Do not send the origin's headers in a proxy's CONNECT.
        try set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
        try set(CURLOPT_HTTP_VERSION, kind.http2 ? Int(CURL_HTTP_VERSION_2TLS) : Int(CURL_HTTP_VERSION_1_1))
        try apply(configuration.proxy(for: origin))
        try apply(configuration.tls, showsCertificate: kind.isAtHome)
        if kind.credential != 0, let credential { try apply(credential) }
        try applyCallbacks()
    }

    private func apply(_ credential: Credential.Kind) throws(CurlError) {
        switch credential {
        case .basic(let user, let password):
            try set(CURLOPT_HTTPAUTH, sa_curl_auth_basic())
            try set(CURLOPT_USERNAME, user)
            try set(CURLOPT_PASSWORD, password)
        // Sent as headers of each request: libcurl's own option would keep them on redirects.
        case .bearer, .headers: break
        case .sigV4(let accessKey, let secretKey, _, let region, let service):
            try set(CURLOPT_AWS_SIGV4, "aws:amz:\(region):\(service)")
            try set(CURLOPT_USERNAME, accessKey)
            try set(CURLOPT_PASSWORD, secretKey)
        }
    }

    private func applyCallbacks() throws(CurlError) {
        _ = sa_curl_set_callback(raw, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let exchange = exchange(context) else { return 0 }
            return exchange.receive(UnsafeRawBufferPointer(start: bytes, count: size * count))
        }
        _ = sa_curl_set_callback(raw, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let exchange = exchange(context) else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return exchange.receive(header: line) ? line.count : 0
        }
        _ = sa_curl_set_prereq(raw) { context, address, _, _, _ in
            guard let address, let exchange = exchange(context) else { return CURL_PREREQFUNC_ABORT }
            return exchange.willSend(to: String(cString: address)) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
        }
        _ = sa_curl_set_opensocket(raw) { context, purpose, address in
            guard let address, let exchange = exchange(context) else { return sa_curl_socket_bad() }
            let mayConnect = withUnsafePointer(to: &address.pointee.addr) {
                exchange.mayConnect(isPublicAddress($0))
            }
            return mayConnect ? sa_curl_socket(address, exchange.socketBuffer ?? 0) : sa_curl_socket_bad()
        }
    }

    /// Points the callbacks at an exchange, or at none.
    func attach(_ exchange: Exchange?) throws(CurlError) {
        let pointer = exchange.map { Unmanaged.passUnretained($0).toOpaque() }
        try set(CURLOPT_WRITEDATA, pointer: pointer)
        try set(CURLOPT_HEADERDATA, pointer: pointer)
        try set(CURLOPT_PREREQDATA, pointer: pointer)
        try set(CURLOPT_OPENSOCKETDATA, pointer: pointer)
        try set(CURLOPT_PRIVATE, pointer: pointer)
    }
}

/// The exchange of a callback; the worker keeps it alive until its handle is out of the multi.
func exchange(_ context: UnsafeMutableRawPointer?) -> Exchange? {
    context.map { Unmanaged<Exchange>.fromOpaque($0).takeUnretainedValue() }
}
