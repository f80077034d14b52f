import SyncFiles
import SyncSystem

extension StatIndex {
    /// Whether every file is unchanged: one lstat(2) per file, nothing is opened.
    func isCurrent(in destination: Destination, threads: Int) -> Bool {
        let slices = Array(0..<count).evenSlices(count < 2048 ? 1 : threads)
        let failed = StopFlag()
        return concurrently(slices.count, name: "stat") { isCurrent(slices[$0], in: destination, failed) }.allSatisfy {
            $0
        }
    }

    private func isCurrent(_ positions: ArraySlice<Int>, in destination: Destination, _ failed: StopFlag) -> Bool {
        let directories = Directories(destination)
        for position in positions {
            guard let record = record(position), trusts(record) else {
                failed.set()
                return false
            }
            // Left from an earlier manifest and still there.
            if record.kind == .directory, !record.isNamed { continue }
            let isSame = withPath(position) { path in
                // What cannot be entered has changed.
                try? directories.withLeaf(of: path) { directory, leaf in
                    guard case .success(let found?) = status(directory, leaf) else { return false }
                    return record.matches(found)
                }
            }
            guard isSame == true else {
                failed.set()
                return false
            }
            if position % 256 == 0, failed.isSet { return false }
        }
        return true
    }
}
