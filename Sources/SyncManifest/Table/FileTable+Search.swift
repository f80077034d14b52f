import SyncModel

extension FileTable {
    /// The row that has this path, or `nil`; the table stands in ``PathOrder``.
    ///
    /// - Complexity: O(log *n*).
    package func row(of path: UnsafeBufferPointer<UInt8>) -> Int? {
        let row = firstRow(notBefore: path)
        return row < count && withPath(row) { $0.elementsEqual(path) } ? row : nil
    }

    /// The rows that are the path itself or below it; all rows for the empty path.
    package func rows(below path: [UInt8]) -> Range<Int> {
        guard !path.isEmpty else { return indices }
        // `/` ranks lowest and NUL next, so everything below the directory stands before the path with a NUL.
        let start = path.withUnsafeBufferPointer(firstRow(notBefore:))
        let end = (path + [0]).withUnsafeBufferPointer(firstRow(notBefore:))
        return start..<max(start, end)
    }

    /// Whether some row is below this directory; the table stands in ``PathOrder``. An empty path is the root.
    func hasDirectory(_ directory: [UInt8]) -> Bool {
        if directory.isEmpty { return true }
        let prefix = directory + [0x2F]
        let row = prefix.withUnsafeBufferPointer(firstRow(notBefore:))
        return row < count && withPath(row) { $0.starts(with: prefix) }
    }

    /// The first row whose path does not stand before `path`, or ``count``.
    package func firstRow(notBefore path: UnsafeBufferPointer<UInt8>) -> Int {
        arena.withUnsafeBufferPointer { arena in
            indices.partitioningIndex { !PathOrder.precedes(self.path($0, in: arena), path) }
        }
    }
}
