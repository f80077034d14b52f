import SyncPlugins

// The calls of one attempt of a hook, in order; the first that fails ends it.
extension HookInput {
    /// Most **bytes** of output kept of all calls together, if there are several: the end of it.
    static let outputLimit = 64 << 10

    /// The end of an attempt.
    struct End {
        /// Of the last call; output and time are of all.
        var outcome: HookOutcome
        /// Calls that were made.
        var calls: Int
    }

    /// - Parameter invocation: What all calls share.
    func run(_ invocation: HookInvocation, by runner: any GroupHook) -> End {
        var end = End(outcome: HookOutcome(end: .exited(0), output: "", milliseconds: 0), calls: 0)
        if let obstacle {
            end.outcome.end = .notStarted(obstacle)
            return end
        }
        while end.calls < calls {
            if end.calls > 0, invocation.isStopped() {
                end.outcome.end = .stopped
                break
            }
            end.calls += 1
            let outcome = runner.run(call(end.calls, invocation))
            end.outcome = end.calls == 1 ? outcome : Self.joined(end.outcome, outcome)
            if !outcome.succeeded { break }
        }
        return end
    }

    private func call(_ number: Int, _ invocation: HookInvocation) -> HookInvocation {
        var call = invocation
        call.input = report(number)
        if isBatched {
            call.environment["SYNCAGENT_BATCH"] = String(number)
            call.environment["SYNCAGENT_BATCHES"] = String(calls)
            if isLate { call.environment["SYNCAGENT_LATE"] = "1" }
        }
        return call
    }

    private static func joined(_ earlier: HookOutcome, _ later: HookOutcome) -> HookOutcome {
        var both = later
        let text = earlier.output + later.output
        let isCut = text.utf8.count > outputLimit
        both.output = isCut ? "…" + String(decoding: text.utf8.suffix(outputLimit), as: UTF8.self) : text
        both.milliseconds &+= earlier.milliseconds
        both.outputBytes &+= earlier.outputBytes
        both.endedLeftovers = earlier.endedLeftovers || later.endedLeftovers
        return both
    }
}
