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
    ///   - linger: From the program's own end to SIGTERM for the rest, and from SIGKILL to giving up.
    init(timeout: Duration, grace: Duration, linger: Duration) {
        self.grace = grace
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
        case .terminating: return enter(.killed, now + linger, .kill)
        case .killed: return .giveUp
        }
    }

    /// The caller wants the program to end.
    mutating func stopped(at now: Duration) -> Action {
        switch phase {
        case .running:
            cause = .stopped
            return enter(.terminating, now + grace, .terminate)
        case .lingering:
            endedLeftovers = true
            return enter(.terminating, now + grace, .terminate)
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
