import SyncModel
import SyncStore
import SyncSystem

/// The tasks of a run as anybody may see them: each step goes by the table (``TaskState``) and is on disk at once.
///
/// A task that the table has no step for stays as it is, and is counted: that is a mistake of this program, and tests look
/// for it.
final class TaskRecord: Sendable {
    typealias Mark = TaskFile.Mark

    private struct State: Sendable {
        var marks: [Mark]
        var refusals = 0
    }

    private let state: Mutex<State>
    private let file: TaskFile?

    /// Begins with what is here, or goes on where another process of the same run has ended.
    ///
    /// - Parameters:
    ///   - states: What looking at the destination has found.
    ///   - files: Where the record is kept; `nil` for nowhere.
    ///   - run: The run.
    init(_ states: RowStates, files: LiveFiles?, run: String) {
        let earlier = files?.tasks().flatMap {
            $0.run == run && $0.marks.count == states.states.count ? $0.marks : nil
        }
        var refusals = 0
        let marks = states.states.indices.map { row in
            Self.first(states[row], earlier: earlier?[row], &refusals)
        }
        state = Mutex(State(marks: marks, refusals: refusals))
        // What cannot be written is only not shown.
        file = files.flatMap { try? TaskFile($0, run: run, marks: marks) }
    }

    private static func first(_ row: RowStates.State, earlier: Mark?, _ refusals: inout Int) -> Mark {
        guard row != .unselected else { return .unselected }
        let before = earlier?.state ?? .waiting
        let next: TaskState?
        switch row {
        case .unselected, .pending, .failed, .cancelled: next = before.after([.retried, .lost])
        case .unchanged: next = before.after([.retried, .unchanged])
        case .installed, .reused:
            next = before == .installed ? before : before.after([.retried, .lost, .started, .installed])
        }
        guard let next else {
            refusals += 1
            return .waiting
        }
        if next == .installed { return earlier == .reused || row == .reused ? .reused : .installed }
        return next == .unchanged ? .unchanged : .waiting
    }

    /// Steps that the table did not have.
    var refusals: Int { state.withLock(\.refusals) }

    /// The mark of each row.
    var marks: [Mark] { state.withLock(\.marks) }

    /// Files are in place, durable and verified.
    func installed(_ rows: [Int], isReused: (Int) -> Bool) {
        let reused = Set(rows.filter(isReused))
        step(rows.filter { !reused.contains($0) }, .installed) { $0.after([.started, .installed]) }
        if !reused.isEmpty { step(Array(reused), .reused) { $0.after([.started, .installed]) } }
    }

    /// A task has ended without its file.
    func failed(_ row: Int) { step([row], .failed) { $0.after([.failed]) } }

    /// Somebody does not want it.
    func cancelled(_ row: Int) { step([row], .cancelled) { $0.after([.cancelled]) } }

    /// Rows are given to a transfer.
    func give(_ rows: [Int], to transfer: UInt64) {
        file?.give(rows, to: UInt32(truncatingIfNeeded: transfer))
    }

    private func step(_ rows: [Int], _ mark: Mark, _ next: (TaskState) -> TaskState?) {
        let moved = state.withLock { state in
            rows.filter { row in
                guard state.marks.indices.contains(row), let old = state.marks[row].state else {
                    return false
                }
                guard let new = next(old) else {
                    state.refusals += 1
                    return false
                }
                guard new == mark.state, new != old else { return false }
                state.marks[row] = mark
                return true
            }
        }
        if !moved.isEmpty { file?.set(moved, mark) }
    }

    /// How many rows have a mark.
    func counts() -> [Mark: Int] {
        state.withLock { state in
            var counts = [Int](repeating: 0, count: 256)
            for mark in state.marks { counts[Int(mark.rawValue)] += 1 }
            return Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0, counts[Int($0.rawValue)]) })
        }
    }
}
