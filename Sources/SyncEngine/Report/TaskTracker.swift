import SyncModel
import SyncStore
import SyncSystem

/// The tasks of a run: every step follows the table (``TaskState``), and every resting state is on disk at once.
///
/// A step that is not in the table leaves the task as it is and is counted as a mistake of this program. `run.summary`
/// has the number, and tests demand that it is 0.
final class TaskTracker: Sendable {
    typealias Mark = TaskFile.Mark

    /// Counts of the inputs that led to a step.
    struct Steps: Sendable {
        fileprivate(set) var taken: [TaskInput: Int] = [:]
        /// Steps that are not in the table.
        fileprivate(set) var refused = 0

        /// The field `tasks` of `run.summary`.
        func write(to line: inout JSONLine) {
            for input in TaskInput.allCases { if let count = taken[input] { line.field(input.rawValue, count) } }
            line.field("refused", refused)
        }

        /// - Returns: The state after the inputs; the former one when one of them is refused.
        fileprivate mutating func walk(_ state: TaskState, _ inputs: [TaskInput]) -> TaskState {
            if let next = state.after(inputs, taking: { taken[$0, default: 0] += 1 }) { return next }
            refused += 1
            return state
        }
    }

    /// The state of each task, without meaning for rows outside this run; the marks on disk; the steps so far.
    private let state: Mutex<(states: [TaskState], marks: [Mark], steps: Steps)>
    private let file: TaskFile?

    /// Starts from what the destination has, or continues where another process of the same run ended.
    ///
    /// - Parameters:
    ///   - rows: The results of the check of the destination.
    ///   - files: The files for the record; `nil` for no record.
    init(_ rows: [Mark], files: LiveFiles?, run: String) {
        let earlier = files?.tasks().flatMap { $0.run == run && $0.marks.count == rows.count ? $0.marks : nil }
        var steps = Steps()
        var (states, marks): ([TaskState], [Mark]) = ([], [])
        states.reserveCapacity(rows.count)
        marks.reserveCapacity(rows.count)
        for (row, found) in rows.enumerated() {
            let before = earlier?[row]
            let next = Self.first(found, before?.state ?? .waiting, &steps)
            states.append(next)
            marks.append(
                found == .unselected ? .unselected : Mark(next, isReused: before == .reused || found == .reused))
        }
        state = Mutex((states, marks, steps))
        // A record that cannot be written is just not shown.
        file = files.flatMap { try? TaskFile($0, run: run, marks: marks) }
    }

    private static let again: [TaskInput] = [.resumed, .retried, .lost]
    private static let kept: [TaskInput] = [.resumed, .retried, .unchanged]

    private static func first(_ found: Mark, _ before: TaskState, _ steps: inout Steps) -> TaskState {
        switch found {
        case .unselected: return before
        case .waiting, .paused, .failed, .cancelled: return steps.walk(before, again)
        case .unchanged: return steps.walk(before, kept)
        case .installed, .reused:
            // Another process of this run had placed it.
            return before == .installed ? before : steps.walk(before, again + [.started, .installed])
        }
    }

    var steps: Steps { state.withLock { $0.steps } }

    /// Assigns rows to a transfer, which is queued.
    func give(_ rows: [Int], to transfer: UInt64) { file?.give(rows, to: UInt32(truncatingIfNeeded: transfer)) }

    /// Notes that the transfer of rows sends a request, or waits for its server or a retry.
    func note(_ input: TaskInput, _ rows: [Int]) {
        // A resumed span has delivered some of its rows already.
        step(rows, [input], from: [.waiting, .running])
    }

    /// Notes that a transfer has ended without rows, which will get another one.
    func released(_ rows: [Int]) { step(rows, [.released]) }

    /// Notes that files are in place, durable and verified. For files that were waiting, or were copied from local
    /// ones, this is also the start.
    func installed(_ rows: [Int], isReused: (Int) -> Bool) {
        let reused = Set(rows.filter(isReused))
        step(rows.filter { !reused.contains($0) }, [.started, .installed])
        if !reused.isEmpty { step(Array(reused), [.started, .installed], isReused: true) }
    }

    /// Ends a task without its file.
    func end(_ row: Int, _ input: TaskInput) { step([row], [input]) }

    /// Ends this process's work on the run; unfinished tasks are left in the state that the run is left in.
    ///
    /// - Parameter reason: Why it stops before the run's end; `nil` at its end.
    func end(_ reason: StopReason?) {
        let input: TaskInput =
            switch reason {
            case nil, .late: .failed
            case .user, .hangUp: .paused
            case .policy, .released: .released
            case .cancelled: .cancelled
            }
        let open = state.withLock { state in
            state.marks.indices.filter {
                state.marks[$0] != .unselected && [.waiting, .running, .paused].contains(state.states[$0])
            }
        }
        step(open, [input])
    }

    /// - Parameter origins: Rows in other states are left alone.
    private func step(
        _ rows: [Int], _ inputs: [TaskInput], from origins: [TaskState] = TaskState.allCases, isReused: Bool = false
    ) {
        var changed: [Mark: [Int]] = [:]
        state.withLock { state in
            for row in rows where state.marks.indices.contains(row) && state.marks[row] != .unselected {
                let before = state.states[row]
                guard origins.contains(before) else { continue }
                let next = state.steps.walk(before, inputs)
                guard next != before else { continue }
                state.states[row] = next
                let mark = Mark(next, isReused: isReused)
                guard mark != state.marks[row] else { continue }
                state.marks[row] = mark
                changed[mark, default: []].append(row)
            }
        }
        for (mark, rows) in changed { file?.set(rows, mark) }
    }

    /// The number of rows with a mark.
    func counts() -> [Mark: Int] {
        state.withLock { state in
            var counts = [Int](repeating: 0, count: 256)
            for mark in state.marks { counts[Int(mark.rawValue)] += 1 }
            return Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0, counts[Int($0.rawValue)]) })
        }
    }
}

extension TaskFile.Mark {
    /// The mark on disk for a task in a state.
    fileprivate init(_ state: TaskState, isReused: Bool) {
        switch state {
        case .waiting, .running: self = .waiting
        case .paused: self = .paused
        case .installed: self = isReused ? .reused : .installed
        case .unchanged: self = .unchanged
        case .failed: self = .failed
        case .cancelled: self = .cancelled
        }
    }
}
