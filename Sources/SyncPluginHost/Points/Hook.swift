import SyncModel
package import SyncPlugins
import SyncSystem

/// Calls a plugin when a group is complete: method `hook.run`.
extension PluginClient: GroupHook {
    /// Most **bytes** of its output that are kept.
    private static let mostOutput = 64 << 10

    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let clock = SuspendingClock()
        let start = clock.now
        var outcome = outcome(of: Result { () throws(PluginError) in try call(invocation) })
        outcome.milliseconds = (clock.now - start).milliseconds
        return outcome
    }

    private func call(_ invocation: HookInvocation) throws(PluginError) -> JSONValue {
        let report = try directory.file(for: self) { invocation.spoolInput(to: $0) }
        defer { removeFile(report) }
        return try call(
            "hook.run", timeout: .seconds(max(1, invocation.timeout)), isStopped: invocation.isStopped
        ) { line in
            line.field("arguments", invocation.arguments.dropFirst())
            line.field("directory", invocation.directory)
            line.object("environment") { line in
                for (name, value) in invocation.environment.sorted(by: { $0.key < $1.key }) { line.field(name, value) }
            }
            line.field("report_path", report)
            line.field("timeout", invocation.timeout)
        }
    }

    private func outcome(of result: Result<JSONValue, PluginError>) -> HookOutcome {
        switch result {
        case .success(let value):
            guard let status = value["status"]?.integer.flatMap({ Int32(exactly: $0) }) else {
                return ended(.exited(70), "plugin \(name): its answer has no number 'status'")
            }
            return ended(.exited(status), value["output"]?.string ?? "", isTransient: status == 75)
        case .failure(let error):
            switch error.code {
            case .timedOut: return ended(.timedOut, error.description)
            case .cancelled: return ended(.stopped, "")
            case .unavailable:
                let words = error.description
                var outcome = ended(error.wasAsked ? .unknown(words) : .notStarted(words), "", isTransient: true)
                outcome.isExhaustion = error.isExhaustion
                return outcome
            // 70: EX_SOFTWARE, sysexits(3).
            case .badAnswer: return ended(.exited(70), error.description)
            default: return ended(.exited(1), error.description)
            }
        }
    }

    private func ended(_ end: HookOutcome.End, _ output: String, isTransient: Bool = false) -> HookOutcome {
        HookOutcome(
            end: end, output: String(decoding: output.utf8.prefix(Self.mostOutput), as: UTF8.self), milliseconds: 0,
            outputBytes: UInt64(output.utf8.count), isTransient: isTransient)
    }
}

/// Checks a hook. It really runs, several times.
///
/// - Parameters:
///   - hook: The hook.
///   - invocation: A call that should succeed; its timeout is the longest time for a rule.
package func check(hook: any GroupHook, invocation: HookInvocation) -> [CheckResult] {
    var book: [CheckResult] = []
    func run(_ change: (inout HookInvocation) -> Void = { _ in }) -> HookOutcome {
        var call = invocation
        change(&call)
        return hook.run(call)
    }
    func report(_ change: (inout [String: JSONValue]) -> Void) -> [UInt8] {
        var members = JSONValue(text: String(decoding: invocation.input, as: UTF8.self))?.object ?? [:]
        change(&members)
        return Array(JSONValue.object(members).text.utf8)
    }

    book.rule("A call for a completed group succeeds", "Answer status 0 when the work is done.") { fault(of: run()) }
    book.rule(
        "The same call again succeeds as well",
        "A hook is called at least once for a group: a second call must find its work done and say so."
    ) { fault(of: run()) }
    book.rule("It handles a large report", "Read the report as a stream or as a whole; it can be megabytes long.") {
        let digest = JSONValue.string(String(repeating: "0", count: 64))
        let entries = (0..<20_000).map { number in
            JSONValue.object([
                "path": .string("files/\(number).bin"), "state": .string("unchanged"), "size": .integer(5),
                "sha256": digest,
            ])
        }
        return fault(of: run { call in call.input = report { members in members["entries"] = .array(entries) } })
    }
    book.rule(
        "It handles a report without entries",
        "A report that is sent after a crash or a stop, or in a replay, lists no files: look at the directory."
    ) {
        let late = report { members in
            members["entries"] = nil
            members["late"] = .bool(true)
        }
        return fault(of: run { call in call.input = late })
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
    return book
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
