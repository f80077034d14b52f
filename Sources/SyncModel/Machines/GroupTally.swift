/// Counts a group's tasks by state, and knows when it is settled and how it ended.
package struct GroupTally: Sendable, Equatable {
    private var counts = [Int](repeating: 0, count: TaskState.allCases.count)
    /// Work that is no task of the manifest but must be over first: removals, links, index (S37).
    package var openJobs = 0

    /// - Parameter tasks: All of the group's tasks; it is sealed from here (S42).
    package init(waiting tasks: Int) { self[.waiting] = tasks }

    /// How many tasks are in a state.
    package subscript(state: TaskState) -> Int {
        get { counts[Self.index(state)] }
        set { counts[Self.index(state)] = newValue }
    }

    private static func index(_ state: TaskState) -> Int {
        switch state {
        case .waiting: 0
        case .running: 1
        case .paused: 2
        case .installed: 3
        case .unchanged: 4
        case .failed: 5
        case .cancelled: 6
        }
    }

    /// A task went from one state to another.
    ///
    /// - Parameters:
    ///   - old: Where it was.
    ///   - new: Where it is.
    /// - Returns: Whether the group is settled by it: `true` once, at the last task.
    package mutating func move(from old: TaskState, to new: TaskState) -> Bool {
        let wasSettled = isSettled
        self[old] -= 1
        self[new] += 1
        return isSettled && !wasSettled
    }

    /// Every task is terminal and nothing else is open; paused tasks keep a group open (S37, S40).
    package var isSettled: Bool { self[.waiting] + self[.running] + self[.paused] + openJobs == 0 }

    /// Files that changed.
    package var changed: Int { self[.installed] }

    /// `ok` when every file is in place, `failed` when none is, else `partial`; an empty group is `ok` (S39, S41).
    package var result: RunResult {
        let missing = self[.failed] + self[.cancelled]
        if missing == 0 { return .ok }
        return self[.installed] + self[.unchanged] == 0 ? .failed : .partial
    }
}
