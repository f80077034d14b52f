package import CCurl

/// A call that libcurl refused, with libcurl's own words.
package struct CurlError: Error {
    package let detail: String

    package init(detail: String) { self.detail = detail }
}

/// One libcurl easy handle with its header list and error text, freed exactly once.
///
/// A handle belongs to one thread: <https://curl.se/libcurl/c/libcurl-thread.html>.
package final class EasyHandle {
    package let raw: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?

    package init() throws(CurlError) {
        guard let raw = curl_easy_init() else { throw CurlError(detail: "curl_easy_init returned NULL") }
        self.raw = raw
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        try set(CURLOPT_ERRORBUFFER, pointer: errorText)
    }

    deinit {
        curl_easy_cleanup(raw)  // May still write to `errorText` and read `headers`, so it goes first.
        errorText.deallocate()
        curl_slist_free_all(headers)
    }

    package func set(_ option: CURLoption, _ value: Int) throws(CurlError) {
        try check(sa_curl_set_long(raw, option, value), option)
    }

    /// Sets a text option; `nil` resets it. libcurl copies the text.
    package func set(_ option: CURLoption, _ value: String?) throws(CurlError) {
        try check(sa_curl_set_string(raw, option, value), option)
    }

    /// Sets a pointer option. libcurl keeps the pointer, so the pointee must outlive the transfer.
    package func set(_ option: CURLoption, pointer: UnsafeMutableRawPointer?) throws(CurlError) {
        try check(sa_curl_set_pointer(raw, option, pointer), option)
    }

    /// Replaces the request's own headers. `CURLOPT_HTTPHEADER`: the list must outlive the transfer.
    package func set(headers lines: [String]) throws(CurlError) {
        var list: UnsafeMutablePointer<curl_slist>?
        for line in lines {
            guard let longer = curl_slist_append(list, line) else {
                curl_slist_free_all(list)
                throw CurlError(detail: "curl_slist_append: out of memory")
            }
            list = longer
        }
        let code = sa_curl_set_list(raw, CURLOPT_HTTPHEADER, list)
        curl_slist_free_all(headers)
        headers = list
        try check(code, CURLOPT_HTTPHEADER)
    }

    /// Allows http and https only, and turns redirects by libcurl off.
    package func restrictProtocols() throws(CurlError) {
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_FOLLOWLOCATION, 0)
    }

    /// Sends a body with `POST`. `CURLOPT_COPYPOSTFIELDS` copies as many bytes as the size set before it.
    package func set(copiedBody body: [UInt8]) throws(CurlError) {
        try check(sa_curl_set_offset(raw, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(body.count)), CURLOPT_POSTFIELDS)
        let code = body.withUnsafeBytes { bytes in
            sa_curl_set_pointer(raw, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress))
        }
        try check(code, CURLOPT_COPYPOSTFIELDS)
    }

    package func long(_ info: CURLINFO) -> Int {
        var value = 0
        return sa_curl_get_long(raw, info, &value) == CURLE_OK ? value : 0
    }

    /// A transfer's time in **microseconds**, or a count.
    package func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return sa_curl_get_offset(raw, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    package func text(_ info: CURLINFO) -> String? {
        var value: UnsafePointer<CChar>?
        guard sa_curl_get_string(raw, info, &value) == CURLE_OK, let value else { return nil }
        return String(cString: value)
    }

    /// libcurl's last message for this handle, or else its general text for `code`.
    package func message(for code: CURLcode) -> String {
        let own = String(cString: errorText)
        return own.isEmpty ? String(cString: curl_easy_strerror(code)) : own
    }

    package func forgetMessage() { errorText[0] = 0 }

    private func check(_ code: CURLcode, _ option: CURLoption) throws(CurlError) {
        guard code == CURLE_OK else {
            throw CurlError(
                detail: "curl_easy_setopt(\(option.rawValue)): \(String(cString: curl_easy_strerror(code)))")
        }
    }
}

/// libcurl's multi handle: its running transfers, and the connections kept open for later ones. Freed exactly once.
package final class MultiHandle: @unchecked Sendable {  // Safe: used by one thread at a time, except for wakeUp().
    package let raw: UnsafeMutableRawPointer

    /// - Throws: If there is no memory, or if the handle cannot be woken. Where libcurl can create no descriptors for
    ///   that, it goes on without, and a posted command would wait for a minute. A failure is tried again twice.
    package init() throws(CurlError) {
        for _ in 0..<3 {
            guard let made = curl_multi_init() else { continue }
            if curl_multi_wakeup(made) == CURLM_OK {
                raw = made
                return
            }
            curl_multi_cleanup(made)
        }
        throw CurlError(detail: "libcurl has no memory or no descriptors")
    }

    deinit { curl_multi_cleanup(raw) }

    /// curl_multi_wakeup(3) "can be called from any thread".
    package func wakeUp() {
        for _ in 0..<8 { if curl_multi_wakeup(raw) == CURLM_OK { return } }
    }
}
