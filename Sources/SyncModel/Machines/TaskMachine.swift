/// The life of one task: one entry of a manifest in one run. Every state is a resting place (S105); downloading,
/// verifying and placing are all `running`, and what a crash leaves of them is found by looking at the disk.
package enum TaskState: String, Sendable, CaseIterable {
    /// It may start as soon as it is eligible.
    case waiting
    /// A transfer of the session's holder works on it.
    case running
    /// Stopped, with what has come kept, until somebody resumes it (S100).
    case paused
    /// Its file is in place, synced and verified (S110).
    case installed
    /// Its file was in place before (S109).
    case unchanged
    /// It ended without its file.
    case failed
    /// Somebody gave it up, or a newer run did.
    case cancelled

    /// Whether its group need not wait for it (S37, S39, S40).
    package var isTerminal: Bool {
        switch self {
        case .waiting, .running, .paused: false
        case .installed, .unchanged, .failed, .cancelled: true
        }
    }
}

/// What can happen to a task.
package enum TaskInput: String, Sendable, CaseIterable {
    /// Its turn has come.
    case started
    /// The command that asked for it has gone.
    case clientGone
    /// The process that worked on it has gone; the system has not.
    case agentGone
    /// The system has gone; what was not synced may be lost.
    case powerLost
    /// A person, or a policy, stops it (S24, S52).
    case paused
    /// A person, or a policy, lets it go on.
    case resumed
    /// Not now: no connection, a server that asks to wait, a window that ended (S51, S134).
    case delayed
    /// What came is not what the manifest names; from the beginning.
    case spoiled
    /// The file is in place, synced and verified.
    case installed
    /// The file was there.
    case unchanged
    /// No attempt is left, or none can help.
    case failed
    /// Its deadline has passed (S56, S108: a paused task's stands still unless asked otherwise).
    case expired
    /// A person gives it up.
    case cancelled
    /// A newer run takes its place; what has come may be of use there (S135).
    case superseded
    /// A person asks for another try.
    case retried
}

/// What to do because of an input, after the new state is recorded.
package enum TaskEffect: String, Sendable, CaseIterable {
    /// Send a request.
    case request
    /// Close the connection, sync what has come, remember how much that is.
    case checkpoint
    /// Trust only what was synced; hash the rest again.
    case recheck
    /// Remove what has come.
    case discard
    /// Record the task's last event (S29).
    case tell
}

/// What a task answers to an input.
package enum TaskStep: Sendable, Equatable {
    /// Be in this state, the same one or another, and do that.
    case be(TaskState, [TaskEffect])
    /// The input makes no sense here: a bug of the caller. Nothing changes.
    case refused
}

extension TaskState {
    /// Where an input leads, and what to do (S23, S24, S28, S98–S110).
    ///
    /// A word stands for a state, `!request` and so on for an effect, `·` for nothing to do.
    ///
    /// ```
    ///            waiting              running                  paused             terminal
    /// started    running !request     refused                  refused            refused
    /// clientGone ·                    ·                        ·                  ·
    /// agentGone  ·                    waiting                  ·                  ·
    /// powerLost  · !recheck           waiting !recheck         · !recheck         ·
    /// paused     paused               paused !checkpoint       ·                  ·
    /// resumed    ·                    ·                        waiting            ·
    /// delayed    ·                    waiting !checkpoint      ·                  ·
    /// spoiled    refused              waiting !discard         · !discard         ·
    /// installed  refused              installed !tell          installed !tell    · (failed, unchanged: refused)
    /// unchanged  unchanged !tell      refused                  refused            · (failed: refused)
    /// failed     failed !discard !tell  the same               ·                  · (installed, unchanged: refused)
    /// expired    failed !discard !tell  the same               the same           ·
    /// cancelled  cancelled !discard !tell  the same            the same           ·
    /// superseded cancelled !tell      cancelled !checkpoint !tell  cancelled !tell  ·
    /// retried    ·                    ·                        ·                  · (failed, cancelled: waiting)
    /// ```
    package func after(_ input: TaskInput) -> TaskStep {
        let stays = TaskStep.be(self, [])
        switch input {
        case .started: return self == .waiting ? .be(.running, [.request]) : .refused
        case .clientGone: return stays
        case .agentGone: return self == .running ? .be(.waiting, []) : stays
        case .powerLost:
            if isTerminal { return stays }
            return .be(self == .running ? .waiting : self, [.recheck])
        case .paused:
            switch self {
            case .waiting: return .be(.paused, [])
            case .running: return .be(.paused, [.checkpoint])
            case .paused, .installed, .unchanged, .failed, .cancelled: return stays
            }
        case .resumed: return self == .paused ? .be(.waiting, []) : stays
        case .delayed: return self == .running ? .be(.waiting, [.checkpoint]) : stays
        case .spoiled:
            switch self {
            case .waiting: return .refused
            case .running: return .be(.waiting, [.discard])
            case .paused: return .be(.paused, [.discard])
            case .installed, .unchanged, .failed, .cancelled: return stays
            }
        case .installed: return afterInstalled
        case .unchanged:
            switch self {
            case .waiting: return .be(.unchanged, [.tell])
            case .running, .paused, .failed: return .refused
            case .installed, .unchanged, .cancelled: return stays
            }
        case .failed:
            switch self {
            case .waiting, .running: return .be(.failed, [.discard, .tell])
            // It is tried again when it is resumed.
            case .paused: return stays
            case .installed, .unchanged: return .refused
            case .failed, .cancelled: return stays
            }
        case .expired: return isTerminal ? stays : .be(.failed, [.discard, .tell])
        case .cancelled: return isTerminal ? stays : .be(.cancelled, [.discard, .tell])
        case .superseded:
            if isTerminal { return stays }
            return .be(.cancelled, self == .running ? [.checkpoint, .tell] : [.tell])
        case .retried: return self == .failed || self == .cancelled ? .be(.waiting, []) : stays
        }
    }

    private var afterInstalled: TaskStep {
        switch self {
        case .running: .be(.installed, [.tell])
        // The file was placed before the pause took hold; the disk is right.
        case .paused: .be(.installed, [.tell])
        case .waiting, .unchanged, .failed: .refused
        // A cancelled task never takes a file away, S102.
        case .installed, .cancelled: .be(self, [])
        }
    }
}
