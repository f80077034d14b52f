import ArgumentParser
import SyncAgent
import SyncEngine
import SyncModel
import SyncSchedule
import SyncSystem

/// Options for a pull by the agent.
struct BackgroundOptions: ParsableArguments {
    @Flag(help: "Hand the pull to the agent and return; it survives logouts, kills and reboots.") var background = false

    @Option(
        help:
            "Do not start before this time: 02:00, '2026-11-20 02:00', an RFC 3339 time, or 90m from now."
            .taking("time"), transform: startTime)
    var notBefore: Int64?

    @Flag(help: "Only enqueue the run; 'syncagent resume' starts it.") var paused = false

    @Flag(help: "In a hook: run as if a person had asked, without waiting for a convenient time.")
    var interactive = false

    @Option(help: "A note to show in 'syncagent status'.".taking("text")) var label: String?

    /// Applies the options to a recipe. In a hook, the hook is the origin unless `--interactive` is given.
    func apply(to recipe: inout RunRecipe, _ environment: EnvironmentPaths) {
        recipe.notBefore = notBefore.map(WallTime.init)
        recipe.paused = paused
        recipe.label = label
        recipe.origin = environment.hookRun() == nil || interactive ? .interactive : .hook
        if recipe.origin == .hook { recipe.originRun = environment.hookRun() }
    }

    func validate() throws {
        // Options without effect are refused, not ignored.
        if !background {
            let given = [
                ("--not-before", notBefore != nil), ("--paused", paused), ("--label", label != nil),
                ("--interactive", interactive),
            ].first { $0.1 }
            if let given { throw ValidationError("\(given.0) needs --background; without it the pull starts at once.") }
        }
        if let label, label.utf8.count > 4_096 { throw ValidationError("--label takes at most 4,096 bytes.") }
    }
}

/// Options for hooks: which ones are run, how, and after which results.
struct HookOptions: ParsableArguments {
    @Option(
        name: .customLong("hook"), help: "A program to run when the pull has ended; repeatable.".taking("program"),
        completion: .file())
    var hooks: [String] = []

    @Option(
        name: .customLong("group-hook"),
        help: "A program to run when a group is complete; repeatable.".taking("name=program"))
    var groupHooks: [String] = []

    @Option(
        name: .customLong("file-hook"),
        help: "A program to run on the changed files, a batch at a time; repeatable.".taking("program"),
        completion: .file())
    var fileHooks: [String] = []

    @Option(help: "The most files in one call of a file hook.  (default: 100)".taking("number")) var fileHookBatch: Int?

    @Option(
        help: "Run hooks only after these results.  (default: ok,partial,failed)".taking("results"),
        transform: hookResults)
    var hookOn: Set<RunResult>?

    @Option(
        help: "Stop a hook that runs longer than this: 90s, 15m, 2h.  (default: 10m)".taking("time"),
        transform: duration)
    var hookTimeout: Duration?

    var results: [RunResult] { RunResult.allCases.filter { hookOn?.contains($0) ?? true } }

    /// Most **seconds** a hook may run.
    var timeout: Int { hookTimeout.map { Int($0.components.seconds) } ?? 600 }

    var batch: Int { fileHookBatch ?? 100 }

    /// - Throws: `ValidationError` if there are options for hooks but no hooks.
    func check() throws {
        if let fileHookBatch {
            guard !fileHooks.isEmpty else { throw ValidationError("--file-hook-batch needs a --file-hook.") }
            guard RunHook.batches.contains(fileHookBatch) else {
                throw ValidationError("--file-hook-batch takes 1 to 10000, not \(fileHookBatch).")
            }
        }
        guard hooks.isEmpty, groupHooks.isEmpty, fileHooks.isEmpty else { return }
        let option = hookOn != nil ? "--hook-on" : hookTimeout != nil ? "--hook-timeout" : nil
        if let option { throw ValidationError("\(option) needs a --hook, --group-hook or --file-hook.") }
    }
}

/// Parses a list such as `ok,partial`.
@Sendable private func hookResults(_ text: String) throws -> Set<RunResult> {
    let words = text.split(separator: ",", omittingEmptySubsequences: false)
    let results = words.compactMap { RunResult(rawValue: String($0)) }
    guard results.count == words.count else {
        throw ValidationError("'\(escaped(text))' is not a list of ok, partial and failed.")
    }
    return Set(results)
}

/// Parses a start time, in **milliseconds** since 1970.
@Sendable private func startTime(_ text: String) throws -> Int64 {
    guard let time = startTime(text, now: SystemTime.milliseconds(), zone: .machine) else {
        throw ValidationError(
            "'\(escaped(text))' is not a time such as 02:00, '2026-11-20 02:00', 2026-11-20T02:00:00Z or 90m.")
    }
    return time
}

/// Parses a start time as people write it. Pure.
///
/// - Parameters:
///   - text: `02:00` for the next occurrence of that time, a date and a time in local time, an RFC 3339 time, or a
///     time from now such as `90m`.
///   - now: **Milliseconds** since 1970.
///   - zone: The zone of local times.
/// - Returns: **Milliseconds** since 1970; `nil` for any other text.
func startTime(_ text: String, now: Int64, zone: Zone) -> Int64? {
    if let wait = try? period(text) { return now.saturatingAdd(Int64(wait / .milliseconds(1))) }
    if text.utf8.count == 5, let minute = ScheduleTiming.minutes(text) { return zone.next(minute: minute, after: now) }
    // A date alone is not a start time.
    return (text.utf8.count > 10 ? zone.moment(text) : nil) ?? parseTimestamp(text)
}
