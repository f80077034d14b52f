/// The scheme of an absolute URL with an authority, such as `https` of `https://host/path`; in lower case. RFC 3986 §3.1.
///
/// - Parameter text: A URL, or the path of a file: a path may have colons, and no scheme has a slash.
/// - Returns: `nil` for everything that does not begin with `SCHEME://`.
public func urlScheme(of text: String) -> String? {
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), text[colon...].hasPrefix("://") else {
        return nil
    }
    let scheme = text[..<colon].lowercased()
    return isURLScheme(scheme) ? scheme : nil
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
