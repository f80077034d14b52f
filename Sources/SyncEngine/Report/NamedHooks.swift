import SyncManifest
import SyncModel

/// The hooks named by a manifest's groups that are defined on this machine. A manifest cannot define a program.
struct NamedHooks {
    /// In the manifest's order.
    private(set) var specifications: [RunHook] = []
    /// The first undefined names, each once, with the first group that has it.
    private(set) var unknown: [(name: String, group: String)] = []
    /// The number of further undefined names.
    private(set) var more = 0

    /// The most undefined names that are reported one by one: a manifest can have millions.
    private static let toldNames = 100

    /// - Parameters:
    ///   - manifest: Only its groups that take part in the run count.
    ///   - known: The hooks defined here, by name; their `group` is ignored.
    init(_ manifest: Manifest, _ recipe: RunRecipe, _ known: [String: RunHook]) {
        let selected = Set(recipe.groups)
        var seen = Set(recipe.hooks)
        var unknownNames: Set<String> = []
        for group in manifest.groups where !recipe.hasPatterns && (selected.isEmpty || selected.contains(group.name)) {
            for name in group.hooks {
                guard var hook = known[name] else {
                    guard unknownNames.insert(name).inserted else { continue }
                    if unknown.count < Self.toldNames { unknown.append((name, group.name)) } else { more += 1 }
                    continue
                }
                hook.group = group.name
                if seen.insert(hook).inserted { specifications.append(hook) }
            }
        }
    }

    /// The undefined names, for people, one per line.
    var notes: [String] {
        let what = more == 1 ? "hook that is" : "hooks that are"
        let rest = "the manifest names \(more) more \(what) not defined here"
        let notes = unknown.map { name, group in
            "the manifest's group '\(escaped(group))' names the hook '\(escaped(name))', which is not defined here;"
                + " define it in the configuration file: hooks: { \"\(escaped(name))\": { program: \"/…\" } }"
        }
        return notes + (more > 0 ? [rest] : [])
    }
}
