import SyncModel

/// The rules for a URL in a manifest: http, https, a scheme that a plugin of this machine serves, or relative to the
/// manifest. RFC 3986.
///
/// Only URLs that every parser reads alike are accepted; resolving and fetching are libcurl's work.
extension ManifestRules {
    static func check(url: UnsafeBufferPointer<UInt8>, limit: Int, schemes: Set<String>? = webSchemes)
        throws(ManifestError)
    {
        guard !url.isEmpty else { throw ManifestError("the URL is empty", "leave it out") }
        guard url.count <= limit else {
            throw ManifestError("the URL has \(url.count) bytes, above the limit of \(limit)", "shorten it")
        }
        try checkCharacters(url)
        let colon = url.prefix { $0 != 0x2F && $0 != 0x3F }.firstIndex(of: 0x3A)
        let scheme = try colon.map { colon throws(ManifestError) in try checkScheme(url, colon, schemes) }
        let rest = colon.map { url[($0 + 1)...] } ?? url[...]
        if rest.starts(with: [0x2F, 0x2F]) {
            try checkAuthority(
                rest.dropFirst(2).prefix { $0 != 0x2F && $0 != 0x3F },
                isHostWanted: scheme.map(webSchemes.contains) ?? true)
        } else if scheme.map(webSchemes.contains) == true || colon != nil && rest.isEmpty {
            throw ManifestError("the URL \(shown(url)) has no host", "write https://host/path, or a relative URL")
        }
    }

    /// Refuses characters that could end a line or a string after one more decoding, and those that parsers read in
    /// different ways.
    private static func checkCharacters(_ url: UnsafeBufferPointer<UInt8>) throws(ManifestError) {
        for index in 0..<url.count {
            switch url[index] {
            case 0..<0x20, 0x7F: throw ManifestError("the URL \(shown(url)) has a control character", "remove it")
            case 0x20, 0x22, 0x3C, 0x3E, 0x5C, 0x80...:
                throw ManifestError(
                    "the URL \(shown(url)) has a character that a URL cannot have",
                    "percent-encode it, such as %20 for a space")
            case 0x23: throw ManifestError("the URL \(shown(url)) has a fragment", "remove it, or write %23 for “#”")
            case 0x25:
                guard index + 2 < url.count, let high = hexadecimalValue(url[index + 1]),
                    let low = hexadecimalValue(url[index + 2])
                else { throw ManifestError("the URL \(shown(url)) has a broken percent-encoding", "write %25 for “%”") }
                let byte = high << 4 | low
                if byte < 0x20 || byte == 0x7F {
                    throw ManifestError("the URL \(shown(url)) has a percent-encoded control character", "remove it")
                }
            default: continue
            }
        }
    }

    private static func checkScheme(_ url: UnsafeBufferPointer<UInt8>, _ colon: Int, _ schemes: Set<String>?)
        throws(ManifestError) -> String
    {
        let scheme = String(decoding: url[..<colon], as: UTF8.self).lowercased()
        guard schemes?.contains(scheme) ?? isURLScheme(scheme) else {
            throw ManifestError(
                "the URL \(shown(url)) has the scheme \(quoted(scheme))",
                "use http or https; write “./” before a relative name that has “:” in it")
        }
        return scheme
    }

    private static func checkAuthority(_ authority: Slice<UnsafeBufferPointer<UInt8>>, isHostWanted: Bool)
        throws(ManifestError)
    {
        if authority.contains(0x40) {
            throw ManifestError(
                "the URL carries a user name or password", "remove it; credentials belong to the local configuration")
        }
        let host = authority.first == 0x5B ? authority : authority.prefix { $0 != 0x3A }
        guard !host.isEmpty || !isHostWanted else {
            throw ManifestError("the URL has no host", "write https://host/path")
        }
        if authority.contains(0x25) {
            throw ManifestError("the URL's host \(quoted(authority)) is percent-encoded", "write it plainly")
        }
    }

    /// The URL without its query, which can be a secret.
    private static func shown(_ url: UnsafeBufferPointer<UInt8>) -> String {
        let path = url.prefix { $0 != 0x3F && $0 != 0x23 }
        let secret = path.lastIndex(of: 0x40).map { path[($0 + 1)...] } ?? path
        return quoted(secret) + (path.count < url.count ? " (the rest is left out)" : "")
    }
}
