import ArgumentParser
import Foundation
import SyncControl
import SyncEngine
import SyncModel

/// When a pull is handed to the agent instead of being run here.
struct BackgroundOptions: ParsableArguments {
    @Flag(help: "Hand the pull to the agent and return; it survives logouts, kills and reboots.")
    var background = false

    @Option(
        help:
            "With --background: do not start before this time: 02:00, '2026-11-20 02:00', an RFC 3339 time, or 90m from now."
            .taking("time"),
        transform: startTime
    )
    var notBefore: Int64?

    @Flag(help: "With --background: only enqueue the run; 'syncagent resume' starts it.")
    var paused = false

    @Flag(
        help:
            "With --background, in a hook: run as if a person had asked, without waiting for a convenient time."
    )
    var interactive = false

    @Option(help: "With --background: a note to show in 'syncagent status'.".taking("text"))
    var label: String?

    /// Puts them into a recipe. Who asks is a hook unless it says that a person does (S50).
    func apply(to recipe: inout RunRecipe, _ environment: EnvironmentPaths) {
        recipe.notBefore = notBefore.map(WallTime.init)
        recipe.paused = paused
        recipe.label = label
        recipe.origin = environment.hookRun() == nil || interactive ? .interactive : .hook
        if recipe.origin == .hook { recipe.originRun = environment.hookRun() }
    }

    func validate() throws {
        // S45: what could not be kept is refused, not ignored.
        if !background {
            let given = [
                ("--not-before", notBefore != nil), ("--paused", paused), ("--label", label != nil),
                ("--interactive", interactive),
            ].first { $0.1 }
            if let given {
                throw ValidationError("\(given.0) needs --background; without it the pull starts at once.")
            }
        }
        if let label, label.utf8.count > 4_096 {
            throw ValidationError("--label takes at most 4,096 bytes.")
        }
    }
}

/// How hooks are run, and after which results.
struct HookOptions: ParsableArguments {
    @Option(
        name: .customLong("file-hook"),
        help: "A program to run on the changed files, a batch at a time; repeatable.".taking("program"),
        completion: .file()
    )
    var fileHooks: [String] = []

    @Option(help: "The most files in one call of a file hook.  (default: 100)".taking("number"))
    var fileHookBatch: Int?

    @Option(
        help: "Run hooks only after these results.  (default: ok,partial,failed)".taking("results"),
        transform: hookResults
    )
    var hookOn: Set<RunResult>?

    @Option(
        help: "Stop a hook that runs longer than this: 90s, 15m, 2h.  (default: 10m)".taking("time"),
        transform: duration
    )
    var hookTimeout: Duration?

    var results: [RunResult] { RunResult.allCases.filter { hookOn?.contains($0) ?? true } }

    /// Most **seconds** a hook may run.
    var timeout: Int { hookTimeout.map { Int($0 / .seconds(1)) } ?? 600 }

    var batch: Int { fileHookBatch ?? 100 }

    /// - Throws: `ValidationError` when something is said about hooks and there are none.
    func check(hasHooks: Bool) throws {
        if let fileHookBatch {
            guard !fileHooks.isEmpty else {
                throw ValidationError("--file-hook-batch needs a --file-hook.")
            }
            guard RunHook.batches.contains(fileHookBatch) else {
                throw ValidationError("--file-hook-batch takes 1 to 10000, not \(fileHookBatch).")
            }
        }
        guard !hasHooks, fileHooks.isEmpty else { return }
        let option = hookOn != nil ? "--hook-on" : hookTimeout != nil ? "--hook-timeout" : nil
        if let option { throw ValidationError("\(option) needs a --hook, --group-hook or --file-hook.") }
    }
}

/// Reads `ok,partial`.
@Sendable
private func hookResults(_ text: String) throws -> Set<RunResult> {
    let words = text.split(separator: ",", omittingEmptySubsequences: false)
    let results = words.compactMap { RunResult(rawValue: String($0)) }
    guard results.count == words.count else {
        throw ValidationError("'\(escaped(text))' is not a list of ok, partial and failed.")
    }
    return Set(results)
}

/// Reads a time to start at, in **milliseconds** since 1970.
@Sendable
private func startTime(_ text: String) throws -> Int64 {
    guard let time = StartTime.parse(text, now: Date(), calendar: .current) else {
        throw ValidationError(
            "'\(escaped(text))' is not a time such as 02:00, '2026-11-20 02:00', 2026-11-20T02:00:00Z or 90m."
        )
    }
    return time
}

/// Times people give. Pure.
enum StartTime {
    /// - Parameters:
    ///   - text: `02:00` for the next time it is that late, a day and a time in local time, an RFC 3339 time, or a
    ///     time from now such as `90m`.
    ///   - now: The present.
    ///   - calendar: With the time zone that local times are in.
    /// - Returns: **Milliseconds** since 1970.
    static func parse(_ text: String, now: Date, calendar: Calendar) -> Int64? {
        // A digit of another script is one to a regular expression, and none to Int.
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let date: Date?
        if let wait = try? duration(text) {
            date = now.addingTimeInterval(wait / .seconds(1))
        } else if let match = text.wholeMatch(of: /(\d{2}):(\d{2})/) {
            date = time(match.1, match.2).flatMap {
                calendar.nextDate(after: now, matching: $0, matchingPolicy: .nextTime)
            }
        } else if let match = text.wholeMatch(of: /(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2})(?::(\d{2}))?/) {
            var parts = time(match.4, match.5)
            parts?.year = Int(match.1)
            parts?.month = Int(match.2)
            parts?.day = Int(match.3)
            parts?.second = match.6.flatMap { Int($0) } ?? 0
            // A 31st of June is no date, not the 1st of July.
            date = parts.flatMap { parts in
                var parts = parts
                parts.calendar = calendar
                parts.timeZone = calendar.timeZone
                return parts.isValidDate ? calendar.date(from: parts) : nil
            }
        } else {
            return parseTimestamp(text)
        }
        return date.flatMap { Int64(exactly: ($0.timeIntervalSince1970 * 1_000).rounded()) }
    }

    private static func time(_ hour: Substring, _ minute: Substring) -> DateComponents? {
        guard let hour = Int(hour), let minute = Int(minute), hour < 24, minute < 60 else { return nil }
        return DateComponents(hour: hour, minute: minute, second: 0)
    }
}
