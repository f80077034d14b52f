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

        /// The word in reports.
        var word: String {
            switch self {
            case .unselected: "unselected"
            case .pending: "pending"
            case .unchanged: "unchanged"
            case .installed: "installed"
            case .reused: "reused"
            case .failed: "failed"
            }
        }
    }

    private(set) var states: [State]
    /// Why rows failed.
    private(set) var reasons: [Int: String] = [:]

    init(count: Int) { states = Array(repeating: .unselected, count: count) }

    subscript(row: Int) -> State {
        get { states[row] }
        set { states[row] = newValue }
    }

    mutating func fail(_ row: Int, _ reason: String) {
        states[row] = .failed
        reasons[row] = reason
    }

    func count(_ state: State) -> Int { states.count { $0 == state } }
}
