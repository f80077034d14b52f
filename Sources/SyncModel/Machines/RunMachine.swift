/// The life of one run. Every state is a resting place.
public enum RunState: String, Sendable, CaseIterable, Codable {
    /// Nobody works on it; it may start as soon as it is eligible.
    case waiting
    /// The process that holds its session works on it. If that process is gone, it is waiting.
    case running
    /// Somebody stopped it; it stays so until somebody resumes it.
    case paused
    /// Every group is complete.
    case finished
    /// Somebody cancelled it; nothing that is installed was removed.
    case cancelled
    /// A newer run of its session took its place.
    case superseded

    /// Whether it can still come to anything.
    package var isOpen: Bool { self == .waiting || self == .running || self == .paused }
}

/// What can happen to a run.
package enum RunInput: String, Sendable, CaseIterable {
    /// The holder of its session begins or continues.
    case started
    /// The holder is gone, or gives the run back.
    case released
    /// A person, or a policy, stops it.
    case paused
    /// A person lets it go on.
    case resumed
    /// Its last group is complete.
    case finished
    /// A person gives it up.
    case cancelled
    /// A newer run is enqueued.
    case superseded
}

extension RunState {
    /// Where an input leads.
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
        // A second holder: there is none while the first one lives.
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

/// What a life cycle answers to an input: pure, for the caller to carry out.
package enum Transition<State: Sendable & Equatable>: Sendable, Equatable {
    /// Go there.
    case to(State)
    /// Nothing to do: the input asks for what is already so, or comes too late to matter.
    case stays
    /// The input makes no sense here; the caller is told and nothing changes.
    case refused
}

/// The life of one group of one run. A group is sealed when its run is enqueued: nothing is added later.
package enum GroupState: String, Sendable, CaseIterable, Codable {
    /// Some of its tasks are not terminal; a paused task keeps it open.
    case open
    /// Every task is terminal, well or not, and every event of them is out.
    case completed
    /// Its run was cancelled or superseded before.
    case cancelled
}

/// What can happen to a group.
package enum GroupInput: String, Sendable, CaseIterable {
    /// Its last task became terminal.
    case settled
    /// Its run was cancelled, or a newer one took its place.
    case cancelled
}

extension GroupState {
    /// Where an input leads.
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
