/// Runs each hook according to its first word: a webhook's URL, a plugin's name, a program's path.
public struct HookDispatch: GroupHook {
    /// A hook, and the first words of argv that it handles.
    public struct Route: Sendable {
        let isFor: @Sendable (String) -> Bool
        let hook: any GroupHook

        /// Makes a route.
        public init(_ hook: any GroupHook, isFor: @escaping @Sendable (String) -> Bool) {
            self.isFor = isFor
            self.hook = hook
        }
    }

    private let routes: [Route]
    private let others: any GroupHook

    /// - Parameters:
    ///   - routes: Tried in this order with the first word of argv.
    ///   - others: Handles everything else.
    public init(_ routes: [Route], others: any GroupHook) {
        self.routes = routes
        self.others = others
    }

    /// Runs the matching hook; see ``GroupHook/run(_:)``.
    public func run(_ invocation: HookInvocation) -> HookOutcome {
        let word = invocation.arguments.first ?? ""
        return (routes.first { $0.isFor(word) }?.hook ?? others).run(invocation)
    }
}

/// The name behind `plugin:` in a hook's first word.
public func hookPlugin(_ word: String) -> String? {
    let prefix = "plugin:"
    return word.hasPrefix(prefix) && word.count > prefix.count ? String(word.dropFirst(prefix.count)) : nil
}

/// Whether a hook's first word is valid: an absolute path, an http or https URL, `plugin:NAME`.
public func isHookProgram(_ word: String) -> Bool {
    guard !word.contains("\0") else { return false }
    return word.hasPrefix("/") || word.hasPrefix("https://") || word.hasPrefix("http://") || hookPlugin(word) != nil
}

/// A hook's first word for logs: only the host of a webhook, because its path is often a secret.
public func shownHookProgram(_ word: String) -> String {
    guard let scheme = word.firstRange(of: "://"), !word.hasPrefix("/") else { return word }
    let rest = word[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let host = rest.lastIndex(of: "@").map { rest[rest.index(after: $0)...] } ?? rest
    return word[..<scheme.upperBound] + host + "/…"
}
