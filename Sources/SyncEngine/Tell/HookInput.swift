/// The standard input of the calls of one attempt: one report of a group, or one per batch of files.
struct HookInput {
    /// Calls of one attempt; 0 if the hook need not be called.
    let calls: Int
    /// Whether each call gets a batch of files.
    let isBatched: Bool
    /// Whether the result of each file is no longer known.
    let isLate: Bool
    /// Why the hook cannot be called, for people; `nil` if it can.
    let obstacle: String?
    /// SHA-256 of the manifest that names the files, if not that of the hook's run.
    var otherManifest: String?
    /// The report of a call, JSON; calls count from 1.
    let report: (_ call: Int) -> [UInt8]

    /// A single call.
    init(_ report: [UInt8]) {
        (calls, isBatched, isLate, obstacle) = (1, false, false, nil)
        self.report = { _ in report }
    }

    /// No call; the attempt has failed.
    init(obstacle: String) {
        (calls, isBatched, isLate, report) = (1, true, true, { _ in [] })
        self.obstacle = obstacle
    }

    /// One call per batch; none without files.
    ///
    /// - Parameters:
    ///   - rows: The files, in the order of their paths.
    ///   - size: Most files of a batch.
    init(
        batchesOf rows: [Int], size: Int, isLate: Bool = false,
        report: @escaping (_ rows: ArraySlice<Int>, _ batch: HookBatch) -> [UInt8]
    ) {
        let size = max(1, size)
        let count = rows.count / size + (rows.count % size > 0 ? 1 : 0)
        (calls, isBatched, obstacle) = (count, true, nil)
        self.isLate = isLate
        self.report = { call in
            let first = min(rows.count, (call - 1) * size)
            let batch = HookBatch(number: call, count: count)
            return report(rows[first..<min(rows.count, first + size)], batch)
        }
    }
}

/// One batch of files.
struct HookBatch: Sendable, Equatable {
    /// From 1.
    let number: Int
    /// How many there are.
    let count: Int
}
