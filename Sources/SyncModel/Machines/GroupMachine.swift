/// The life of one group of one run. A group is sealed when its run is enqueued (S42): nothing is added later.
package enum GroupState: String, Sendable, CaseIterable, Codable {
    /// Some of its tasks are not terminal; a paused task keeps it open (S40).
    case open
    /// Every task is terminal, well or not (S37, S39), and every event of them is out (S30).
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
