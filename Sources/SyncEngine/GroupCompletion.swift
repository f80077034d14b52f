import SyncManifest
import SyncModel
import SyncPlugins

/// Tells which groups are complete, then runs their hooks. Nothing here starts before every file event is out.
struct GroupCompletion {
    let manifest: Manifest
    let states: RowStates
    let journal: RunJournal
    let environment: EngineEnvironment
    let options: PullOptions
    let destination: String

    /// - Returns: Whether every hook did its work.
    func run(_ report: PullReport) -> Bool {
        var results: [String: PullReport.Result] = ["all": report.result]
        for group in manifest.groups where options.groups.isEmpty || options.groups.contains(group.name) {
            results[group.name] = result(of: manifest.rows(of: group))
        }
        let order = ["all"] + manifest.groups.map(\.name).filter { $0 != "all" }
        for group in order { results[group].map { journal.groupCompleted(group, result: $0) } }
        var allSucceeded = true
        for hook in options.hooks {
            guard let result = results[hook.group] else { continue }
            let input = HookReport(
                manifest: manifest,
                states: states,
                report: report,
                group: hook.group,
                result: result,
                destination: destination
            )
            allSucceeded = run(hook, input, report) && allSucceeded
        }
        return allSucceeded
    }

    private func result(of rows: RowSelection) -> PullReport.Result {
        let missing = rows.rows.count { states[$0] == .failed || states[$0] == .pending }
        return missing == 0 ? .ok : missing == rows.count ? .failed : .partial
    }

    private func run(_ hook: HookSpecification, _ input: HookReport, _ report: PullReport) -> Bool {
        guard let hooks = environment.hooks, let program = hook.arguments.first else { return false }
        var attempt = 1
        while true {
            journal.hookStarted(hook.group, program: program, attempt: attempt)
            let outcome = hooks.run(
                HookInvocation(
                    arguments: hook.arguments,
                    directory: destination,
                    environment: [
                        "SYNCAGENT_SESSION": report.session,
                        "SYNCAGENT_RUN_ID": report.run,
                        "SYNCAGENT_GROUP": hook.group,
                        "SYNCAGENT_RESULT": input.result.rawValue,
                        "SYNCAGENT_CHANGED": String(input.changed),
                        "SYNCAGENT_DESTINATION": destination,
                        "SYNCAGENT_ATTEMPT": String(attempt),
                    ],
                    input: input.json,
                    timeout: hook.timeout,
                    isStopped: { [stop = environment.stop] in stop.isStopped }
                )
            )
            journal.hookFinished(
                hook.group,
                program: program,
                result: Self.word(outcome.end),
                output: outcome.output,
                milliseconds: outcome.milliseconds
            )
            // EX_TEMPFAIL: the hook asks to be called again (F093). Three times, at once.
            guard outcome.end == .exited(75), attempt < 3, !environment.stop.isStopped else {
                return outcome.succeeded
            }
            attempt += 1
        }
    }

    private static func word(_ end: HookOutcome.End) -> String {
        switch end {
        case .exited(let status): "exit \(status)"
        case .signalled(let signal): "signal \(signal)"
        case .timedOut: "timeout"
        case .stopped: "stopped"
        case .notStarted(let reason): "not started: \(reason)"
        }
    }
}
