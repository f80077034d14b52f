import SyncModel

/// The headers of one answer, as far as they matter here.
package struct ResponseHeaders: Equatable {
    package var status = 0
    package var location: String?
    package var contentRange: String?
    package var contentLength: String?
    package var contentType: String?
    package var contentEncoding: String?
    package var etag: String?
    package var lastModified: String?
    package var date: String?
    package var retryAfter: String?
    package var cacheControl: String?
    package var expires: String?
    package var acceptRanges: String?
    package var link: String?
    /// `WWW-Authenticate`; several are joined.
    package var challenge: String?
    /// `Docker-Content-Digest`.
    package var contentDigest: String?
    /// `x-amz-bucket-region`.
    package var bucketRegion: String?
    /// How many requests are left, and for how many **seconds**, if the server states it.
    /// draft-ietf-httpapi-ratelimit-headers.
    package var rateLimit: RateLimit?
    /// The most requests in a window, and its length.
    package var rateLimitPolicy: RateLimit?
    /// Whether the answer sets a cookie. Cookies are not kept.
    package var setsCookie = false
    /// A header that may occur only once came twice, with different values.
    package var contradiction: String?

    package init() {}

    /// `Content-Type`, lower case, without parameters.
    package var mediaType: String? {
        contentType?.split(separator: ";").first.map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
    }

    /// `ETag` unless it is weak: only a strong one says that bytes are the same. RFC 9110 §8.8.3.
    package var strongETag: String? { etag.flatMap { $0.isStrongETag ? $0 : nil } }

    /// The value for `If-Range`: a strong `ETag`, or a ``settledDate``. RFC 9110 §13.1.5.
    package var ifRange: String? { etag != nil ? strongETag : settledDate }

    /// `Last-Modified` if it is at least one second older than `Date`: any later version has another date. RFC 9110
    /// §8.8.2.2.
    package var settledDate: String? {
        guard let lastModified, let modified = HTTPDate(lastModified), let sent = date.flatMap(HTTPDate.init),
            sent > modified
        else { return nil }
        return lastModified
    }

    /// The date for the next conditional request. A date of the very second in which the answer was sent is not used: a
    /// version published later in that second has the same date.
    package var dateOfVersion: String? { etag == nil && date != nil ? settledDate : lastModified }

    /// Notes a field. Fields not named above are ignored.
    package mutating func set(_ name: Substring, _ value: String) {
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
        case "link": link = link.map { "\($0), \(value)" } ?? value
        case "www-authenticate": challenge = challenge.map { "\($0), \(value)" } ?? value
        case "docker-content-digest": contentDigest = value
        case "x-amz-bucket-region": bucketRegion = value
        case "ratelimit": rateLimit = RateLimit(value) ?? rateLimit
        case "ratelimit-policy": rateLimitPolicy = RateLimit(policy: value) ?? rateLimitPolicy
        case "set-cookie": setsCookie = true
        default: break
        }
    }

    private mutating func setOnce(_ field: WritableKeyPath<Self, String?>, _ name: Substring, _ value: String) {
        if let before = self[keyPath: field], before != value {
            // The query of a `Location` may be a secret.
            contradiction = "\(name) twice: \(redacted(url: before).prefix(80)) and \(redacted(url: value).prefix(80))"
        }
        self[keyPath: field] = value
    }
}

extension String { package var isStrongETag: Bool { hasPrefix("\"") && hasSuffix("\"") && utf8.count >= 2 } }

/// Collects header lines from libcurl, within limits.
package struct HeaderCollector {
    /// The meaning of a line.
    package enum Outcome: Equatable {
        case more
        /// The blank line of a final answer; its body follows.
        case headEnded
        /// More lines or bytes than allowed.
        case tooMuch
    }

    package private(set) var headers = ResponseHeaders()
    private var bytes = 0
    private var lines = 0
    private var bodyHasStarted = false
    private let maximumBytes: Int
    private let maximumLines: Int

    package init(maximumBytes: Int, maximumLines: Int) {
        self.maximumBytes = maximumBytes
        self.maximumLines = maximumLines
    }

    /// Takes one whole line with its line end. Lines after the head are trailers: counted, but ignored.
    package mutating func add(_ line: UnsafeRawBufferPointer) -> Outcome {
        bytes += line.count
        lines += 1
        guard bytes <= maximumBytes, lines <= maximumLines else { return .tooMuch }
        guard !bodyHasStarted else { return .more }

        var text = line[...]
        while let last = text.last, last == 0x0A || last == 0x0D { text = text.dropLast() }
        guard !text.isEmpty else {
            guard headers.status >= 200 else {
                headers = ResponseHeaders()  // A 1xx answer; another answer follows.
                return .more
            }
            bodyHasStarted = true
            return .headEnded
        }
        let string = String(decoding: text, as: UTF8.self)
        if string.hasPrefix("HTTP/") {
            headers = ResponseHeaders()
            let words = string.split(separator: " ", maxSplits: 2)
            headers.status = words.count > 1 ? Int(words[1]) ?? 0 : 0
        } else if let colon = string.firstIndex(of: ":") {
            headers.set(string[..<colon], String(string[string.index(after: colon)...].trimmed))
        }
        return .more
    }
}

/// How many requests a server accepts, and in how many **seconds**.
package struct RateLimit: Equatable, Sendable {
    package let requests: UInt64
    package let seconds: UInt64

    /// The remaining requests of `RateLimit`, until there are more: `"resolvers";r=12;t=55`, or
    /// `limit=100, remaining=12, reset=55` as in earlier drafts. Of several policies, the one with the fewest requests
    /// left.
    package init?(_ text: String) {
        var found: (remaining: UInt64, seconds: UInt64)?
        for part in rateLimitItems(text) {
            guard let remaining = part["r"] ?? part["remaining"], let seconds = part["t"] ?? part["reset"] else {
                continue
            }
            if found.map({ remaining < $0.remaining }) ?? true { found = (remaining, seconds) }
        }
        guard let found else { return nil }
        (requests, seconds) = found
    }

    /// The window of `RateLimit-Policy`, neither number being 0: `"fixed window";"resolvers";q=3000;w=300`. Of several
    /// policies, the one that allows the least.
    package init?(policy text: String) {
        let all = rateLimitItems(text).compactMap { part -> (requests: UInt64, seconds: UInt64)? in
            guard let requests = part["q"], let seconds = part["w"], requests > 0, seconds > 0 else { return nil }
            return (requests, seconds)
        }
        func pace(_ policy: (requests: UInt64, seconds: UInt64)) -> Double {
            Double(policy.requests) / Double(policy.seconds)
        }
        guard let least = all.min(by: { pace($0) < pace($1) }) else { return nil }
        (requests, seconds) = least
    }
}

/// The numbers in the items of such a header: parameters of a list's items, or all of them in one item, as in earlier
/// drafts.
private func rateLimitItems(_ text: String) -> [[String: UInt64]] {
    guard text.utf8.count <= 1_024 else { return [] }
    func pairs(_ text: Substring, _ separator: Character) -> [String: UInt64] {
        var pairs: [String: UInt64] = [:]
        for word in text.split(separator: separator) {
            let sides = word.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != " " && $0 != "\t" } }
            if sides.count == 2, let number = decimal(sides[1]) { pairs[sides[0].lowercased()] = number }
        }
        return pairs
    }
    return text.contains(";") ? text.split(separator: ",").map { pairs($0, ";") } : [pairs(text[...], ",")]
}

/// The target of `rel="next"` in a `Link`; `nil` if there is none. RFC 8288 section 3.
package func nextLink(_ text: String) -> String? {
    guard text.utf8.count <= 16_384 else { return nil }
    var rest = text[...]
    while let open = rest.firstIndex(of: "<"), let close = rest[open...].firstIndex(of: ">") {
        let target = rest[rest.index(after: open)..<close]
        rest = rest[rest.index(after: close)...]
        let parameters = rest.prefix { $0 != "<" }.lowercased().filter { $0 != " " && $0 != "\t" }
        let relations = ["rel=\"next\"", "rel=next,", "rel=next;"]
        if relations.contains(where: parameters.contains) || parameters.hasSuffix("rel=next") { return String(target) }
    }
    return nil
}

/// `Content-Range: bytes 0-499/1234`. RFC 9110 §14.4.
package struct ContentRange: Equatable, Sendable {
    /// The **bytes** of the object that the body holds; `nil` for `bytes */1234`.
    package let range: Range<UInt64>?
    /// The object's whole length in **bytes**; `nil` for `*`.
    package let total: UInt64?

    /// Parses a header's value; `nil` if it breaks the grammar or contradicts itself.
    package init?(_ text: String) {
        let words = text.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let sides = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }

        if sides[1] == "*" {
            total = nil
        } else {
            guard let number = decimal(sides[1]) else { return nil }
            total = number
        }
        if sides[0] == "*" {
            guard total != nil else { return nil }
            range = nil
            return
        }
        let ends = sides[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = decimal(ends[0]), let last = decimal(ends[1]), first <= last,
            last < UInt64.max
        else { return nil }
        if let total { guard last < total else { return nil } }
        range = first..<(last + 1)
    }
}

/// Parses digits only: no sign, no blanks, at most 2^64 − 1.
package func decimal(_ text: some StringProtocol) -> UInt64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return UInt64(text)
}

/// Parses `Retry-After`: a number of seconds or a date. RFC 9110 §10.2.3.
///
/// - Returns: **Seconds** from now, not below zero; `nil` for other text, which is thus ignored.
package func retryAfter(_ text: String, now: Int64) -> Int64? {
    if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), !text.isEmpty {
        return Int64(text) ?? Int64.max  // More digits than fit: the longest time; the policy caps it.
    }
    return HTTPDate(text).map { max(0, $0.seconds - now) }
}
