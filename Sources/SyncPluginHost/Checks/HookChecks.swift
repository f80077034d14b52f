package import SyncPlugins

/// Checks a hook. It really runs, several times.
///
/// - Parameters:
///   - hook: A runner of hooks.
///   - invocation: A call that shall succeed; its timeout is the longest that a rule takes.
package func check(hook: any GroupHook, invocation: HookInvocation) -> [CheckResult] {
    var book = RuleBook()
    func run(_ change: (inout HookInvocation) -> Void = { _ in }) -> HookOutcome {
        var call = invocation
        change(&call)
        return hook.run(call)
    }

    book.rule("A call for a completed group succeeds", "Answer status 0 when the work is done.") { fault(of: run()) }
    book.rule(
        "The same call again succeeds as well",
        "A hook is called at least once for a group: a second call must find its work done and say so."
    ) { fault(of: run()) }
    book.rule("It handles a large report", "Read the report as a stream or as a whole; it can be megabytes long.") {
        let files = (0..<20_000).map { "\"files/\($0).bin\"" }.joined(separator: ",")
        return fault(of: run { $0.input = Array("{\"changed\":[\(files)]}".utf8) })
    }
    book.rule(
        "It ignores variables and keys that it does not know", "Later versions add more; ignore what you do not know."
    ) { fault(of: run { $0.environment["SYNCAGENT_SOMETHING_NEW"] = "ä \u{1F5BC}" }) }
    book.rule("A call that is stopped ends soon", "End early when asked to; a stopped hook is run again.") {
        let outcome = run { $0.isStopped = { true } }
        let isLate = outcome.milliseconds > 20_000
        return isLate ? "it took \(outcome.milliseconds) ms to end" : nil
    }
    book.rule("Two calls at a time both succeed", "Two groups may be complete at once: lock what they share.") {
        let call = invocation
        return together(2) { _ in fault(of: hook.run(call)) }
    }
    return book.results
}

private func fault(of outcome: HookOutcome) -> String? {
    if outcome.succeeded { return nil }
    let words = outcome.output.isEmpty ? "" : ": \(outcome.output.suffix(200))"
    return switch outcome.end {
    case .exited(let status): "status \(status)\(words)"
    case .signalled(let number): "it was killed by signal \(number)\(words)"
    case .timedOut: "it did not end in time\(words)"
    case .stopped: "it was stopped\(words)"
    case .notStarted(let reason): "it was not started: \(reason)"
    case .unknown(let reason): reason
    }
}
