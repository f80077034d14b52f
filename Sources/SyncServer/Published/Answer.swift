package import SyncModel

/// The version of a file, from which validators are made.
package struct FileVersion: Equatable, Sendable {
    /// Length in **bytes**.
    package let size: UInt64
    package let modified: HTTPDate
    /// A strong entity tag, quotes included. RFC 9110 §8.8.3.
    package let entityTag: String

    package init(size: UInt64, modified: HTTPDate, entityTag: String) {
        (self.size, self.modified, self.entityTag) = (size, modified, entityTag)
    }
}

/// The answer to GET or HEAD for an existing file. Pure: conditions and ranges of RFC 9110 §13 and §14.
package struct Answer: Equatable, Sendable {
    package let status: Int
    /// The **bytes** of the file in the body; `nil` for no body.
    package var body: Range<UInt64>?
    /// The value of `Content-Range`.
    package var contentRange: String?
}

extension Answer {
    /// Decides in the order of RFC 9110 §13.2.2.
    package init(to headers: HTTPFields, isHead: Bool, file: FileVersion) {
        if let condition = headers[.ifMatch] {
            guard Self.matches(condition, file.entityTag, weakly: false) else {
                self.init(status: 412)
                return
            }
        } else if let date = headers[.ifUnmodifiedSince].flatMap(HTTPDate.init), file.modified > date {
            self.init(status: 412)
            return
        }

        if let condition = headers[.ifNoneMatch] {
            if Self.matches(condition, file.entityTag, weakly: true) {
                self.init(status: 304)
                return
            }
        } else if let date = headers[.ifModifiedSince].flatMap(HTTPDate.init), file.modified <= date {
            self.init(status: 304)
            return
        }

        // §14.2: Range applies to GET only.
        guard !isHead, let range = headers[.range], Self.allowsRange(headers[.ifRange], file) else {
            self.init(status: 200, body: 0..<file.size)
            return
        }
        guard let bytes = Self.range(range, of: file.size) else {
            self.init(status: 200, body: 0..<file.size)
            return
        }
        guard !bytes.isEmpty else {
            self.init(status: 416, contentRange: "bytes */\(file.size)")
            return
        }
        let text = "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(file.size)"
        self.init(status: 206, body: bytes, contentRange: text)
    }

    /// The range that a `Range` header requests of an object of `size` **bytes**. §14.1.2 and §14.2.
    ///
    /// - Returns: Empty if no part of it is inside the object; `nil` if it is not a single range of bytes and is
    ///   ignored, as §14.2 allows. Several ranges are never requested here.
    private static func range(_ header: String, of size: UInt64) -> Range<UInt64>? {
        let value = header.lowercased()
        let bounds = value.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false).map(\.trimmed)
        guard value.hasPrefix("bytes="), bounds.count == 2,
            bounds.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
        else { return nil }
        // A number beyond 64 bits is beyond the end of every object.
        let numbers = bounds.map { $0.isEmpty ? nil : UInt64($0) ?? .max }
        switch (numbers[0], numbers[1]) {
        case (nil, nil): return nil
        case (nil, let suffix?): return (size - min(size, suffix))..<size
        case (let start?, nil): return min(start, size)..<size
        case (let start?, let end?):
            guard start <= end else { return nil }
            return start < size ? start..<(min(end, size - 1) + 1) : size..<size
        }
    }

    /// §13.1.5: a range applies to this version only; an entity tag must match strongly, a date exactly.
    private static func allowsRange(_ condition: String?, _ file: FileVersion) -> Bool {
        guard let condition else { return true }
        return condition == file.entityTag || condition == file.modified.description
    }

    /// Whether a list of entity tags, or `*`, includes `tag`. §8.8.3.2 defines the two comparisons.
    private static func matches(_ list: String, _ tag: String, weakly: Bool) -> Bool {
        // A tag may contain a comma, since those of a cache are its origin's. Clients of this program send one alone.
        if list == "*" || list == tag && !tag.isEmpty { return true }
        return list.split(separator: ",").contains { item in
            let candidate = item.trimmed
            return candidate == tag || (weakly && candidate.hasPrefix("W/") && candidate.dropFirst(2) == tag)
        }
    }
}

extension HTTPResponse {
    /// The head of an answer with the bytes of a file: all of them, a part, or none.
    ///
    /// - Parameter type: The media type, if it is not that of the path.
    init(_ answer: Answer, of path: RequestPath, tag: String?, modified: String?, type: String? = nil) {
        self.init(status: answer.status, headers: [.acceptRanges: "bytes", .cacheControl: path.cacheControl])
        headers[.eTag] = tag
        headers[.lastModified] = modified
        headers[.contentRange] = answer.contentRange
        guard answer.body != nil else { return }
        headers[.contentType] = type ?? path.contentType
        headers[.xContentTypeOptions] = "nosniff"
    }

    /// The answer where nothing is served.
    init(_ reason: Unserved) {
        self.init(status: reason.rawValue, headers: reason == .unavailable ? [.retryAfter: "1"] : [:])
    }

    /// A page for browsers.
    init(page title: String, _ body: String) {
        let page = """
            <!DOCTYPE html>
            <html lang="en">
            <head><meta charset="utf-8"><title>\(title)</title></head>
            <body>
            \(body)
            </body>
            </html>

            """
        self.init(
            status: 200,
            headers: [
                .contentType: "text/html; charset=utf-8", .cacheControl: "no-cache", .xContentTypeOptions: "nosniff",
            ], body: .bytes(Array(page.utf8)))
    }
}
