import SyncFiles
import SyncModel
import SyncSystem
import SyncUnpack

/// Checks whether every file in an index is unchanged: one lstat(2) per file, nothing is opened.
struct IndexCheck: Sendable {
    let index: StatIndex
    let destination: Destination
    let threads: Int

    func isCurrent() -> Bool {
        let positions = Array(0..<index.count)
        let slices = positions.evenSlices(index.count < 2048 ? 1 : threads)
        let failed = Flag()
        return concurrently(slices.count, name: "stat") { isCurrent(slices[$0], failed) }.allSatisfy { $0 }
    }

    private func isCurrent(_ positions: ArraySlice<Int>, _ failed: Flag) -> Bool {
        let directories = Directories(destination)
        for position in positions {
            guard let record = index.record(position), index.trusts(record) else {
                failed.raise()
                return false
            }
            // Left from an earlier manifest and still there.
            if record.kind == .directory, !record.isNamed { continue }
            let isSame = index.withPath(position) { path in
                // What cannot be entered has changed.
                try? directories.withLeaf(of: path) { directory, leaf in
                    guard case .success(let found?) = status(directory, leaf) else { return false }
                    return record.matches(found)
                }
            }
            guard isSame == true else {
                failed.raise()
                return false
            }
            if position % 256 == 0, failed.isRaised { return false }
        }
        return true
    }

    private final class Flag: Sendable {
        private let value = Mutex(false)
        var isRaised: Bool { value.withLock { $0 } }
        func raise() { value.withLock { $0 = true } }
    }
}
