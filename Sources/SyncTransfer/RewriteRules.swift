/// One rule that turns a URL into another one (issue: mirrors nearby, moved servers).
package struct RewriteRule: Sendable, Equatable {
    /// The beginning of the URLs it is for.
    package let prefix: String
    /// What comes in the place of ``prefix``.
    package let replacement: String
}
