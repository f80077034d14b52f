import SyncPlugins
import SyncSystem

/// Decides when to signal a program and when to stop waiting for it. Pure; times are since the program's start.
struct Supervision: Sendable {
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
        /// It has ended by itself; other processes of its group, or its output, are still open.
        case lingering
        /// SIGTERM has been sent.
        case terminating
        /// SIGKILL has been sent.
        case killed
    }

    private let limits: ProgramHook.Limits
    private var phase = Phase.running
    /// When ``expired(at:groupIsEmpty:)`` is due.
    private(set) var due: Duration
    /// Set once the program is ended from outside, by its timeout or the caller; the first cause counts.
    private(set) var cause: HookOutcome.End?
    /// Whether the caller wants to stop.
    private var isHurried = false
    /// Whether SIGTERM went to processes left after the program's own end.
    private(set) var endedLeftovers = false

    /// - Parameter timeout: How long the program may run.
    init(timeout: Duration, _ limits: ProgramHook.Limits) {
        self.limits = limits
        due = timeout
    }

    private var stopGrace: Duration { min(limits.grace, limits.stopGrace) }
    /// Handles the time ``due``.
    mutating func expired(at now: Duration, groupIsEmpty: Bool) -> Action {
        switch phase {
        case .running:
            cause = cause ?? .timedOut
            return enter(.terminating, now + limits.grace, .terminate)
        case .lingering where groupIsEmpty, .terminating where groupIsEmpty:
            // Only the output is open, held by a process that left the group, which is not ours to end.
            return .giveUp
        case .lingering:
            endedLeftovers = true
            return enter(.terminating, now + limits.grace, .terminate)
        case .terminating:
            // A caller that wants to stop does not wait for zombies to be reaped.
            return enter(.killed, now + (isHurried ? min(limits.linger, stopGrace / 4) : limits.linger), .kill)
        case .killed: return .giveUp
        }
    }

    mutating func stopped(at now: Duration) -> Action {
        isHurried = true
        switch phase {
        case .running:
            cause = .stopped
            return enter(.terminating, now + stopGrace, .terminate)
        case .lingering:
            endedLeftovers = true
            return enter(.terminating, now + stopGrace, .terminate)
        case .terminating:
            // It was already asked to end for another reason, and gets no more time than if it were asked now.
            due = min(due, now + stopGrace)
            return .none
        case .killed: return .none
        }
    }

    /// Handles the end of the program itself; its group may still exist.
    mutating func leaderEnded(at now: Duration) {
        switch phase {
        case .running:
            phase = .lingering
            due = now + limits.linger
        case .lingering, .terminating, .killed: break
        }
    }

    private mutating func enter(_ next: Phase, _ time: Duration, _ action: Action) -> Action {
        phase = next
        due = time
        return action
    }
}

/// Keeps the first and the last bytes of a stream of any length.
struct OutputCapture: Sendable {
    private let headLimit: Int
    private let tailLimit: Int
    private(set) var head: [UInt8] = []
    /// Up to twice the limit, trimmed when full: each byte is moved at most once.
    private var recent: [UInt8] = []
    /// All **bytes** received.
    private(set) var total: UInt64 = 0

    init(head: Int, tail: Int) {
        headLimit = max(0, head)
        tailLimit = max(0, tail)
    }

    /// The last bytes that are not in ``head``.
    var tail: [UInt8] { Array(recent.suffix(tailLimit)) }

    /// The kept output as text, with a line that says how many bytes were dropped.
    var text: String {
        let end = tail
        let dropped = total &- UInt64(head.count) &- UInt64(end.count)
        let start = String(decoding: head, as: UTF8.self)
        if dropped == 0 { return end.isEmpty ? start : String(decoding: head + end, as: UTF8.self) }
        return "\(start)\n[… \(dropped) bytes not kept …]\n" + String(decoding: end, as: UTF8.self)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        total &+= UInt64(bytes.count)
        let first = bytes.prefix(headLimit - head.count)
        head.append(contentsOf: first)
        let rest = bytes.dropFirst(first.count).suffix(tailLimit)
        if recent.count + rest.count > 2 * tailLimit { recent.removeFirst(recent.count - min(recent.count, tailLimit)) }
        recent.append(contentsOf: rest)
    }
}
