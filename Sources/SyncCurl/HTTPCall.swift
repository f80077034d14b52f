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
    /// What the last answer said before its body.
    package var headers: ResponseHeaders { collector.headers }
    private var collector = HTTPCall.collector
    private var upload: Upload?
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

    private static var collector: HeaderCollector { HeaderCollector(maximumBytes: 128 << 10, maximumLines: 256) }

    /// A body that is read while it is sent, and again from its beginning where a connection turns out to be closed.
    private struct Upload {
        let length: UInt64
        /// Copies as many bytes from an offset as there is room for; `nil` where they cannot be had.
        let read: (_ offset: UInt64, _ target: UnsafeMutableRawBufferPointer) -> Int?
        var position: UInt64 = 0
    }

    /// Sends a body that is not in memory, with `PUT` unless another method was named.
    ///
    /// - Parameters:
    ///   - length: In **bytes**.
    ///   - read: Copies as many bytes from an offset as there is room for, at least one; `nil` where they cannot be had, which ends
    ///     the call. It may wait.
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
        // Not retained: libcurl calls back only while it performs, and then `self` is there.
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

    /// Sends it and waits for the end.
    ///
    /// - Parameters:
    ///   - connections: Where connections stay open from call to call, one call at a time; `nil` for one that ends with the call.
    ///   - deadline: `nil` for none.
    ///   - interval: How often `isStopped` is asked while nothing moves, in **milliseconds**.
    ///   - isStopped: Whether the caller wants no answer any more.
    ///   - receive: Takes bytes of the body of an answer with this status; `false` ends the call. May wait.
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
