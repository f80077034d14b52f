/// When to signal a program, and when to stop waiting for it. Pure; times are since the program's start.
struct Supervision: Sendable {
    /// Why it is being ended; the first reason counts.
    enum Cause: Sendable, Equatable {
        case timedOut, stopped
    }

    /// The one thing to do next.
    enum Action: Sendable, Equatable {
        case none
        /// SIGTERM to the group.
        case terminate
        /// SIGKILL to the group.
        case kill
        /// Stop waiting.
        case giveUp
    }

    private enum Phase: Sendable {
        /// The program runs.
        case running
        /// It ended by itself; others of its group, or its output, are still open.
        case lingering
        /// SIGTERM has been sent.
        case terminating
        /// SIGKILL has been sent.
        case killed
    }

    private let grace: Duration
    private let stopGrace: Duration
    private let linger: Duration
    private var phase = Phase.running
    /// When ``expired(groupIsEmpty:)`` is due.
    private(set) var due: Duration
    /// Set once the program is ended from outside.
    private(set) var cause: Cause?
    /// SIGTERM went to what was left after the program's own end.
    private(set) var endedLeftovers = false

    /// - Parameters:
    ///   - timeout: How long the program may run.
    ///   - grace: From SIGTERM to SIGKILL.
    ///   - stopGrace: The same when the caller wants to end.
    ///   - linger: From the program's own end to SIGTERM for the rest, and from SIGKILL to giving up.
    init(timeout: Duration, grace: Duration, stopGrace: Duration? = nil, linger: Duration) {
        self.grace = grace
        self.stopGrace = min(grace, stopGrace ?? grace)
        self.linger = linger
        due = timeout
    }

    /// ``due`` has come.
    mutating func expired(at now: Duration, groupIsEmpty: Bool) -> Action {
        switch phase {
        case .running:
            cause = cause ?? .timedOut
            return enter(.terminating, now + grace, .terminate)
        case .lingering where groupIsEmpty, .terminating where groupIsEmpty:
            // Only the output is open, held by a process that left the group: not ours to end.
            return .giveUp
        case .lingering:
            endedLeftovers = true
            return enter(.terminating, now + grace, .terminate)
        case .terminating:
            // Whoever wants to end does not wait for somebody to bury the dead.
            return enter(.killed, now + (cause == .stopped ? min(linger, stopGrace / 4) : linger), .kill)
        case .killed: return .giveUp
        }
    }

    /// The caller wants the program to end.
    mutating func stopped(at now: Duration) -> Action {
        switch phase {
        case .running:
            cause = .stopped
            return enter(.terminating, now + stopGrace, .terminate)
        case .lingering:
            endedLeftovers = true
            return enter(.terminating, now + stopGrace, .terminate)
        case .terminating, .killed: return .none
        }
    }

    /// The program itself has ended; its group may not have.
    mutating func leaderEnded(at now: Duration) {
        switch phase {
        case .running:
            phase = .lingering
            due = now + linger
        case .lingering, .terminating, .killed: break
        }
    }

    private mutating func enter(_ next: Phase, _ time: Duration, _ action: Action) -> Action {
        phase = next
        due = time
        return action
    }
}
