import SyncEngine
import SyncModel
import SyncPluginProcess
import SyncPlugins

/// Tells what plugins do besides answering, as events that belong to no run's record.
struct PluginTeller: Sendable {
    private let listener: @Sendable (SyncEvent) -> Void

    init(_ listener: @escaping @Sendable (SyncEvent) -> Void) { self.listener = listener }

    /// One line for people.
    static func line(_ notice: PluginNotice) -> String { "plugin \(notice.plugin): \(notice.text)" }

    func tell(_ notice: PluginNotice) {
        listener(
            SyncEvent("plugin.notice", time: EngineAssembly.milliseconds(), note: Self.line(notice)) {
                $0.field("plugin", notice.plugin)
                $0.field("kind", notice.kind.rawValue)
                $0.field("text", notice.text)
            }
        )
    }

    func observerFailed(_ error: PluginError) {
        let event = TransferEvent.pluginFailed(.observer, error)
        listener(SyncEvent(transfer: event, time: EngineAssembly.milliseconds()))
    }
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
