/// The scheme, in lower case, of an absolute URL with an authority: `https` of `https://host/path`. RFC 3986 §3.1.
///
/// - Parameter text: A URL, or the path of a file: a path may contain colons, and no scheme contains a slash.
/// - Returns: `nil` for text that does not begin with `SCHEME://`.
public func urlScheme(of text: String) -> String? {
    guard let scheme = leadingScheme(of: text) else { return nil }
    return text.dropFirst(scheme.utf8.count).hasPrefix("://") ? scheme : nil
}

/// The text before the first colon, in lower case, if it could be a scheme; otherwise `nil`. RFC 3986 §3.1.
///
/// A name such as `a:b.json` looks like a URL, too: whether it is one depends on the supported schemes.
public func leadingScheme(of text: String) -> String? {
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
    let scheme = text[..<colon].lowercased()
    // The Kelvin sign becomes a k in lower case.
    return isURLScheme(scheme) && scheme.utf8.count == text[..<colon].utf8.count ? scheme : nil
}

/// Adds an empty authority to a URL without one: `store:/a` and `store:a` become `store:///a`. RFC 3986 §3.
///
/// - Parameter schemes: In lower case. Text with another beginning is unchanged, and so are web URLs, which have hosts.
public func withAuthority(_ text: String, schemes: Set<String>) -> String {
    guard let scheme = leadingScheme(of: text), schemes.subtracting(webSchemes).contains(scheme) else { return text }
    let rest = text.dropFirst(scheme.utf8.count + 1)
    guard !rest.isEmpty, !rest.hasPrefix("//") else { return text }
    return text.prefix(scheme.utf8.count) + ":///" + (rest.hasPrefix("/") ? rest.dropFirst() : rest)
}

/// Whether text in lower case is a scheme: a letter, then letters, digits, `+`, `-` and `.`. RFC 3986 §3.1.
public func isURLScheme(_ text: String) -> Bool {
    text.utf8.first.map { (0x61...0x7A).contains($0) } == true
        && text.utf8.allSatisfy {
            (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || [0x2B, 0x2D, 0x2E].contains($0)
        }
}

/// Whether a byte is an ASCII letter or digit.
package func isAlphanumeric(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
}

/// Whether text is an http or https URL, not another URL or a path.
public func isWebURL(_ text: String) -> Bool { urlScheme(of: text).map(webSchemes.contains) == true }

/// Scheme, host and port, `https://host:port`, of a text that begins with a web URL; otherwise `nil`.
package func urlOrigin(_ text: String) -> String? {
    for scheme in ["https://", "http://"] where text.lowercased().hasPrefix(scheme) {
        // Scalars, not characters: a `?` followed by a combining mark still begins a query.
        let authority = text.unicodeScalars.dropFirst(scheme.count).prefix { !"/?# ".unicodeScalars.contains($0) }
        let host = Substring(authority.split(separator: "@", omittingEmptySubsequences: false).last ?? authority)
        // In `host:` before a message, the colon is not followed by a port.
        let plain = host.last == ":" ? host.dropLast() : host
        return plain.isEmpty ? nil : scheme + plain.lowercased()
    }
    return nil
}

/// The schemes that libcurl fetches.
public let webSchemes: Set = ["http", "https"]

/// The `file:` URL of an absolute path (RFC 8089), encoded so that a `#`, `?` or `%` in a name is preserved.
public func fileURL(path: String) -> String { "file://" + percentEncoded(bytes: path.utf8) }

/// A path encoded for a URL: every byte that is not unreserved in RFC 3986 §2.3 becomes `%` and two digits.
///
/// - Parameter keepsSlash: Whether `/` is kept, too; false for a single name.
package func percentEncoded(bytes path: some Sequence<UInt8>, keepsSlash: Bool = true) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var text: [UInt8] = []
    for byte in path {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: text.append(byte)
        case 0x2F where keepsSlash: text.append(byte)
        default: text += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
    }
    return String(decoding: text, as: UTF8.self)
}

/// Decodes percent-encoded bytes once. RFC 3986 §2.1.
///
/// - Returns: `nil` for a `%` without two hexadecimal digits, and for a zero byte, which ends a path in C.
package func percentDecoded(_ text: some Sequence<UInt8>) -> [UInt8]? {
    var bytes: [UInt8] = []
    var rest = text.makeIterator()
    while let byte = rest.next() {
        guard byte == UInt8(ascii: "%") else {
            bytes.append(byte)
            continue
        }
        guard let high = rest.next().flatMap(hexadecimalValue), let low = rest.next().flatMap(hexadecimalValue) else {
            return nil
        }
        bytes.append(high << 4 | low)
    }
    return bytes.contains(0) ? nil : bytes
}

/// The value of a hexadecimal digit, of either case; `nil` for any other byte.
package func hexadecimalValue(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 0x30...0x39: digit - 0x30
    case 0x41...0x46: digit - 0x41 + 10
    case 0x61...0x66: digit - 0x61 + 10
    default: nil
    }
}

/// The path of a `file:` URL without a host: the part before a query or fragment, percent-decoded once.
///
/// - Returns: The path's bytes, without a zero at the end; `nil` for another URL, a broken encoding, or a zero byte.
public func path(ofFileURL url: String) -> [UInt8]? {
    let prefix = Array("file://".utf8)
    var rest = Array(url.utf8)[...]
    guard rest.starts(with: prefix) else { return nil }
    rest = rest.dropFirst(prefix.count).prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    return rest.first == UInt8(ascii: "/") ? percentDecoded(rest) : nil
}

/// A URL that is safe for logs, events and errors: without user name, password, query and fragment.
///
/// - Parameter url: Any text; it need not be a valid URL.
/// - Returns: Scheme, host, port and path; a query is shown as `?…`. Control and bidirectional characters are escaped,
///   see ``escaped(_:)``.
public func redacted(url: String) -> String {
    // Scalars, not characters: a `?` followed by a combining mark still begins a query.
    var rest = url.unicodeScalars[...]
    var scheme = rest.prefix(0)
    // Not a `://` inside a query.
    if let end = rest.firstRange(of: "://".unicodeScalars),
        !rest[..<end.lowerBound].contains(where: { $0 == "?" || $0 == "#" })
    {
        scheme = rest[..<end.upperBound]
        rest = rest[end.upperBound...]
    }
    let cut = rest.firstIndex { $0 == "?" || $0 == "#" } ?? rest.endIndex
    let hasQuery = cut < rest.endIndex && rest[cut] == "?"
    rest = rest[..<cut]
    if !scheme.isEmpty {
        let authority = rest.prefix { $0 != "/" }
        if let at = authority.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
    }
    return escaped(String(scheme) + String(rest)) + (hasQuery ? "?…" : "")
}

/// External text made safe for a terminal: control and bidirectional characters become `\u{…}`.
public func escaped(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: isUnsafeOnTerminal) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
        if isUnsafeOnTerminal(scalar) {
            result += "\\u{\(String(scalar.value, radix: 16))}"
        } else {
            result.unicodeScalars.append(scalar)
        }
    }
    return result
}

/// Control characters (C0, DEL, C1) and the bidirectional formatting characters of Unicode UAX #9.
public func isUnsafeOnTerminal(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0: true
    case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
    default: false
    }
}
