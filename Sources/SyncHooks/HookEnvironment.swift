import SyncPlugins

/// The whole environment of a hook: a list of what it gets, not of what it does not (V61).
package struct HookEnvironment: Sendable {
    /// Where a hook finds programs, whatever this process's own `PATH` says (V55).
    static let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    /// Variables a hook gets as this process has them.
    static let inherited = ["HOME", "LANG", "TZ", "USER"]
    /// Where a `syncagent` that a hook starts finds the same state, settings and agent.
    static let places = ["XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]

    private let base: [String]

    /// - Parameter environment: This process's variables.
    init(inheriting environment: [String: String]) {
        base = Self.minimal(environment) + Self.pairs(Self.places, environment)
    }

    /// `NAME=value`, environ(7): what every program gets that syncagent starts.
    package static func minimal(_ environment: [String: String]) -> [String] {
        ["PATH=\(path)"] + pairs(inherited, environment)
    }

    private static func pairs(_ names: [String], _ environment: [String: String]) -> [String] {
        names.compactMap { name in environment[name].map { "\(name)=\($0)" } }
    }

    /// `NAME=value`, environ(7): what every hook gets, and what this call says of its run.
    func variables(for invocation: HookInvocation) -> [String] {
        let own = invocation.environment.filter { name, _ in
            name.hasPrefix("SYNCAGENT_") && !name.contains("=")
        }
        return base + own.map { "\($0.key)=\($0.value)" }.sorted()
    }
}
