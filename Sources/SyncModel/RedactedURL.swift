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
