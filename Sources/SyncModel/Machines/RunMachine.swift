/// The state of one run. Every state can persist.
public enum RunState: String, Sendable, CaseIterable, Codable {
    /// No process works on it; it may start as soon as it is eligible.
    case waiting
    /// The process that holds its session works on it. If that process is gone, it is waiting.
    case running
    /// A person stopped it; it stays paused until it is resumed.
    case paused
    /// Every group is complete.
    case finished
    /// A person cancelled it; installed files were not removed.
    case cancelled
    /// A newer run of its session superseded it.
    case superseded

    /// Whether it may still run.
    package var isOpen: Bool { self == .waiting || self == .running || self == .paused }
}

/// An input to the state of a run.
package enum RunInput: String, Sendable, CaseIterable {
    /// The holder of its session begins or continues.
    case started
    /// The holder is gone, or releases the run.
    case released
    /// A person, or a policy, stops it.
    case paused
    /// A person resumes it.
    case resumed
    /// Its last group is complete.
    case finished
    /// A person cancels it.
    case cancelled
    /// A newer run is enqueued.
    case superseded
}

extension RunState {
    /// The transition for an input.
    ///
    /// ```
    ///            started released paused  resumed finished cancelled superseded
    /// waiting    running stays    paused  stays   refused  cancelled superseded
    /// running    refused waiting  paused  stays   finished cancelled superseded
    /// paused     refused stays    stays   waiting refused  cancelled superseded
    /// finished   refused stays    refused refused stays    refused   stays
    /// cancelled  refused stays    refused refused refused  stays     stays
    /// superseded refused stays    refused refused refused  stays     stays
    /// ```
    package func after(_ input: RunInput) -> Transition<RunState> {
        switch input {
        // A second holder: impossible while the first one lives.
        case .started: self == .waiting ? .to(.running) : .refused
        case .released: self == .running ? .to(.waiting) : .stays
        case .paused:
            switch self {
            case .waiting, .running: .to(.paused)
            case .paused: .stays
            case .finished, .cancelled, .superseded: .refused
            }
        case .resumed:
            switch self {
            case .paused: .to(.waiting)
            case .waiting, .running: .stays
            case .finished, .cancelled, .superseded: .refused
            }
        case .finished: self == .running ? .to(.finished) : self == .finished ? .stays : .refused
        case .cancelled: isOpen ? .to(.cancelled) : self == .finished ? .refused : .stays
        case .superseded: isOpen ? .to(.superseded) : .stays
        }
    }
}

/// The effect of an input on a state: pure, for the caller to apply.
package enum Transition<State: Sendable & Equatable>: Sendable, Equatable {
    /// Change to this state.
    case to(State)
    /// No change: the input is already fulfilled, or comes too late to matter.
    case stays
    /// The input is invalid here: no change, and the caller is informed.
    case refused
}

/// The state of one group of one run. A group is fixed when its run is enqueued.
package enum GroupState: String, Sendable, CaseIterable, Codable {
    /// Some of its tasks are not terminal; a paused task keeps it open.
    case open
    /// Every task is terminal, successful or not, and all of their events are recorded.
    case completed
    /// Its run was cancelled or superseded before.
    case cancelled
}

/// An input to the state of a group.
package enum GroupInput: String, Sendable, CaseIterable {
    /// Its last task became terminal.
    case settled
    /// Its run was cancelled or superseded.
    case cancelled
}

extension GroupState {
    /// The transition for an input.
    ///
    /// ```
    ///           settled   cancelled
    /// open      completed cancelled
    /// completed stays     stays
    /// cancelled refused   stays
    /// ```
    package func after(_ input: GroupInput) -> Transition<GroupState> {
        switch (self, input) {
        case (.open, .settled): .to(.completed)
        case (.open, .cancelled): .to(.cancelled)
        case (.completed, .settled), (.completed, .cancelled), (.cancelled, .cancelled): .stays
        case (.cancelled, .settled): .refused
        }
    }
}
