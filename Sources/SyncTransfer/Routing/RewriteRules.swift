import SyncModel
package import SyncPlugins
package import SyncSystem

/// A rule that turns a URL into another, such as for a server that has moved or a nearby mirror.
///
/// Content is identified by its hash, so a rule never changes which bytes are right.
package struct RewriteRule: Sendable, Equatable, CustomStringConvertible {
    /// The beginning of URLs, in which a scheme, host and port are compared as an origin; or `~` and a regular
    /// expression that may match anywhere in a URL. Its first match is replaced.
    fileprivate let pattern: String
    /// The text that replaces the beginning or the match. For an expression, `$1` … `$9` are its groups and `$$` is a
    /// dollar sign.
    fileprivate let replacement: String

    fileprivate var isExpression: Bool { pattern.hasPrefix("~") }

    /// Parses `PREFIX REPLACEMENT`, or `~EXPRESSION REPLACEMENT` as nginx marks expressions. One blank separates them.
    ///
    /// - Throws: Why the text is not a rule.
    package init(_ text: String) throws(URLError) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let from = parts.first, let to = parts.last, !from.isEmpty, !to.isEmpty else {
            throw URLError(description: "a rule is PREFIX REPLACEMENT or ~EXPRESSION REPLACEMENT, with one space")
        }
        (pattern, replacement) = (from, to)
        if isExpression {
            do { _ = try Regex(String(from.dropFirst())) } catch {
                throw URLError(description: "not a regular expression: \(from.dropFirst())")
            }
            // Then the URL begins with the replacement. Behind a `|`, there may be a match elsewhere in the URL.
            if from.hasPrefix("~^"), !from.contains("|"), !to.hasPrefix("$"),
                !"http".hasPrefix(to.lowercased().prefix(4))
            {
                throw URLError(description: "the replacement is not the beginning of a URL")
            }
        } else {
            let start: (origin: Origin?, rest: Substring)
            do throws(URLError) { start = try beginning } catch {
                throw URLError(description: "not the beginning of a URL: \(error.description)")
            }
            // Such rules would do nothing, and requests would go to hosts that they must not go to. `http://` alone may
            // be followed by a host.
            guard start.origin != nil else {
                // A URL that begins with the prefix is enough for the check.
                let urls = ["http://x/", "https://x/"].filter { $0.hasPrefix(start.rest) }
                    .compactMap { try? CurlURL($0) }
                guard !urls.isEmpty else {
                    throw URLError(description: "not the beginning of a URL: it has to begin with http:// or https://")
                }
                let rules = RewriteRules([self])
                guard start.rest == to.lowercased() || urls.contains(where: { rules.apply(to: $0) != nil }) else {
                    throw URLError(description: "the replacement is not the beginning of a URL")
                }
                return
            }
            guard let target = try? CurlURL(to) else {
                do throws(URLError) { _ = try CurlURL(to + "x/") } catch {
                    throw URLError(description: "the replacement is not the beginning of a URL: \(error.description)")
                }
                return
            }
            if start.rest.hasSuffix("/"), (try? CurlURL(to + "x"))?.origin != target.origin {
                throw URLError(
                    description: "the replacement is a host without a slash, which the prefix has at its end: add one")
            }
        }
    }

    /// The rule as it is written.
    package var description: String { "\(pattern) \(replacement)" }

    /// The pattern as shown to people. The URLs it produces may be signed.
    var shownPattern: String { isExpression ? escaped(pattern) : redacted(url: pattern) }

    /// The pattern as an origin and the text behind it, as written. Without an origin if the pattern is shorter, such
    /// as `https://`; it is then in lower case as schemes are: RFC 3986 §3.1.
    ///
    /// - Throws: For an http or https URL whose host or port libcurl refuses.
    fileprivate var beginning: (origin: Origin?, rest: Substring) {
        get throws(URLError) {
            let parts = pattern.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, ["http", "https"].contains(parts[0].lowercased()) else {
                return (nil, pattern.lowercased()[...])
            }
            let authority = parts[1].prefix { !"/?#".contains($0) }
            guard !authority.isEmpty else { return (nil, pattern.lowercased()[...]) }
            return (try CurlURL("\(parts[0])://\(authority)/").origin, parts[1][authority.endIndex...])
        }
    }
}

/// Rules in order, ready for use: by the transport for its ``TransportConfiguration/rewriteRules``, and as the built-in
/// resolver, with the same result.
package final class RewriteRules: RequestResolver {
    /// Each function returns the new URL, or `nil` if its rule does not apply. `Regex` is not `Sendable`.
    private let rules: Mutex<[(CurlURL) -> CurlURL?]>
    private let written: [RewriteRule]

    package init(_ rules: [RewriteRule]) {
        self.rules = Mutex(rules.map { $0.isExpression ? Self.matcher($0) : Self.mover($0) })
        written = rules
    }

    /// Applies the first rule that matches and leads to another, usable URL.
    ///
    /// - Returns: The URL, and the rule's number, from 1.
    package func apply(to url: CurlURL) -> (url: CurlURL, rule: Int)? {
        if written.isEmpty { return nil }
        return rules.withLock { rules in
            for (index, rule) in rules.enumerated() { if let target = rule(url) { return (target, index + 1) } }
            return nil
        }
    }

    package func resolve(_ requests: [ResolverRequest]) -> [RequestDisposition] {
        // Rules of its own: an expression that never ends on one URL must not hold up the questions about others.
        let own = RewriteRules(written)
        return requests.map { request in
            guard let url = try? CurlURL(request.url), let target = own.apply(to: url) else { return .proceed }
            return .replace(url: target.url.text, headers: [])
        }
    }

    /// The URL of a text that a rule has made; `nil` if it is unchanged or not a URL.
    private static func target(_ text: String, from url: CurlURL) -> CurlURL? {
        text == url.text ? nil : try? CurlURL(text)
    }

    private static func mover(_ rule: RewriteRule) -> (CurlURL) -> CurlURL? {
        // Unreadable rules were refused when they were created.
        guard let (origin, rest) = try? rule.beginning else { return { _ in nil } }
        // The text behind the prefix must not extend the replacement's host.
        let destination = (try? CurlURL(rule.replacement))?.origin
        return { url in
            let text = origin == nil ? url.text[...] : url.target
            guard origin == nil || origin == url.origin, text.hasPrefix(rest),
                let target = target(rule.replacement + text.dropFirst(rest.count), from: url),
                destination == nil || destination == target.origin
            else { return nil }
            return target
        }
    }

    private static func matcher(_ rule: RewriteRule) -> (CurlURL) -> CurlURL? {
        guard let expression = try? Regex(String(rule.pattern.dropFirst())) else { return { _ in nil } }
        return { url in
            let text = url.text
            guard let match = try? expression.firstMatch(in: text) else { return nil }
            let filled = fill(rule.replacement, match.output)
            return target(text[..<match.range.lowerBound] + filled + text[match.range.upperBound...], from: url)
        }
    }

    private static func fill(_ template: String, _ groups: AnyRegexOutput) -> String {
        var result = ""
        var rest = Substring(template)
        while let character = rest.popFirst() {
            guard character == "$", let next = rest.first else {
                result.append(character)
                continue
            }
            if next == "$" {
                result.append("$")
            } else if let index = next.wholeNumberValue, next.isASCII {
                if index < groups.count, let group = groups[index].substring { result += group }
            } else {
                result.append("$")
                continue
            }
            rest.removeFirst()
        }
        return result
    }
}
