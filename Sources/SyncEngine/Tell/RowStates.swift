import SyncManifest
import SyncModel
import SyncReport

/// The result of each row of a manifest in one run.
struct RowStates: Sendable {
    /// The raw value is the word in reports.
    enum State: String, Sendable {
        /// Not part of this run's selection.
        case unselected
        /// Not yet in place.
        case pending
        /// Was right already.
        case unchanged
        /// Fetched and put in place.
        case installed
        /// Copied from local files and put in place.
        case reused
        case failed
        /// A plugin refused its request.
        case cancelled
    }

    private(set) var states: [State]
    /// Why rows failed or were cancelled.
    private(set) var reasons: [Int: String] = [:]

    init(count: Int) { states = Array(repeating: .unselected, count: count) }

    subscript(row: Int) -> State {
        get { states[row] }
        set { states[row] = newValue }
    }

    /// Ends a row without its file.
    mutating func end(_ row: Int, _ state: State, _ reason: String) {
        states[row] = state
        reasons[row] = reason
    }

    /// Rows that ended without their files.
    var missing: Int { count(.failed) + count(.cancelled) }

    /// Why files are missing, if all are for the same reason.
    func commonReason(of manifest: Manifest) -> String? {
        var sums = FailureSums()
        for (row, reason) in reasons.sorted(by: { $0.key < $1.key }) {
            sums.take(path: manifest.files.path(row), reason: reason, cause: .other, time: 0)
            if sums.problems.count > 1 { return nil }
        }
        return sums.problems.first?.detail
    }

    func count(_ state: State) -> Int { states.count { $0 == state } }
}

/// The files of a run, and the result of each.
struct RunFiles {
    let manifest: Manifest
    /// Ascending.
    let rows: [Int]
    var states: RowStates

    /// - Parameter state: The initial state of all.
    init(_ manifest: Manifest, _ rows: [Int], _ state: RowStates.State) {
        (self.manifest, self.rows) = (manifest, rows)
        states = RowStates(count: manifest.files.count)
        for row in rows { states[row] = state }
    }

    /// Raw **bytes** of all of them.
    var bytes: UInt64 { rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) } }
}
