import SyncModel
package import SyncPlugins

/// The answer of one condition, by its ``/SyncPlugins/Condition/name``.
package typealias ConditionAnswer = (name: String, state: ConditionState)

/// The result of an evaluation, with the changes since the last one.
package struct ConditionReport: Sendable {
    /// A condition that has started or stopped blocking.
    package enum Change: Sendable, Equatable {
        /// It blocks; the reason is for people, `until` is in **milliseconds** since 1970.
        case blocked(condition: String, reason: String, until: Int64?)
        /// It no longer blocks, after this many **milliseconds**.
        case cleared(condition: String, after: Int64)
    }

    /// The answers of all conditions, in order.
    package var answers: [ConditionAnswer] = []
    /// When the first blocking condition began to block, in **milliseconds** since 1970.
    package var since: Int64?
    package var changes: [Change] = []
    /// Conditions that could not be determined and therefore count as met, each reported once, when nothing else
    /// blocks.
    package var warnings: [String] = []

    /// The first blocking condition, and its reason for people.
    private var first: (condition: String, reason: String)? {
        for answer in answers {
            if case .blocked(let reason, _) = answer.state { return (answer.name, reason) }
        }
        return nil
    }

    /// Name of the first blocking condition; `nil` if the run may proceed.
    package var condition: String? { first?.condition }

    /// Its reason, for people.
    package var reason: String? { first?.reason }

    package var isBlocked: Bool { first != nil }

    /// When to evaluate again, in **milliseconds** since 1970.
    ///
    /// - Parameters:
    ///   - now: The present.
    ///   - interval: **Milliseconds** between evaluations while no condition reports until when it blocks.
    /// - Returns: The latest time until which a condition blocks, at most two days and at least `interval` from now.
    package func nextCheck(after now: Int64, every interval: Int64) -> Int64 {
        let times = answers.compactMap { answer -> Int64? in
            guard case .blocked(_, let until) = answer.state else { return nil }
            return until
        }
        return max(min(times.max() ?? now, now + Self.longestWait), now + interval)
    }

    /// **Milliseconds** after which conditions are asked again, whatever they have said: less than the agent holds a
    /// run for.
    private static let longestWait: Int64 = 2 * 86_400_000
}

/// Turns answers into a report, and keeps state between evaluations. Pure.
package struct ConditionLedger: Sendable, Equatable {
    /// When each blocking condition began to block, by name, in **milliseconds** since 1970.
    package private(set) var blockedSince: [String: Int64]
    private var warned: Set<String> = []

    /// Longest reason that is passed on, in characters, because plugins write them.
    private static let reasonLimit = 300

    /// - Parameter blockedSince: The state before a restart.
    package init(blockedSince: [String: Int64] = [:]) { self.blockedSince = blockedSince.mapValues { max(0, $0) } }

    /// Takes the answers of one evaluation, at a time in **milliseconds** since 1970.
    package mutating func take(_ answers: [ConditionAnswer], at now: Int64) -> ConditionReport {
        var report = ConditionReport()
        report.answers = answers.map { Self.safe($0, at: now) }
        // Several plugins may have the same name.
        var blocking: Set<String> = []
        for answer in report.answers {
            guard case .blocked(let reason, let until) = answer.state else { continue }
            blocking.insert(answer.name)
            note(blocked: answer.name, reason, until, at: now, in: &report)
        }
        for answer in report.answers where !blocking.contains(answer.name) {
            guard let since = blockedSince.removeValue(forKey: answer.name) else { continue }
            report.changes.append(.cleared(condition: answer.name, after: max(0, now - since)))
        }
        if !report.isBlocked { warn(in: &report) }
        return report
    }

    private mutating func warn(in report: inout ConditionReport) {
        for answer in report.answers {
            guard case .unknown(let reason) = answer.state, warned.insert(answer.name).inserted else { continue }
            report.warnings.append("condition \(answer.name) counts as met: \(reason)")
        }
    }

    private mutating func note(
        blocked name: String, _ reason: String, _ until: Int64?, at now: Int64, in report: inout ConditionReport
    ) {
        if blockedSince[name] == nil { report.changes.append(.blocked(condition: name, reason: reason, until: until)) }
        // If the clock was set back, the start must not lie in the future.
        let since = min(blockedSince[name] ?? now, now)
        blockedSince[name] = since
        report.since = report.since ?? since
    }

    /// The answer with its texts made safe for terminals and logs, and without an implausible time.
    private static func safe(_ answer: ConditionAnswer, at now: Int64) -> ConditionAnswer {
        let text = { (reason: String) in escaped(String(reason.prefix(reasonLimit))) }
        let state: ConditionState =
            switch answer.state {
            case .ok: .ok
            case .blocked(let reason, let until):
                .blocked(reason: text(reason), until: until.flatMap { ConditionState.isEnd($0, at: now) ? $0 : nil })
            case .unknown(let reason): .unknown(reason: text(reason))
            }
        return (escaped(answer.name), state)
    }
}
