import SyncModel

/// What one answer said before its body, as far as it matters here.
struct ResponseHeaders: Equatable {
    var status = 0
    var location: String?
    var contentRange: String?
    var contentLength: String?
    var contentType: String?
    var contentEncoding: String?
    var etag: String?
    var lastModified: String?
    var date: String?
    var retryAfter: String?
    var cacheControl: String?
    var expires: String?
    var acceptRanges: String?
    /// A header of which there may be one came twice with different values.
    var contradiction: String?

    /// `Content-Type`, lower case, without parameters.
    var mediaType: String? {
        contentType?.split(separator: ";").first.map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
    }

    /// `ETag` unless it is weak: only a strong one says that bytes are the same. RFC 9110 §8.8.3.
    var strongETag: String? {
        guard let etag, etag.hasPrefix("\""), etag.hasSuffix("\""), etag.utf8.count >= 2 else { return nil }
        return etag
    }

    /// What `If-Range` may carry: a strong `ETag`, or a `Last-Modified` that is at least one second older
    /// than `Date`. RFC 9110 §8.8.2.2 and §13.1.5.
    var ifRange: String? {
        if etag != nil { return strongETag }
        guard let lastModified, let modified = HTTPDate(lastModified), let sent = date.flatMap(HTTPDate.init),
            sent > modified
        else { return nil }
        return lastModified
    }

    /// Notes one field; of those not named above nothing is kept.
    mutating func set(_ name: Substring, _ value: String) {
        switch name.lowercased() {
        case "location": setOnce(\.location, name, value)
        case "content-range": setOnce(\.contentRange, name, value)
        case "content-length": setOnce(\.contentLength, name, value)
        case "content-type": contentType = value
        case "content-encoding": contentEncoding = contentEncoding.map { "\($0), \(value)" } ?? value
        case "etag": etag = value
        case "last-modified": lastModified = value
        case "date": date = value
        case "retry-after": retryAfter = value
        case "cache-control": cacheControl = cacheControl.map { "\($0), \(value)" } ?? value
        case "expires": expires = value
        case "accept-ranges": acceptRanges = value
        default: break
        }
    }

    private mutating func setOnce(
        _ field: WritableKeyPath<Self, String?>,
        _ name: Substring,
        _ value: String
    ) {
        if let before = self[keyPath: field], before != value {
            contradiction = "\(name) twice: \(before.prefix(80)) and \(value.prefix(80))"
        }
        self[keyPath: field] = value
    }
}

/// Gathers header lines as libcurl hands them over, within bounds (V45).
struct HeaderCollector {
    /// What a line meant.
    enum Outcome: Equatable {
        case more
        /// The blank line of a final answer; its body follows.
        case headEnded
        /// More lines or bytes than allowed.
        case tooMuch
    }

    private(set) var headers = ResponseHeaders()
    private var bytes = 0
    private var lines = 0
    private var bodyHasBegun = false
    private let maximumBytes: Int
    private let maximumLines: Int

    init(maximumBytes: Int, maximumLines: Int) {
        self.maximumBytes = maximumBytes
        self.maximumLines = maximumLines
    }

    /// Takes one whole line with its line end. Lines after the head are trailers: counted, never believed.
    mutating func add(_ line: UnsafeRawBufferPointer) -> Outcome {
        bytes += line.count
        lines += 1
        guard bytes <= maximumBytes, lines <= maximumLines else { return .tooMuch }
        guard !bodyHasBegun else { return .more }

        var text = line[...]
        while let last = text.last, last == 0x0A || last == 0x0D { text = text.dropLast() }
        guard !text.isEmpty else {
            guard headers.status >= 200 else {
                headers = ResponseHeaders()  // A 1xx answer; another one follows.
                return .more
            }
            bodyHasBegun = true
            return .headEnded
        }
        let string = String(decoding: text, as: UTF8.self)
        if string.hasPrefix("HTTP/") {
            headers = ResponseHeaders()
            let words = string.split(separator: " ", maxSplits: 2)
            headers.status = words.count > 1 ? Int(words[1]) ?? 0 : 0
        } else if let colon = string.firstIndex(of: ":") {
            let value = string[string.index(after: colon)...]
                .drop { $0 == " " || $0 == "\t" }
            headers.set(string[..<colon], String(value.trimmingBlanksAtEnd()))
        }
        return .more
    }
}

extension Substring {
    fileprivate func trimmingBlanksAtEnd() -> Substring {
        var text = self
        while let last = text.last, last == " " || last == "\t" { text = text.dropLast() }
        return text
    }
}
