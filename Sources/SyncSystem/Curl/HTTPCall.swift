package import CCurl

/// One HTTP request and its answer, on the calling thread, which waits. Redirects are not followed, and nothing is
/// retried.
package final class HTTPCall {
    /// How a call ended.
    package enum End {
        /// An answer with this status came, complete or as far as the receiver wanted it.
        case answered(status: Int)
        /// libcurl failed, see ``EasyHandle/message(for:)``.
        case failed(CURLcode)
        /// The call was not complete at the deadline.
        case timedOut
        /// The caller stopped it.
        case stopped
    }

    /// The handle, for options that are not set here.
    package let easy: EasyHandle
    /// Checks the socket before a byte is sent over it; `false` ends the call. `CURLOPT_PREREQFUNCTION`.
    package var mayUse: ((Int32) -> Bool)?
    /// Checks the address of the server, or of the proxy in between, before a byte is sent there; `false` ends the
    /// call. `CURLOPT_PREREQFUNCTION`.
    package var mayAsk: ((_ address: String) -> Bool)?
    /// The headers of the last answer.
    package var headers: ResponseHeaders { collector.headers }
    private var collector = HTTPCall.collector
    private var upload: Upload?
    private var receive: (UnsafeRawBufferPointer, _ status: Int) -> Bool = { _, _ in true }
    private var isFull = false
    private var socket: Int32 = -1

    /// Prepares a request by http or https. It uses no proxy and no credentials unless ``easy`` is set up for them.
    ///
    /// - Parameters:
    ///   - url: The URL to request.
    ///   - method: The method; `nil` for `POST` with a body and `GET` without.
    ///   - headers: Lines as `Name: value`.
    ///   - body: The body, which is copied.
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

    private static var collector: HeaderCollector { HeaderCollector(maximumBytes: 128 << 10, maximumLines: 256) }

    /// A body that is read while it is sent, and again from its beginning if a connection turns out to be closed.
    private struct Upload {
        let length: UInt64
        /// Copies bytes from an offset, as many as fit; `nil` if they cannot be read.
        let read: (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?
        var position: UInt64 = 0
    }

    /// Sends a body that is not in memory, with `PUT` unless another method is named.
    ///
    /// - Parameters:
    ///   - length: The length in **bytes**.
    ///   - read: Copies bytes from an offset, as many as fit and at least one; `nil` if they cannot be read, which ends
    ///     the call. May block.
    package func send(
        _ length: UInt64, method: String = "PUT",
        from read: @escaping (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?
    ) throws(CurlError) {
        guard let count = curl_off_t(exactly: length) else { throw CurlError(detail: "a body of more than 2^63 bytes") }
        upload = Upload(length: length, read: read)
        try easy.set(CURLOPT_UPLOAD, 1)
        try easy.set(CURLOPT_CUSTOMREQUEST, method)
        _ = sa_curl_set_offset(easy.raw, CURLOPT_INFILESIZE_LARGE, count)
        let context = Unmanaged.passUnretained(self).toOpaque()
        for option in [CURLOPT_READDATA, CURLOPT_SEEKDATA] { try easy.set(option, pointer: context) }
        _ = sa_curl_set_callback(easy.raw, CURLOPT_READFUNCTION) { bytes, size, count, context in
            guard let bytes, let call = HTTPCall.of(context) else { return sa_curl_read_abort() }
            return call.give(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
        }
        _ = sa_curl_set_seek(easy.raw) { context, offset, origin in
            guard let call = HTTPCall.of(context), origin == SEEK_SET, let offset = UInt64(exactly: offset) else {
                return CURL_SEEKFUNC_CANTSEEK
            }
            call.upload?.position = offset
            return CURL_SEEKFUNC_OK
        }
    }

    private func give(_ target: UnsafeMutableRawBufferPointer) -> Int {
        guard let upload, upload.position < upload.length else { return 0 }
        let room = min(UInt64(target.count), upload.length - upload.position)
        let part = UnsafeMutableRawBufferPointer(rebasing: target[..<Int(room)])
        guard let count = upload.read(upload.position, part), (1...part.count).contains(count) else {
            return sa_curl_read_abort()
        }
        self.upload?.position += UInt64(count)
        return count
    }

    private func applyCallbacks() throws(CurlError) {
        // Not retained: libcurl calls back only while it performs, and `self` is alive then.
        let context = Unmanaged.passUnretained(self).toOpaque()
        for option in [CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_OPENSOCKETDATA, CURLOPT_PREREQDATA] {
            try easy.set(option, pointer: context)
        }
        _ = sa_curl_set_callback(easy.raw, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let call = HTTPCall.of(context) else { return 0 }
            return call.take(UnsafeRawBufferPointer(start: bytes, count: size * count))
        }
        _ = sa_curl_set_callback(easy.raw, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
            guard let bytes, let call = HTTPCall.of(context) else { return 0 }
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return call.collector.add(line) == .tooMuch ? 0 : line.count
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

    /// Sends the request and waits for the end of the answer.
    ///
    /// - Parameters:
    ///   - connections: Keeps connections open from call to call, one call at a time; `nil` for a connection that ends
    ///     with the call.
    ///   - deadline: The end of the call; `nil` for none.
    ///   - interval: How often `isStopped` is called while nothing moves, in **milliseconds**.
    ///   - isStopped: Whether the caller no longer wants an answer.
    ///   - receive: Takes bytes of the body of an answer with this status; `false` ends the call. May block.
    package func perform(
        over connections: MultiHandle? = nil, until deadline: ContinuousClock.Instant?, every interval: Int32,
        isStopped: () -> Bool,
        receive: @escaping (UnsafeRawBufferPointer, _ status: Int) -> Bool
    ) throws(CurlError) -> End {
        let multi: MultiHandle
        if let connections { multi = connections } else { multi = try MultiHandle() }
        guard curl_multi_add_handle(multi.raw, easy.raw) == CURLM_OK else {
            throw CurlError(detail: "curl_multi_add_handle: out of memory")
        }
        defer { withExtendedLifetime(multi) { _ = curl_multi_remove_handle(multi.raw, easy.raw) } }
        self.receive = receive
        collector = Self.collector
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
