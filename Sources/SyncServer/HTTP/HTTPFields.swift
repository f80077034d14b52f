/// The header fields of a message, in order. RFC 9110 §5.
package struct HTTPFields: Sendable, ExpressibleByDictionaryLiteral {
    /// A field's name; its spelling is kept, and case is ignored in comparisons. RFC 9110 §5.1.
    package struct Name: Sendable, Equatable {
        package let text: String

        package init(_ text: String) { self.text = text }

        package static func == (a: Name, b: Name) -> Bool {
            let (left, right) = (a.text.utf8, b.text.utf8)
            return left.count == right.count && zip(left, right).allSatisfy { lowercased($0) == lowercased($1) }
        }

        private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
    }

    private var lines: [(name: Name, value: String)]

    package init(dictionaryLiteral elements: (Name, String)...) { lines = elements.map { (name: $0.0, value: $0.1) } }

    /// Adds a line, even if the name exists.
    mutating func append(_ name: Name, _ value: String) { lines.append((name, value)) }

    /// The value of a field; the values of several lines with this name are joined as in RFC 9110 §5.3.
    ///
    /// Setting replaces all of them, `nil` removes them.
    package subscript(name: Name) -> String? {
        get {
            let values = lines.lazy.filter { $0.name == name }.map(\.value)
            guard let first = values.first else { return nil }
            return values.dropFirst().isEmpty ? first : values.joined(separator: ", ")
        }
        set {
            lines.removeAll { $0.name == name }
            if let newValue { lines.append((name, newValue)) }
        }
    }

    /// The values of all lines with a name.
    func values(of name: Name) -> [String] { lines.filter { $0.name == name }.map(\.value) }

    /// Calls `body` for every line.
    func forEach(_ body: (_ name: String, _ value: String) -> Void) {
        for line in lines { body(line.name.text, line.value) }
    }
}

extension HTTPFields.Name {
    package static let acceptRanges = Self("Accept-Ranges")
    package static let allow = Self("Allow")
    package static let cacheControl = Self("Cache-Control")
    package static let connection = Self("Connection")
    package static let contentLength = Self("Content-Length")
    package static let contentRange = Self("Content-Range")
    package static let contentType = Self("Content-Type")
    package static let date = Self("Date")
    package static let eTag = Self("ETag")
    package static let host = Self("Host")
    package static let ifMatch = Self("If-Match")
    package static let ifModifiedSince = Self("If-Modified-Since")
    package static let ifNoneMatch = Self("If-None-Match")
    package static let ifRange = Self("If-Range")
    package static let ifUnmodifiedSince = Self("If-Unmodified-Since")
    package static let lastModified = Self("Last-Modified")
    package static let range = Self("Range")
    package static let retryAfter = Self("Retry-After")
    package static let transferEncoding = Self("Transfer-Encoding")
    package static let xContentTypeOptions = Self("X-Content-Type-Options")
}
