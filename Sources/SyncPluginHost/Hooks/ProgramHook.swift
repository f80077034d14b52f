package import SyncPlugins
import SyncSystem

/// Runs a program when a group is complete.
///
/// 1. The program is given by argv, an absolute path first; no shell interprets it.
/// 2. It gets its own environment, see ``programVariables(_:)``; the destination as working directory; the report as
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
        /// From the program's own end until SIGTERM for the rest of its group, and from SIGKILL to giving up.
        package var linger = Duration.seconds(1)
        /// The first **bytes** of output to keep.
        package var outputHead = 1 << 20
        /// The last **bytes** of output to keep.
        package var outputTail = 64 << 10

        package init() {}
    }

    private let environment: [String: String]
    private let limits: Limits

    /// - Parameters:
    ///   - environment: This process's variables, of which a hook gets few.
    ///   - limits: Grace and output bounds.
    package init(environment: [String: String], limits: Limits = Limits()) {
        (self.environment, self.limits) = (environment, limits)
    }
    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let clock = SuspendingClock()
        let start = clock.now
        do throws(ProgramError) {
            let watch = try ProcessWatch(
                start: invocation, variables: invocation.variables(environment), limits: limits)
            var outcome = watch.untilEnd { clock.now - start }
            outcome.milliseconds = (clock.now - start).milliseconds
            return outcome
        } catch { return error.outcome }
    }
}

/// The search path of a hook, independent of this process's `PATH`.
let hookPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/// `NAME=value`, environ(7): the variables of every program that syncagent starts, an allowlist.
///
/// - Parameter environment: This process's variables.
func programVariables(_ environment: [String: String]) -> [String] {
    ["PATH=\(hookPath)"] + pairs(["HOME", "LANG", "TZ", "USER"], environment)
}

private func pairs(_ names: [String], _ environment: [String: String]) -> [String] {
    names.compactMap { name in environment[name].map { "\(name)=\($0)" } }
}

extension HookInvocation {
    /// `NAME=value`, environ(7): the complete environment of a hook. A `syncagent` that it starts finds the same state,
    /// settings and agent.
    ///
    /// - Parameter environment: This process's variables.
    fileprivate func variables(_ environment: [String: String]) -> [String] {
        let places = pairs(["XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"], environment)
        let own = self.environment.filter { name, _ in name.hasPrefix("SYNCAGENT_") && !name.contains("=") }
        return programVariables(environment) + places + own.map { "\($0.key)=\($0.value)" }.sorted()
    }
}
