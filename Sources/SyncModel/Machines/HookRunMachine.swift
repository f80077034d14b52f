/// The life of one hook of one run. Every state is a resting place: what a row can say after a power cut.
public enum HookRunState: String, Sendable, CaseIterable, Codable {
    /// Its group is not complete.
    case waiting
    /// Owed: its group is complete, and it has not ended.
    case pending
    /// A process runs it; if that process is gone, it is owed again.
    case running
    /// It ended with status 0.
    case done
    /// It ended otherwise and is not tried again.
    case failed
    /// It will not run: its group ended in a way it was not asked for, or never completed.
    case skipped
}

/// What can happen to a hook.
package enum HookRunInput: String, Sendable, CaseIterable {
    /// `group.completed` is recorded, with a result the hook asks for.
    case groupCompleted
    /// The group ended with another result, was cancelled, or a newer run took its place.
    case dropped
    /// An attempt begins.
    case started
    /// The attempt ended with status 0.
    case succeeded
    /// The attempt ended otherwise.
    case failed
    /// The attempt ended with status 75, or could not start for now, and attempts are left.
    case askedForRetry
    /// The attempt was ended by a stop, or the process that ran it is gone.
    case interrupted
    /// A person asks for it once more.
    case replayed
}

extension HookRunState {
    /// Where an input leads (S18–S21, S33, S39, F089, F093, F095).
    ///
    /// ```
    ///           groupCompleted dropped  started  succeeded failed  askedForRetry interrupted replayed
    /// waiting   pending        skipped  refused  refused   refused refused       stays       refused
    /// pending   stays          skipped  running  refused   refused refused       stays       stays
    /// running   stays          refused  refused  done      failed  pending       pending     refused
    /// done      stays          stays    refused  stays     refused refused       stays       pending
    /// failed    stays          stays    refused  refused   stays   refused       stays       pending
    /// skipped   stays          stays    refused  refused   refused refused       stays       refused
    /// ```
    package func after(_ input: HookRunInput) -> Transition<HookRunState> {
        switch (self, input) {
        case (.waiting, .groupCompleted): .to(.pending)
        case (.waiting, .dropped), (.pending, .dropped): .to(.skipped)
        case (.pending, .started): .to(.running)
        case (.running, .succeeded): .to(.done)
        case (.running, .failed): .to(.failed)
        case (.running, .askedForRetry), (.running, .interrupted): .to(.pending)
        case (.done, .replayed), (.failed, .replayed): .to(.pending)

        // Told twice, or too late.
        case (.pending, .groupCompleted), (.running, .groupCompleted), (.done, .groupCompleted),
            (.failed, .groupCompleted), (.skipped, .groupCompleted):
            .stays
        case (.done, .dropped), (.failed, .dropped), (.skipped, .dropped): .stays
        case (.done, .succeeded), (.failed, .failed), (.pending, .replayed): .stays
        // Only a running attempt can be interrupted; after a crash every row is asked.
        case (.waiting, .interrupted), (.pending, .interrupted), (.done, .interrupted),
            (.failed, .interrupted),
            (.skipped, .interrupted):
            .stays

        case (.running, .dropped), (.waiting, .replayed), (.running, .replayed), (.skipped, .replayed):
            .refused
        case (.waiting, .started), (.running, .started), (.done, .started), (.failed, .started),
            (.skipped, .started):
            .refused
        case (.waiting, .succeeded), (.pending, .succeeded), (.failed, .succeeded), (.skipped, .succeeded):
            .refused
        case (.waiting, .failed), (.pending, .failed), (.done, .failed), (.skipped, .failed): .refused
        case (.waiting, .askedForRetry), (.pending, .askedForRetry), (.done, .askedForRetry),
            (.failed, .askedForRetry), (.skipped, .askedForRetry):
            .refused
        }
    }
}
