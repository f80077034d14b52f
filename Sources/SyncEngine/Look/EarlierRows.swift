import SyncFiles
import SyncManifest
import SyncModel

/// Which files, in place when this process began, were put there by work that was cut short before anybody was told.
struct EarlierRows {
    let manifest: Manifest
    let states: RowStates
    let destination: Destination

    /// Clocks of file servers differ from ours; **nanoseconds**.
    private static let slack: Int64 = 60_000_000_000

    /// A rename sets the time of a file's last status change (rename(2)), and nobody can set it to another time.
    ///
    /// - Parameter time: **Milliseconds** since 1970.
    /// - Returns: Files whose status has changed since then, and those of which that is not known.
    func since(_ time: Int64) -> Set<Int> {
        let (nanoseconds, overflows) = time.multipliedReportingOverflow(by: 1_000_000)
        let first = overflows ? .min : nanoseconds.subtractingReportingOverflow(Self.slack).partialValue
        let index = StatIndex.read(from: destination)
        return Set(
            manifest.files.indices.filter { row in
                guard states[row] == .unchanged else { return false }
                let record = manifest.files.withPath(row) { path -> IndexRecord? in
                    let position = index.lowerBound(path)
                    guard position < index.count,
                        index.withPath(position, { PathOrder.compare($0, path) }) == 0
                    else { return nil }
                    return index.record(position)
                }
                return record.map { $0.status.changed >= first } ?? true
            }
        )
    }
}
