/// The state of one task: one entry of a manifest in one run.
///
/// All states except `running` can persist, and are recorded. The state that is shown follows from the recorded one and
/// its context, see ``now(in:request:)``: `running` while a transfer is active, `paused` and `cancelled` like its run.
public enum TaskState: String, Sendable, CaseIterable, Codable {
    /// It may start as soon as its turn comes.
    case waiting
    /// A transfer of the session's holder works on it.
    case running
    /// Stopped until it is resumed; received bytes are kept.
    case paused
    /// Its file is in place, durable and verified.
    case installed
    /// Its file was already in place.
    case unchanged
    /// It ended without its file.
    case failed
    /// A person or a plugin cancelled it, or its run was superseded.
    case cancelled
}

/// An input to the state of a task.
package enum TaskInput: String, Sendable, CaseIterable {
    /// Work on it begins: a request is sent, or local bytes are copied.
    case started
    /// It has to wait: no connection, or a server asks for a pause.
    case delayed
    /// The process that worked on it is gone, or released it.
    case released
    /// A person, or a policy, stops it.
    case paused
    /// It goes on.
    case resumed
    /// The file is in place, durable and verified.
    case installed
    /// The file was already in place.
    case unchanged
    /// The file that was in place has been changed or removed.
    case lost
    /// No attempt is left, or none would help.
    case failed
    /// A person, a plugin or a newer run cancels it.
    case cancelled
    /// A process resumes its run, and retries it.
    case retried
}

extension TaskState {
    /// The transition for an input. Every task of every run follows this table: `TaskTracker` in SyncStore.
    ///
    /// ```
    ///            waiting   running   paused    installed unchanged failed    cancelled
    /// started    running   stays     refused   refused   refused   refused   refused
    /// delayed    stays     waiting   stays     stays     stays     stays     stays
    /// released   stays     waiting   stays     stays     stays     stays     stays
    /// paused     paused    paused    stays     stays     stays     stays     stays
    /// resumed    stays     stays     waiting   stays     stays     stays     stays
    /// installed  refused   installed installed stays     refused   refused   stays
    /// unchanged  unchanged refused   refused   stays     stays     refused   stays
    /// lost       stays     stays     stays     waiting   waiting   stays     stays
    /// failed     failed    failed    stays     refused   refused   stays     stays
    /// cancelled  cancelled cancelled cancelled stays     stays     stays     stays
    /// retried    stays     stays     stays     stays     stays     waiting   waiting
    /// ```
    package func after(_ input: TaskInput) -> Transition<TaskState> {
        switch input {
        case .started:
            switch self {
            case .waiting: .to(.running)
            case .running: .stays
            case .paused, .installed, .unchanged, .failed, .cancelled: .refused
            }
        case .delayed, .released: self == .running ? .to(.waiting) : .stays
        case .paused: self == .waiting || self == .running ? .to(.paused) : .stays
        case .resumed: self == .paused ? .to(.waiting) : .stays
        case .installed:
            switch self {
            // A paused one: the file was placed before the pause took hold; the disk is right.
            case .running, .paused: .to(.installed)
            // A cancelled task never removes a file.
            case .installed, .cancelled: .stays
            case .waiting, .unchanged, .failed: .refused
            }
        case .unchanged:
            switch self {
            case .waiting: .to(.unchanged)
            // A file that an earlier process of the same run has installed stays installed.
            case .installed, .unchanged, .cancelled: .stays
            case .running, .paused, .failed: .refused
            }
        case .lost: self == .installed || self == .unchanged ? .to(.waiting) : .stays
        case .failed:
            switch self {
            case .waiting, .running: .to(.failed)
            // It is retried when it is resumed.
            case .paused, .failed, .cancelled: .stays
            case .installed, .unchanged: .refused
            }
        case .cancelled:
            switch self {
            case .waiting, .running, .paused: .to(.cancelled)
            case .installed, .unchanged, .failed, .cancelled: .stays
            }
        case .retried: self == .failed || self == .cancelled ? .to(.waiting) : .stays
        }
    }

    /// The state after several inputs; `nil` if the table refuses one of them.
    ///
    /// - Parameter taking: Receives each input that changes the state.
    package func after(_ inputs: [TaskInput], taking: (TaskInput) -> Void = { _ in }) -> TaskState? {
        var state = self
        for input in inputs {
            switch state.after(input) {
            case .to(let next):
                state = next
                taking(input)
            case .stays: break
            case .refused: return nil
            }
        }
        return state
    }

    /// The current meaning of a recorded state.
    ///
    /// - Parameters:
    ///   - run: The state of its run; `running` without a process that holds the session is `waiting`.
    ///   - request: The state of its transfer; `nil` for none.
    /// - Returns: The state to show.
    package func now(in run: RunState, request: RequestState?) -> TaskState {
        // A resumed run has resumed its tasks, even if no process works on it yet.
        let inputs: [TaskInput] =
            switch run {
            case .running:
                switch request {
                case nil, .queued: [.resumed, .released]
                case .waiting: [.resumed, .delayed]
                case .resolving, .connecting, .receiving, .stalled: [.resumed, .started]
                }
            case .waiting: [.resumed, .released]
            case .paused: [.paused]
            // Tasks that a finished run leaves waiting were never tried: the run ended before.
            case .finished: [.resumed, .failed]
            case .cancelled, .superseded: [.cancelled]
            }
        return after(inputs) ?? self
    }
}

/// The state of a transfer, with the spelling of `status --requests`, the control API and the record on disk.
public enum RequestState: String, Sendable, CaseIterable, Codable {
    /// It is queued: for a connection, or for another transfer that determines something for it.
    case queued
    /// A resolver plugin is asked for its destination, or its host's name is being resolved.
    case resolving
    /// A connection is being made, or the request has been sent and not answered yet.
    case connecting
    /// Bytes arrive.
    case receiving
    /// No byte has arrived for some seconds on an open connection.
    case stalled
    /// Nothing is sent before a certain time: its host is unreachable or asked for a pause, or the last attempt failed.
    case waiting
}
