import SyncModel
package import SyncSystem

/// Which URLs a plugin is asked about: all, whole schemes, origins, or everything below a path of an origin.
///
/// Origins are compared as origins (RFC 6454), never as text: `https://a.example` is no prefix of
/// `https://a.example.evil.example/`, and port 2817 none of port 28173. A path matches whole components only.
package struct URLScope: Sendable, Equatable {
    private enum Pattern: Sendable, Equatable {
        /// In lower case, without `:`.
        case scheme(String)
        /// A prefix in a scheme that libcurl does not handle. The scheme is in lower case, with a final `/` if the text
        /// has one.
        case prefix(String)
        /// A path without its last `/`; empty for the whole origin.
        case below(Origin, path: String, isDirectory: Bool)
        /// URLs whose query begins with this text, on any host.
        case marked(String)
    }

    /// Empty for all URLs.
    private let patterns: [Pattern]

    private init(patterns: [Pattern]) { self.patterns = patterns }

    package static let all = URLScope(patterns: [])

    /// The http and https URLs whose query begins with this text.
    package static func marked(_ query: String) -> URLScope { URLScope(patterns: [.marked(query)]) }

    /// Whether it is ``marked(_:)``: of URLs that no server knows.
    var isMarked: Bool {
        patterns.contains { pattern in
            if case .marked = pattern { true } else { false }
        }
    }

    /// Origins, such as `https://assets.example.com`: a final `/`, a default port and the case of the host do not
    /// matter. All for an empty list.
    ///
    /// - Throws: ``URLError`` for text that is not an origin, or has more than an origin.
    package static func origins(_ texts: [String]) throws(URLError) -> URLScope {
        var patterns: [Pattern] = []
        for text in texts {
            guard let url = try? CurlURL(text), url.path == "/", url.isBare(in: text) else {
                throw URLError(description: "not an origin; write https://host or https://host:port")
            }
            patterns.append(.below(url.origin, path: "", isDirectory: true))
        }
        return URLScope(patterns: patterns)
    }

    /// URLs below these prefixes: `https://assets.example.com/`, `https://assets.example.com/tower/`, `store://tower/`
    /// in a plugin's own scheme, or a scheme such as `http:`, with or without `//`. `https://host/tower` covers that
    /// URL and everything below it. An empty list stands for all URLs.
    ///
    /// - Throws: ``URLError`` for text that is not a prefix of a URL.
    package static func prefixes(_ texts: [String]) throws(URLError) -> URLScope {
        var patterns: [Pattern] = []
        for text in texts {
            if let scheme = Self.scheme(text) {
                patterns.append(.scheme(scheme))
                continue
            }
            if let scheme = urlScheme(of: text), !webSchemes.contains(scheme), !text.contains(where: \.endsPath) {
                patterns.append(.prefix(scheme + text.dropFirst(scheme.utf8.count)))
                continue
            }
            guard let url = try? CurlURL(text), url.isBare(in: text) else {
                throw URLError(
                    description:
                        "not the beginning of a URL; write https://host/, https://host/path/, or a scheme such as http:"
                )
            }
            let isDirectory = url.path.hasSuffix("/")
            let path = isDirectory ? String(url.path.dropLast()) : url.path
            patterns.append(.below(url.origin, path: path, isDirectory: isDirectory))
        }
        return URLScope(patterns: patterns)
    }

    /// Returns the scheme of a text that is only `SCHEME:` or `SCHEME://`. RFC 3986 §3.1.
    private static func scheme(_ text: String) -> String? {
        guard let colon = text.firstIndex(of: ":"), ["", "//"].contains(text[text.index(after: colon)...]) else {
            return nil
        }
        let scheme = text[..<colon].lowercased()
        return isURLScheme(scheme) ? scheme : nil
    }

    /// Whether an absolute URL is in the scope. URLs other than http and https match by scheme.
    package func covers(_ text: String) -> Bool {
        guard !patterns.isEmpty else { return true }
        if let url = try? CurlURL(text) { return covers(url) }
        let scheme = text.prefix { $0 != ":" }.lowercased()
        return scheme.utf8.count < text.utf8.count && (patterns.contains(.scheme(scheme)) || names(text))
    }

    /// Whether a pattern more precise than a scheme covers a URL that libcurl does not handle.
    func names(_ text: String) -> Bool {
        guard let scheme = urlScheme(of: text) else { return false }
        let plain = scheme + text.dropFirst(scheme.utf8.count).prefix { !$0.endsPath }
        // The plugin decides what `..` means, however it is written.
        let path = plain.lowercased().replacing("%2e", with: ".").replacing("%2f", with: "/")
        guard !path.split(separator: "/").contains("..") else { return false }
        return patterns.contains { pattern in
            guard case .prefix(let prefix) = pattern, plain.hasPrefix(prefix) else { return false }
            return prefix.hasSuffix("/") || plain.count == prefix.count || plain.dropFirst(prefix.count).hasPrefix("/")
        }
    }

    /// Why `file:` is refused as the scheme of a transport plugin.
    package static let fileIsBuiltIn = "file: URLs are not for plugins; a manifest on this machine is named by its path"

    /// The schemes in the scope, in lower case; empty for all URLs.
    package var schemes: Set<String> {
        Set(
            patterns.compactMap { pattern in
                switch pattern {
                case .scheme(let scheme): scheme
                case .prefix(let prefix): urlScheme(of: prefix)
                case .below(let origin, _, _): origin.scheme
                case .marked: nil
                }
            })
    }

    func covers(_ url: CurlURL) -> Bool {
        patterns.isEmpty
            || patterns.contains { pattern in
                switch pattern {
                case .scheme(let scheme): return scheme == url.origin.scheme
                case .prefix: return false
                case .marked(let query): return url.query?.hasPrefix(query) == true
                case .below(let origin, let path, let isDirectory):
                    guard origin == url.origin, url.path.hasPrefix(path) else { return false }
                    let rest = url.path.dropFirst(path.count)
                    return rest.hasPrefix("/") || rest.isEmpty && !isDirectory
                }
            }
    }

    /// Whether a pattern names the origin, not only its scheme.
    func names(_ origin: Origin) -> Bool {
        patterns.contains { if case .below(origin, _, _) = $0 { true } else { false } }
    }

    /// Whether every URL of an origin is in the scope.
    func covers(_ origin: Origin) -> Bool { covers(origin.description + "/") }
}

extension Character {
    /// Whether a URL's path ends before this character.
    fileprivate var endsPath: Bool { self == "?" || self == "#" }
}

extension CurlURL {
    /// Whether neither a query nor a fragment was written.
    fileprivate func isBare(in text: String) -> Bool { !text.contains(where: \.endsPath) }
}
