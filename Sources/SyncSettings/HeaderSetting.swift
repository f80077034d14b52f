/// Headers to send: one line, or a file with lines, as curl(1) `--header` takes them.
package enum HeaderSetting: Sendable, Equatable {
    /// `Name: value`.
    case line(String)
    /// Absolute path of a file with one line each.
    case file(String)

    /// The name of a header whose value may be a secret; `nil` for a file and for names that never hold one.
    package var secretName: String? {
        guard case .line(let line) = self else { return nil }
        let name = Self.name(of: line)
        return Self.plainNames.contains(name.lowercased()) ? nil : name
    }

    /// What comes before the colon.
    static func name(of line: String) -> String { String(line.prefix { $0 != ":" }) }

    /// Headers about taste and caching; whatever else is sent may be a key.
    private static let plainNames: Set = [
        "accept", "accept-language", "cache-control", "dnt", "from", "pragma", "referer", "user-agent",
    ]

    /// Checks `Name: value`. RFC 9110 §5.
    ///
    /// - Returns: What is wrong, without the value; `nil` when nothing is.
    static func problem(with line: String) -> String? {
        guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else {
            return "write it as Name: value"
        }
        guard !line.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            return "it has control characters"
        }
        let name = line[..<colon]
        guard name.utf8.allSatisfy(isToken) else {
            return "the name before the colon has other characters than a header's"
        }
        guard !ownNames.contains(name.lowercased()) else {
            return "\(name) is what the transfer itself decides about; leave it out"
        }
        guard !line[line.index(after: colon)...].allSatisfy({ $0 == " " }) else {
            return "\(name) has no value"
        }
        return nil
    }

    private static let ownNames: Set = [
        "accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-modified-since",
        "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "proxy-authorization", "range",
        "te",
        "trailer", "transfer-encoding", "upgrade",
    ]

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

extension HeaderSetting: Codable {
    package init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        self = text.hasPrefix("@") ? .file(String(text.dropFirst())) : .line(text)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .line(let line): try container.encode(line)
        case .file(let path): try container.encode("@" + path)
        }
    }
}
