/// One HTTP request as a ``FaultServer`` read it.
public struct ServedRequest: Sendable {
    /// `GET`, `HEAD` and so on, as sent.
    public let method: String
    /// The request target as sent: path and query, or an absolute URL when the server stands in as a proxy.
    public let target: String
    /// Names in lower case, in the order of arrival.
    public let headers: [(name: String, value: String)]
    /// Which connection of the server it came on; the first is 1.
    public let connection: Int
    /// Number of this request on the server; the first is 1.
    public let ordinal: Int
    /// Number of this request among those to its path; the first is 1.
    public internal(set) var ordinalAtPath = 1
    /// The beginning of its body, at most 1 MiB; for rules, the log does not have it.
    public internal(set) var body: [UInt8] = []
    /// HTTP version the client spoke: `1.0`, `1.1` or `2`.
    public let version: String

    /// The target without scheme, host and query.
    public var path: String {
        var rest = Substring(target)
        if let scheme = rest.firstRange(of: "://") {
            rest = rest[scheme.upperBound...]
            rest = rest[(rest.firstIndex(of: "/") ?? rest.endIndex)...]
        }
        let path = rest.prefix { $0 != "?" }
        return path.isEmpty ? "/" : String(path)
    }

    /// What stands behind the `?`, or `nil`.
    public var query: String? { target.firstIndex(of: "?").map { String(target[target.index(after: $0)...]) } }

    /// The value of the first header of that name, whatever its case.
    public func header(_ name: String) -> String? {
        let name = name.lowercased()
        return headers.first { $0.name == name }?.value
    }

    /// The single byte range asked for, in **bytes** of an object of `size`, and not clamped to it.
    ///
    /// `nil` without `Range`, and for forms this server does not serve: several ranges, other units.
    /// RFC 9110 §14.1.2.
    public func range(ofSize size: Int) -> Range<Int>? {
        guard let value = header("range"), value.hasPrefix("bytes="), !value.contains(",") else { return nil }
        let parts = value.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        if parts[0].isEmpty {
            guard let suffix = Int(parts[1]), suffix >= 0 else { return nil }
            return max(0, size - suffix)..<size
        }
        guard let first = Int(parts[0]), first >= 0 else { return nil }
        if parts[1].isEmpty { return first..<max(first, size) }
        guard let last = Int(parts[1]), last >= first, last < Int.max else { return nil }
        return first..<(last + 1)
    }
}

extension ServedRequest {
    /// Reads a request line and headers, without the empty line that ends them; `nil` for what is no request.
    init?(head: Substring, connection: Int, ordinal: Int) {
        var lines = head.split(separator: "\r\n", omittingEmptySubsequences: true)[...]
        guard let first = lines.popFirst() else { return nil }
        let words = first.split(separator: " ")
        guard words.count == 3, words[2].hasPrefix("HTTP/1.") else { return nil }
        var headers: [(name: String, value: String)] = []
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else { return nil }
            let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            headers.append((line[..<colon].lowercased(), String(value)))
        }
        self.init(
            method: String(words[0]), target: String(words[1]), headers: headers, connection: connection,
            ordinal: ordinal, version: String(words[2].dropFirst(5)))
    }
}
