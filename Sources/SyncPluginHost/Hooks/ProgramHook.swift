package import SyncPlugins
import SyncSystem

/// Runs a program when a group is complete.
///
/// 1. The program is argv, an absolute path first; no shell reads any of it.
/// 2. It gets an environment of its own, see ``HookEnvironment``; the destination as working directory; the
///    report as standard input, a file in memory, so that a program that does not read it delays nobody; every
///    other descriptor closed; umask 022; signals at their defaults.
/// 3. It leads a session and process group of its own. At its deadline the group gets SIGTERM, and SIGKILL
///    after the grace. What it leaves running in its group ends with it; a daemon must make its own session.
/// 4. Its output is read to the end and kept up to a bound.
///
/// Not swift-subprocess (1.0): that can neither set the umask, nor end the rest of a group whose leader has gone, nor
/// stop waiting for output that a daemon holds open.
package struct ProgramHook: GroupHook {
    package struct Limits: Sendable {
        /// From SIGTERM to SIGKILL.
        package var grace = Duration.seconds(10)
        /// The same when this process is asked to stop: it answers within a second.
        package var stopGrace = Duration.milliseconds(600)
        /// From the program's own end until what it left in its group is asked to end.
        package var linger = Duration.seconds(1)
        /// The first **bytes** of output to keep.
        package var outputHead = 1 << 20
        /// The last **bytes** of output to keep.
        package var outputTail = 64 << 10

        package init() {}
    }

    private let environment: HookEnvironment
    private let limits: Limits

    /// - Parameters:
    ///   - environment: This process's variables; only the few that ``HookEnvironment`` names are used.
    ///   - limits: Grace and output bounds.
    package init(environment: [String: String], limits: Limits = Limits()) {
        self.environment = HookEnvironment(inheriting: environment)
        self.limits = limits
    }

    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let clock = SuspendingClock()
        let start = clock.now
        do throws(ProgramError) {
            let watch = try ProcessWatch(start: invocation, environment: environment, limits: limits)
            var outcome = watch.untilEnd { clock.now - start }
            outcome.milliseconds = (clock.now - start).milliseconds
            return outcome
        } catch { return error.outcome }
    }
}

/// The whole environment of a hook: a list of what it gets, not of what it does not.
package struct HookEnvironment: Sendable {
    /// Where a hook finds programs, whatever this process's own `PATH` says.
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
        let own = invocation.environment.filter { name, _ in name.hasPrefix("SYNCAGENT_") && !name.contains("=") }
        return base + own.map { "\($0.key)=\($0.value)" }.sorted()
    }
}
