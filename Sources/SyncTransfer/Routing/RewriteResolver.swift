package import SyncPlugins

/// Rewriting rules as a resolver: the built-in one.
///
/// ``TransportConfiguration/rewriteRules`` are applied by the transport's own thread, without a question to others;
/// they say the same.
package struct RewriteResolver: RequestResolver {
    private let rules: [RewriteRule]

    /// First match wins.
    package init(_ rules: [RewriteRule]) { self.rules = rules }

    package func resolve(_ requests: [ResolverRequest]) -> [RequestDisposition] {
        let prepared = RewriteRules(rules)
        return requests.map { request in
            guard let url = try? CurlURL(request.url), let target = prepared.apply(to: url) else {
                return .proceed
            }
            return .replace(url: target.url.text, headers: [])
        }
    }
}
