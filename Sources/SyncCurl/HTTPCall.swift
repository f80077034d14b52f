package import CCurl

/// One HTTP request and its answer, on the calling thread, which waits. No redirect is followed, nothing is tried again.
package final class HTTPCall {
    /// How it ended.
    package enum End {
        /// With this status, or because the receiver wanted no more.
        case answered(status: Int)
        /// In libcurl, see ``EasyHandle/message(for:)``.
        case failed(CURLcode)
        /// Nothing had come to an end by the deadline.
        case timedOut
        /// The caller stopped it.
        case stopped
    }

    /// To set what is not set here.
    package let easy: EasyHandle
    /// Looks at a socket before a byte is sent over it, and ends the call with `false`. `CURLOPT_PREREQFUNCTION`.
    package var mayUse: ((Int32) -> Bool)?
    /// Looks at the address of the server, or of the proxy in between, before a byte is sent there, and ends the call with
    /// `false`. `CURLOPT_PREREQFUNCTION`.
    package var mayAsk: ((_ address: String) -> Bool)?
    private var receive: (UnsafeRawBufferPointer, _ status: Int) -> Bool = { _, _ in true }
    private var isFull = false
    private var socket: Int32 = -1

    /// Prepares a request by http or https. It goes through no proxy and with no credentials unless ``easy`` is told so.
    ///
    /// - Parameters:
    ///   - url: Where to.
    ///   - method: As it is sent; `nil` for `POST` with a body and `GET` without.
    ///   - headers: As `Name: value`.
    ///   - body: Copied.
    package init(_ url: String, method: String? = nil, headers: [String], body: [UInt8]?) throws(CurlError) {
        try Libcurl.check()
        easy = try EasyHandle()
        try easy.restrictProtocols()
        try easy.set(CURLOPT_NOSIGNAL, 1)
        try easy.set(CURLOPT_URL, url)
        try easy.set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        try easy.apply(nil as ProxyConfiguration?)
        if let body { try easy.set(copiedBody: body) }
        if let method { try easy.set(CURLOPT_CUSTOMREQUEST, method) }
        try easy.set(headers: headers + ["Expect:"])
        try applyCallbacks()
    }

    private func applyCallbacks() throws(CurlError) {
        // Not retained: libcurl calls back only while it performs, and then `self` is there.
        let context = Unmanaged.passUnretained(self).toOpaque()
        for option in [CURLOPT_WRITEDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA] {
            try easy.set(option, pointer: context)
        }
        _ = sa_curl_set_callback(easy.raw, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let call = HTTPCall.of(context) else { return 0 }
            return call.take(UnsafeRawBufferPointer(start: bytes, count: size * count))
        }
        _ = sa_curl_set_opensocket(easy.raw) { context, _, address in
            guard let address, let call = HTTPCall.of(context) else { return sa_curl_socket_bad() }
            call.socket = sa_curl_socket(address, 0)
            return call.socket
        }
        _ = sa_curl_set_prereq(easy.raw) { context, address, _, _, _ in
            guard let call = HTTPCall.of(context), call.mayUse?(call.socket) != false,
                call.mayAsk?(address.map { String(cString: $0) } ?? "") != false
            else {
                return CURL_PREREQFUNC_ABORT
            }
            return CURL_PREREQFUNC_OK
        }
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> HTTPCall? {
        context.map { Unmanaged<HTTPCall>.fromOpaque($0).takeUnretainedValue() }
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        isFull = !receive(bytes, easy.long(CURLINFO_RESPONSE_CODE))
        return isFull ? 0 : bytes.count
    }

    /// Sends it and waits for the end.
    ///
    /// - Parameters:
    ///   - deadline: `nil` for none.
    ///   - interval: How often `isStopped` is asked while nothing moves, in **milliseconds**.
    ///   - isStopped: Whether the caller wants no answer any more.
    ///   - receive: Takes bytes of the body of an answer with this status; `false` ends the call. May wait.
    package func perform(
        until deadline: ContinuousClock.Instant?, every interval: Int32, isStopped: () -> Bool,
        receive: @escaping (UnsafeRawBufferPointer, _ status: Int) -> Bool
    ) throws(CurlError) -> End {
        guard let multi = MultiHandle() else { throw CurlError(detail: "libcurl has no memory or no descriptors") }
        defer { curl_multi_cleanup(multi.raw) }
        guard curl_multi_add_handle(multi.raw, easy.raw) == CURLM_OK else {
            throw CurlError(detail: "curl_multi_add_handle: out of memory")
        }
        defer { _ = curl_multi_remove_handle(multi.raw, easy.raw) }
        self.receive = receive
        while true {
            var active: Int32 = 0
            guard curl_multi_perform(multi.raw, &active) == CURLM_OK else { return .failed(CURLE_OUT_OF_MEMORY) }
            var left: Int32 = 0
            if let message = curl_multi_info_read(multi.raw, &left), message.pointee.msg == CURLMSG_DONE {
                let code = sa_curl_message_result(message)
                guard code == CURLE_OK || isFull else { return .failed(code) }
                return .answered(status: easy.long(CURLINFO_RESPONSE_CODE))
            }
            if isStopped() { return .stopped }
            var wait = interval
            if let deadline {
                let rest = (deadline - ContinuousClock.now) / .milliseconds(1)
                guard rest > 0 else { return .timedOut }
                wait = min(interval, Int32(min(rest.rounded(.up), 60_000)))
            }
            _ = curl_multi_poll(multi.raw, nil, 0, wait, nil)
        }
    }
}
