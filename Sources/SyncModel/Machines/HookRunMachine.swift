/// The state of one hook of one run. Every state can persist across a power failure.
public enum HookRunState: String, Sendable, CaseIterable, Codable {
    /// Its group is not complete.
    case waiting
    /// Its group is complete, and the hook is still due.
    case pending
    /// A process runs it; if that process is gone, it is due again.
    case running
    /// It ended with status 0.
    case done
    /// It ended otherwise and is not tried again.
    case failed
    /// It will not run: its group ended with a result that the hook does not want, or never completed.
    case skipped
}

/// An input to the state of a hook.
package enum HookRunInput: String, Sendable, CaseIterable {
    /// `group.completed` is recorded, with a result that the hook wants.
    case groupCompleted
    /// The group ended with another result, was cancelled, or was superseded by a newer run.
    case dropped
    /// An attempt begins.
    case started
    /// The attempt ended with status 0.
    case succeeded
    /// The attempt ended otherwise.
    case failed
    /// The attempt ended with status 75 and attempts are left, or its program could not be started for now.
    case askedForRetry
    /// The attempt was ended by a stop, or the process that ran it is gone.
    case interrupted
    /// A person requests another execution.
    case replayed
    /// A person cancels its run after an attempt was interrupted.
    case givenUp
}

extension HookRunState {
    /// The transition for an input.
    ///
    /// ```
    ///           groupCompleted dropped  started  succeeded failed  askedForRetry interrupted replayed givenUp
    /// waiting   pending        skipped  refused  refused   refused refused       stays       refused  refused
    /// pending   stays          skipped  running  refused   refused refused       stays       stays    failed
    /// running   stays          refused  refused  done      failed  pending       pending     refused  failed
    /// done      stays          stays    refused  stays     refused refused       stays       pending  stays
    /// failed    stays          stays    refused  refused   stays   refused       stays       pending  stays
    /// skipped   stays          stays    refused  refused   refused refused       stays       refused  stays
    /// ```
    package func after(_ input: HookRunInput) -> Transition<HookRunState> {
        switch input {
        case .groupCompleted: self == .waiting ? .to(.pending) : .stays
        case .dropped:
            switch self {
            case .waiting, .pending: .to(.skipped)
            case .running: .refused
            case .done, .failed, .skipped: .stays
            }
        case .started: self == .pending ? .to(.running) : .refused
        // Reported twice, or too late.
        case .succeeded: self == .running ? .to(.done) : self == .done ? .stays : .refused
        case .failed: self == .running ? .to(.failed) : self == .failed ? .stays : .refused
        case .askedForRetry: self == .running ? .to(.pending) : .refused
        // Only a running attempt can be interrupted; after a crash, every row gets this input.
        case .interrupted: self == .running ? .to(.pending) : .stays
        case .replayed:
            switch self {
            case .done, .failed: .to(.pending)
            case .pending: .stays
            case .waiting, .running, .skipped: .refused
            }
        case .givenUp:
            switch self {
            case .pending, .running: .to(.failed)
            case .done, .failed, .skipped: .stays
            case .waiting: .refused
            }
        }
    }
}
