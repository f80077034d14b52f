import SyncPlugins
import SyncSchedule

/// What a condition answers, without its words.
enum Verdict: Sendable, Equatable {
    case ok, blocked, unknown

    init(_ state: ConditionState) {
        switch state {
        case .ok: self = .ok
        case .blocked: self = .blocked
        case .unknown: self = .unknown
        }
    }
}

extension Condition {
    /// Its answer, without its words.
    func verdict(received: UInt64 = 0, at now: Int64 = 0) throws -> Verdict {
        Verdict(try state(in: ConditionContext(destination: "/", receivedBytes: received, now: now)))
    }
}

/// A condition that answers what a test says.
struct Scripted: Condition {
    let name: String
    let answer: @Sendable (ConditionContext) throws(PluginError) -> ConditionState

    init(_ name: String, _ answer: @escaping @Sendable (ConditionContext) throws(PluginError) -> ConditionState) {
        self.name = name
        self.answer = answer
    }

    func state(in context: ConditionContext) throws(PluginError) -> ConditionState { try answer(context) }
}

extension ConditionState {
    /// Its words; empty for ``ok``.
    var words: String {
        switch self {
        case .ok: ""
        case .blocked(let reason, _), .unknown(let reason): reason
        }
    }
}
