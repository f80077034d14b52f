package import SyncEngine
package import SyncPlugins
package import SyncTransfer

/// Everything that stands at the plugin points of an engine, built in, in process or in programs.
package struct EnginePlugins: Sendable {
    package var resolvers: [ConfiguredResolver] = []
    package var credentialProviders: [ConfiguredCredentialProvider] = []
    package var verifications: [FileVerification] = []
    package var transports: [(scope: URLScope, transport: any Transport)] = []
    /// By the names that `plugin:NAME` has.
    package var hooks: [String: any GroupHook] = [:]
    package var observers: [(observer: any EventObserver, names: Set<String>)] = []

    /// None.
    package init() {}
}

/// Runs the hook that `plugin:NAME` names.
struct NamedPluginHook: GroupHook {
    private let hooks: [String: any GroupHook]

    init(_ hooks: [String: any GroupHook]) { self.hooks = hooks }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        let name = hookPlugin(invocation.arguments.first ?? "") ?? ""
        guard let hook = hooks[name] else {
            let known = hooks.keys.sorted().joined(separator: ", ")
            let text =
                "the configuration has no hook plugin '\(name)'"
                + (known.isEmpty ? "; plugins.use names none" : "; known: \(known)")
            return HookOutcome(end: .notStarted(text), output: "", milliseconds: 0)
        }
        return hook.run(invocation)
    }
}
