import SyncManifest
import SyncReport

/// What became of each row of a manifest in one run.
struct RowStates: Sendable {
    enum State: UInt8, Sendable {
        /// Not part of this run's selection.
        case unselected
        /// Not yet in place.
        case pending
        /// Was right already.
        case unchanged
        /// Fetched and put in place.
        case installed
        /// Copied from what was here and put in place.
        case reused
        case failed
        /// A plugin did not want it to be asked for.
        case cancelled

        /// The word in reports.
        var word: String {
            switch self {
            case .unselected: "unselected"
            case .pending: "pending"
            case .unchanged: "unchanged"
            case .installed: "installed"
            case .reused: "reused"
            case .failed: "failed"
            case .cancelled: "cancelled"
            }
        }
    }

    private(set) var states: [State]
    /// Why rows failed, or were cancelled.
    private(set) var reasons: [Int: String] = [:]

    init(count: Int) { states = Array(repeating: .unselected, count: count) }

    subscript(row: Int) -> State {
        get { states[row] }
        set { states[row] = newValue }
    }

    /// A row has ended without its file.
    mutating func end(_ row: Int, _ state: State, _ reason: String) {
        states[row] = state
        reasons[row] = reason
    }

    /// Rows that have ended without their files.
    var missing: Int { count(.failed) + count(.cancelled) }

    /// Why all that is missing is, where that is one thing.
    func commonReason(of manifest: Manifest) -> String? {
        var sums = FailureSums()
        for (row, reason) in reasons.sorted(by: { $0.key < $1.key }) {
            sums.take(path: manifest.files.path(row), reason: reason, cause: nil, time: 0)
            if sums.problems.count > 1 { return nil }
        }
        return sums.problems.first?.detail
    }

    func count(_ state: State) -> Int { states.count { $0 == state } }
}

/// The files that a run is for, and what has become of each.
struct RunFiles {
    let manifest: Manifest
    /// Ascending.
    let rows: [Int]
    var states: RowStates

    /// - Parameter state: Of all of them, to begin with.
    init(_ manifest: Manifest, _ rows: [Int], _ state: RowStates.State) {
        (self.manifest, self.rows) = (manifest, rows)
        states = RowStates(count: manifest.files.count)
        for row in rows { states[row] = state }
    }

    /// Raw **bytes** of all of them.
    var bytes: UInt64 { rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) } }
}
