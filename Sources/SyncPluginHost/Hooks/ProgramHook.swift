package import SyncPlugins
import SyncSystem

/// Runs a program when a group is complete.
///
/// 1. The program is given by argv, an absolute path first; no shell interprets it.
/// 2. It gets its own environment, see ``HookEnvironment``; the destination as working directory; the report as
///    standard input, a file in memory, so that a program that does not read it delays nobody; every other descriptor
///    closed; umask 022; default signal handling.
/// 3. It leads its own session and process group. At its deadline, the group gets SIGTERM, and SIGKILL after the
///    grace. Processes that it leaves in its group are ended, too; a daemon must create its own session.
/// 4. Its output is read to the end and kept up to a limit.
///
/// Not swift-subprocess (1.0), which can neither set the umask, nor end the rest of a group whose leader has ended, nor
/// stop waiting for output that a daemon holds open.
package struct ProgramHook: GroupHook {
    package struct Limits: Sendable {
        /// From SIGTERM to SIGKILL.
        package var grace = Duration.seconds(10)
        /// The same when this process is asked to stop, which it does within a second.
        package var stopGrace = Duration.milliseconds(600)
        /// From the program's own end until SIGTERM for the rest of its group.
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
    ///   - environment: This process's variables; only those that ``HookEnvironment`` lists are used.
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

/// The complete environment of a hook: an allowlist.
package struct HookEnvironment: Sendable {
    /// The search path of a hook, independent of this process's `PATH`.
    static let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    /// Variables that a hook inherits from this process.
    static let inherited = ["HOME", "LANG", "TZ", "USER"]
    /// Variables with which a `syncagent` that a hook starts finds the same state, settings and agent.
    static let places = ["XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]

    private let base: [String]

    /// - Parameter environment: This process's variables.
    init(inheriting environment: [String: String]) {
        base = Self.minimal(environment) + Self.pairs(Self.places, environment)
    }

    /// `NAME=value`, environ(7): the variables of every program that syncagent starts.
    package static func minimal(_ environment: [String: String]) -> [String] {
        ["PATH=\(path)"] + pairs(inherited, environment)
    }

    private static func pairs(_ names: [String], _ environment: [String: String]) -> [String] {
        names.compactMap { name in environment[name].map { "\(name)=\($0)" } }
    }

    /// `NAME=value`, environ(7): the variables of every hook, and those that this call sets.
    func variables(for invocation: HookInvocation) -> [String] {
        let own = invocation.environment.filter { name, _ in name.hasPrefix("SYNCAGENT_") && !name.contains("=") }
        return base + own.map { "\($0.key)=\($0.value)" }.sorted()
    }
}
