/// Runs each hook by what its first word is for: a webhook's URL, a plugin's name, a program's path.
public struct HookDispatch: GroupHook {
    private let routes: [(isFor: @Sendable (String) -> Bool, hook: any GroupHook)]
    private let others: any GroupHook

    /// - Parameters:
    ///   - routes: Asked in this order with the first word of argv.
    ///   - others: For what no route is for.
    public init(
        _ routes: [(isFor: @Sendable (String) -> Bool, hook: any GroupHook)],
        others: any GroupHook
    ) {
        self.routes = routes
        self.others = others
    }

    /// Runs the hook that is meant; see ``GroupHook/run(_:)``.
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

/// Whether a hook's first word can mean anything: an absolute path, an http or https URL, `plugin:NAME`.
public func isHookProgram(_ word: String) -> Bool {
    guard !word.contains("\0") else { return false }
    return word.hasPrefix("/") || word.hasPrefix("https://") || word.hasPrefix("http://")
        || hookPlugin(word) != nil
}

/// A hook's first word as logs may show it: of a webhook only the host, since its path is often a secret (V64).
public func shownHookProgram(_ word: String) -> String {
    guard let scheme = word.firstRange(of: "://"), !word.hasPrefix("/") else { return word }
    let rest = word[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let host = rest.lastIndex(of: "@").map { rest[rest.index(after: $0)...] } ?? rest
    return word[..<scheme.upperBound] + host + "/…"
}
