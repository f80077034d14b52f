/// The life of one task: one entry of a manifest in one run.
///
/// All but `running` may last, and are recorded. What is shown follows from that and from what is around it, see
/// ``now(in:request:)``: it is `running` while its transfer is on the wire, `paused` and `cancelled` as its run is.
public enum TaskState: String, Sendable, CaseIterable, Codable {
    /// It may start as soon as its turn comes.
    case waiting
    /// A transfer of the session's holder works on it.
    case running
    /// Stopped, with what has come kept, until somebody resumes it.
    case paused
    /// Its file is in place, durable and verified.
    case installed
    /// Its file was in place before.
    case unchanged
    /// It ended without its file.
    case failed
    /// Somebody gave it up, a plugin did, or a newer run took its run's place.
    case cancelled
}

/// What can happen to a task.
package enum TaskInput: String, Sendable, CaseIterable {
    /// Something is done for it: a request is sent, or bytes that are here are copied.
    case started
    /// Not now: no connection, a server that asks to wait.
    case delayed
    /// The process that worked on it has gone, or gave it back.
    case released
    /// A person, or a policy, stops it.
    case paused
    /// It goes on.
    case resumed
    /// The file is in place, durable and verified.
    case installed
    /// The file was there.
    case unchanged
    /// What was in its place is not there any more: somebody has changed or removed it.
    case lost
    /// No attempt is left, or none can help.
    case failed
    /// Somebody gives it up.
    case cancelled
    /// A process takes its run up again, and tries it once more.
    case retried
}

extension TaskState {
    /// Where an input leads. Every task of every run goes by this table: `TaskTracker` in the engine.
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
            // A cancelled task never takes a file away.
            case .installed, .cancelled: .stays
            case .waiting, .unchanged, .failed: .refused
            }
        case .unchanged:
            switch self {
            case .waiting: .to(.unchanged)
            // What an earlier process of the same run has installed stays so.
            case .installed, .unchanged, .cancelled: .stays
            case .running, .paused, .failed: .refused
            }
        case .lost: self == .installed || self == .unchanged ? .to(.waiting) : .stays
        case .failed:
            switch self {
            case .waiting, .running: .to(.failed)
            // It is tried again when it is resumed.
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

    /// The state after several inputs; `nil` when the table refuses one of them.
    ///
    /// - Parameter taking: Told of each input that leads to another state.
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

    /// What a recorded state means now.
    ///
    /// - Parameters:
    ///   - run: The state of its run; `running` without a process that holds the session is `waiting`.
    ///   - request: What its transfer is at; `nil` for none.
    /// - Returns: The state to show.
    package func now(in run: RunState, request: RequestState?) -> TaskState {
        // A run that was resumed has resumed its tasks, although nobody has taken it up yet.
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
            // What a finished run leaves waiting was never tried: the run ended before.
            case .finished: [.resumed, .failed]
            case .cancelled, .superseded: [.cancelled]
            }
        return after(inputs) ?? self
    }
}

/// What a transfer is at. The spelling is that of `status --requests`, the control API and the record on disk.
public enum RequestState: String, Sendable, CaseIterable, Codable {
    /// It waits for its turn: for a connection, or for another transfer that finds something out for it.
    case queued
    /// A resolver plugin is asked where to send it, or its host's name is looked up.
    case resolving
    /// A connection is made, or the request is sent and nothing has been said to it yet.
    case connecting
    /// Bytes come.
    case receiving
    /// No byte has come for some seconds on a connection that is there.
    case stalled
    /// Nothing is sent before some time: its host cannot be reached, asked for a pause, or the last attempt failed.
    case waiting
}
