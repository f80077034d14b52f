/// The scheme of an absolute URL with an authority, such as `https` of `https://host/path`; in lower case. RFC 3986 §3.1.
///
/// - Parameter text: A URL, or the path of a file: a path may have colons, and no scheme has a slash.
/// - Returns: `nil` for everything that does not begin with `SCHEME://`.
public func urlScheme(of text: String) -> String? {
    guard let scheme = leadingScheme(of: text) else { return nil }
    return text.dropFirst(scheme.utf8.count).hasPrefix("://") ? scheme : nil
}

/// What stands before the first colon, in lower case, where it could be a scheme; `nil` where it could not. RFC 3986 §3.1.
///
/// A name such as `a:b.json` begins like a URL, too: whether it is one, only the schemes that somebody serves tell.
public func leadingScheme(of text: String) -> String? {
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
    let scheme = text[..<colon].lowercased()
    // The Kelvin sign becomes a k.
    return isURLScheme(scheme) && scheme.utf8.count == text[..<colon].utf8.count ? scheme : nil
}

/// A URL without authority with an empty one: `store:/a` and `store:a` become `store:///a`. RFC 3986 §3.
///
/// - Parameter schemes: In lower case. Text that begins otherwise stays as it is, as do the web's URLs, which have hosts.
public func withAuthority(_ text: String, schemes: Set<String>) -> String {
    guard let scheme = leadingScheme(of: text), schemes.subtracting(webSchemes).contains(scheme) else {
        return text
    }
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

/// Whether text is a URL of a web server; else it is one of another scheme, or a path.
public func isWebURL(_ text: String) -> Bool {
    urlScheme(of: text).map(webSchemes.contains) == true
}

/// What libcurl is asked for.
public let webSchemes: Set = ["http", "https"]

/// The `file:` URL of an absolute path (RFC 8089), encoded so that a `#`, `?` or `%` of a name
/// stays part of it.
public func fileURL(path: String) -> String {
    "file://" + percentEncoded(bytes: path.utf8)
}

/// A path as it stands in a URL: every byte that is not unreserved in RFC 3986 §2.3, nor `/`, as `%` and two digits.
package func percentEncoded(bytes path: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var text: [UInt8] = []
    for byte in path {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"), UInt8(ascii: "/"):
            text.append(byte)
        default: text += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
    }
    return String(decoding: text, as: UTF8.self)
}

/// The path of a `file:` URL without a host: what stands before a query or fragment, percent-decoded once.
///
/// - Returns: The path's bytes, without a zero at the end; `nil` for another URL, a broken encoding, or a zero byte.
public func path(ofFileURL url: String) -> [UInt8]? {
    let prefix = Array("file://".utf8)
    var rest = Array(url.utf8)[...]
    guard rest.starts(with: prefix) else { return nil }
    rest = rest.dropFirst(prefix.count).prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    guard rest.first == UInt8(ascii: "/") else { return nil }
    var path: [UInt8] = []
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
            path.append(byte)
            continue
        }
        guard let high = rest.popFirst().flatMap(value), let low = rest.popFirst().flatMap(value) else {
            return nil
        }
        path.append(high << 4 | low)
    }
    return path.contains(0) ? nil : path
}

private func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
}

/// A URL fit for logs, events and errors: user name, password, query and fragment are left out (V64).
///
/// - Parameter url: Any text; it need not be a valid URL.
/// - Returns: Scheme, host, port and path; a query that was there is shown as `?…`. Control and
///   bidirectional characters are escaped, see ``escaped(_:)``.
public func redacted(url: String) -> String {
    var rest = Substring(url)
    var scheme = Substring()
    if let end = rest.range(ofText: "://") {
        scheme = rest[..<end.upperBound]
        rest = rest[end.upperBound...]
    }
    let cut = rest.firstIndex { $0 == "?" || $0 == "#" } ?? rest.endIndex
    let hasQuery = cut < rest.endIndex && rest[cut] == "?"
    rest = rest[..<cut]
    if !scheme.isEmpty {
        let authorityEnd = rest.firstIndex(of: "/") ?? rest.endIndex
        if let at = rest[..<authorityEnd].lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
    }
    return escaped(String(scheme + rest)) + (hasQuery ? "?…" : "")
}

/// Text from outside, made safe for a terminal: control and bidirectional characters become `\u{…}` (V63).
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

extension Substring {
    fileprivate func range(ofText text: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
