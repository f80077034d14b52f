import SyncManifest
import SyncModel

/// The hooks that a manifest's groups name, as far as somebody has said here what the names stand for. A manifest
/// never brings a program along (V55).
struct NamedHooks {
    /// A name that nothing is known of.
    struct Unknown: Equatable {
        let name: String
        let group: String

        /// For people.
        var note: String {
            "the manifest's group '\(escaped(group))' names the hook '\(escaped(name))', which is not known here;"
                + " say what it is in the configuration file: hooks: { \"\(escaped(name))\": { program: \"/…\" } }"
        }
    }

    /// In the manifest's order.
    private(set) var specifications: [HookSpecification] = []
    private(set) var unknown: [Unknown] = []

    /// - Parameters:
    ///   - manifest: Whose groups name hooks; those that take part in the run count.
    ///   - options: With ``PullOptions/namedHooks``.
    init(_ manifest: Manifest, _ options: PullOptions) {
        for group in manifest.groups where options.groups.isEmpty || options.groups.contains(group.name) {
            for name in group.hooks {
                guard var hook = options.namedHooks[name] else {
                    unknown.append(Unknown(name: name, group: group.name))
                    continue
                }
                hook.group = group.name
                if !options.hooks.contains(hook), !specifications.contains(hook) {
                    specifications.append(hook)
                }
            }
        }
    }

    /// Says which names nothing is known of, each once.
    func tell(_ events: EventRecorder, session: String, run: String, time: Int64) {
        for hook in unknown {
            events.tell(
                SyncEvent("hook.unknown", time: time, note: hook.note) {
                    $0.field("group", hook.group)
                    $0.field("hook", hook.name)
                }.of(session: session, run: run)
            )
        }
    }
}
