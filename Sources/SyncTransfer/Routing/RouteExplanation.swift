import SyncModel
import SyncPlugins
package import SyncSystem

/// Where the first request for a URL would go, and with which credentials, according to the configuration alone.
/// Contains no secret.
package struct RouteExplanation: Sendable {
    /// The URL as named by the manifest or the user, redacted.
    package let original: String
    /// The number of the rule that applies, from 1, and its pattern.
    package let rule: (place: Int, pattern: String)?
    /// The requested URL, redacted.
    package let asked: String
    /// The kind of credentials sent: `basic`, `bearer` or `sigv4`; `nil` for none.
    package let credentials: String?
    /// How many of the configured headers are sent.
    package let headers: Int
    /// The proxy's URL, and whether a user name is sent to it.
    package let proxy: (url: String, hasUser: Bool)?
    /// The TLS settings, with the client's certificate only if this origin gets it; `nil` for http.
    package let tls: TLSConfiguration?
}

extension TransportConfiguration {
    /// Explains where the first request for a URL would go.
    ///
    /// - Throws: ``URLError`` for a URL that this program does not request.
    package func explain(_ text: String) throws(URLError) -> RouteExplanation {
        let original = try CurlURL(text)
        let rewritten = RewriteRules(rewriteRules).apply(to: original)
        let asked = rewritten?.url ?? original
        let isHome = homes?.contains(original.origin) != false
        let kind = asked.isSigned ? nil : credentials[asked.origin]
        let proxy = proxy(for: asked.origin)
        var tls: TLSConfiguration? = asked.origin.scheme == "https" ? self.tls : nil
        if !isHome { tls?.certificate = nil }
        return RouteExplanation(
            original: redacted(original), rule: rewritten.map { ($0.rule, rewriteRules[$0.rule - 1].shownPattern) },
            asked: redacted(asked), credentials: kind?.name, headers: isHome ? headers.count : 0,
            proxy: proxy.map { (redacted(url: $0.url), $0.user != nil) }, tls: tls)
    }
}

extension Credential.Kind {
    /// The kind, as the credentials file names it.
    package var name: String {
        switch self {
        case .basic: "basic"
        case .bearer: "bearer"
        case .sigV4: "sigv4"
        case .headers: "headers"
        }
    }
}
