import SyncFiles

/// What is known of each row of a manifest, or nothing: **4 bytes** a row, and a record where there is one.
struct RecordColumn: Sendable {
    /// By row: the entry's position and 1, or 0.
    private var numbers: [UInt32]
    private var entries: [(row: Int, record: IndexRecord)] = []

    /// Knows nothing of any of `count` rows.
    init(count: Int = 0) { numbers = Array(repeating: 0, count: count) }

    subscript(row: Int) -> IndexRecord? {
        get { numbers[row] == 0 ? nil : entries[Int(numbers[row]) - 1].record }
        set {
            if let newValue { take([(row, newValue)]) } else { numbers[row] = 0 }
        }
    }

    /// Whether there is a record for a row.
    func has(_ row: Int) -> Bool { numbers[row] != 0 }

    /// How many rows have a record.
    var count: Int { numbers.count { $0 != 0 } }

    /// Takes records over; the later one counts. Nothing is copied when these are the first.
    mutating func take(_ more: [(row: Int, record: IndexRecord)]) {
        let first = entries.count
        if entries.isEmpty { entries = more } else { entries += more }
        // A manifest has at most five million rows, and each gets a record or two.
        for (position, entry) in more.enumerated() {
            numbers[entry.row] = UInt32(clamping: first + position + 1)
        }
    }
}
