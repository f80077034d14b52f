import CPosix

/// The directories of a user, by the XDG Base Directory Specification 0.8: a variable with a relative path, or an empty
/// one, counts as unset.
package struct BaseDirectories: Sendable {
    private let lookup: @Sendable (String) -> String?
    private let fallback: String?

    /// - Parameters:
    ///   - fallback: The home directory if `HOME` is not set.
    ///   - lookup: The value of a variable.
    package init(home fallback: String? = nil, lookup: @escaping @Sendable (String) -> String?) {
        (self.fallback, self.lookup) = (fallback, lookup)
    }

    /// The value of a variable if it is an absolute path.
    package func path(_ variable: String) -> String? { lookup(variable).flatMap { $0.hasPrefix("/") ? $0 : nil } }

    /// `$HOME`.
    package var home: String? { path("HOME") ?? fallback.flatMap { $0.hasPrefix("/") ? $0 : nil } }

    /// `$XDG_STATE_HOME`, by default `~/.local/state`; `nil` without a home directory.
    package var state: String? { path("XDG_STATE_HOME") ?? home.map { $0 + "/.local/state" } }

    /// `$XDG_CONFIG_HOME`, by default `~/.config`; `nil` without a home directory.
    package var configuration: String? { path("XDG_CONFIG_HOME") ?? home.map { $0 + "/.config" } }

    /// `$XDG_RUNTIME_DIR`; it has no default.
    package var runtime: String? { path("XDG_RUNTIME_DIR") }
}
