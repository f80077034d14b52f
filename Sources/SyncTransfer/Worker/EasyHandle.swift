import CCurl

/// libcurl refused a call: which, and its own words.
struct CurlError: Error {
    let detail: String
}

/// One libcurl easy handle with its header list and error text, freed exactly once.
///
/// Used for one origin and one set of credentials only (V22); see ``HostState/handles``. It lives on the
/// worker's thread: <https://curl.se/libcurl/c/libcurl-thread.html>.
final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>
    private var headers: UnsafeMutablePointer<curl_slist>?

    init() throws(CurlError) {
        guard let raw = curl_easy_init() else { throw CurlError(detail: "curl_easy_init returned NULL") }
        self.raw = raw
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        try set(CURLOPT_ERRORBUFFER, pointer: errorText)
    }

    deinit {
        curl_easy_cleanup(raw)  // Can still write to `errorText` and read `headers`, so it goes first.
        errorText.deallocate()
        curl_slist_free_all(headers)
    }

    func set(_ option: CURLoption, _ value: Int) throws(CurlError) {
        try check(sa_curl_set_long(raw, option, value), option)
    }

    /// Sets a text option, or takes it back. libcurl copies the text.
    func set(_ option: CURLoption, _ value: String?) throws(CurlError) {
        try check(sa_curl_set_string(raw, option, value), option)
    }

    /// Sets a pointer option. libcurl keeps the pointer, so the pointee must outlive the transfer.
    func set(_ option: CURLoption, pointer: UnsafeMutableRawPointer?) throws(CurlError) {
        try check(sa_curl_set_pointer(raw, option, pointer), option)
    }

    /// Replaces the request's own headers. `CURLOPT_HTTPHEADER`: the list must outlive the transfer.
    func set(headers lines: [String]) throws(CurlError) {
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

    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return sa_curl_get_long(raw, info, &value) == CURLE_OK ? value : 0
    }

    /// A time in **microseconds**, or a count.
    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return sa_curl_get_offset(raw, info, &value) == CURLE_OK ? Int64(value) : 0
    }

    func text(_ info: CURLINFO) -> String? {
        var value: UnsafePointer<CChar>?
        guard sa_curl_get_string(raw, info, &value) == CURLE_OK, let value else { return nil }
        return String(cString: value)
    }

    /// libcurl's last message for this handle, else its general words for `code`.
    func message(for code: CURLcode) -> String {
        let own = String(cString: errorText)
        return own.isEmpty ? String(cString: curl_easy_strerror(code)) : own
    }

    func forgetMessage() { errorText[0] = 0 }

    private func check(_ code: CURLcode, _ option: CURLoption) throws(CurlError) {
        guard code == CURLE_OK else {
            throw CurlError(
                detail: "curl_easy_setopt(\(option.rawValue)): \(String(cString: curl_easy_strerror(code)))"
            )
        }
    }
}

@available(*, unavailable)
extension EasyHandle: Sendable {}
