package import SyncCurl
import SyncModel

/// Which URLs a plugin is asked about: all, whole schemes, origins, or everything below a path of an origin.
///
/// Origins are compared as origins (RFC 6454), never as text: `https://a.example` is no prefix of
/// `https://a.example.evil.example/`, and port 2817 none of port 28173. A path matches whole components only.
package struct URLScope: Sendable, Equatable {
    private enum Pattern: Sendable, Equatable {
        /// In lower case, without `:`.
        case scheme(String)
        /// A prefix in a scheme that libcurl does not handle; the scheme in lower case, with a final `/` if one was
        /// written.
        case prefix(String)
        /// A path without its last `/`; empty for the whole origin.
        case below(Origin, path: String, isDirectory: Bool)
        /// Whose query begins so, wherever they are.
        case marked(String)
    }

    /// Empty for all.
    private let patterns: [Pattern]

    private init(patterns: [Pattern]) { self.patterns = patterns }

    package static let all = URLScope(patterns: [])

    /// URLs of the web whose query begins so.
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
    /// - Throws: ``URLError`` for text that is no origin, or has more than one.
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

    /// URLs that lie below these: `https://assets.example.com/`, `https://assets.example.com/tower/`, `store://tower/` in
    /// a scheme of a plugin's own, or a scheme such as `http:`, with `//` behind it or without. `https://host/tower` is that URL, and what lies below it. All for an
    /// empty list.
    ///
    /// - Throws: ``URLError`` for text that is neither.
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

    /// `SCHEME:` or `SCHEME://`, and nothing else. RFC 3986 §3.1.
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

    /// Whether a URL that libcurl does not handle is named more precisely than by its scheme.
    func names(_ text: String) -> Bool {
        guard let scheme = urlScheme(of: text) else { return false }
        let plain = scheme + text.dropFirst(scheme.utf8.count).prefix { !$0.endsPath }
        // What `..` means is up to the plugin, however it is written.
        let path = plain.lowercased().replacing("%2e", with: ".").replacing("%2f", with: "/")
        guard !path.split(separator: "/").contains("..") else { return false }
        return patterns.contains { pattern in
            guard case .prefix(let prefix) = pattern, plain.hasPrefix(prefix) else { return false }
            return prefix.hasSuffix("/") || plain.count == prefix.count || plain.dropFirst(prefix.count).hasPrefix("/")
        }
    }

    /// Why no transport plugin may be for `file:`.
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

    /// Whether an origin is named, rather than only its scheme.
    func names(_ origin: Origin) -> Bool {
        patterns.contains { if case .below(origin, _, _) = $0 { true } else { false } }
    }

    /// Whether everything of an origin is in the scope.
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
