import SyncManifest
import SyncModel

/// Finds the former version of a file in the base: the same path or, for a new path, the most similar path that is
/// gone.
///
/// A directory or file with a version or digest in its name has another name in every release, with nearly the same
/// content. Only paths are compared here; whether a delta pays is known once it is made.
struct FormerVersions {
    /// A row of the base manifest, and whether its path differs from the file's.
    typealias Version = (row: Int, isGuess: Bool)

    private let tree: SourceTree
    private let files: FileTable
    /// Rows with content whose paths are gone from the tree, in path order. Not computed unless a path is new.
    private lazy var gone = rowsThatAreGone()
    /// The same rows, sorted by reversed path.
    private lazy var goneByEnd = gone.sorted { [files] one, other in
        files.withPath(one) { one in files.withPath(other) { Self.precedesByEnd(one, $0) } }
    }

    init(_ tree: SourceTree, _ files: FileTable) {
        (self.tree, self.files) = (tree, files)
    }

    /// The former version of the file at `path`, judged by paths; `nil` if there is none with content.
    ///
    /// - Complexity: O(log *n*) for *n* files, and O(*n* log *n*) once, at the first path that is new.
    mutating func version(of path: UnsafeBufferPointer<UInt8>) -> Version? {
        guard let row = files.row(of: path) else { return row(likest: path).map { ($0, true) } }
        return hasContent(row) ? (row, false) : nil
    }

    private func hasContent(_ row: Int) -> Bool { files.kind(row) != .link && !files.blobs(row).isEmpty }

    /// Tree and base are in ``PathOrder``: one pass over both.
    private func rowsThatAreGone() -> [Int] {
        var index = 0
        return files.indices.filter { row in
            let isHere = files.withPath(row) { former in
                while index < tree.count, tree.withPath(index, { PathOrder.precedes($0, former) }) { index += 1 }
                return index < tree.count && tree.withPath(index) { $0.elementsEqual(former) }
            }
            return !isHere && hasContent(row)
        }
    }

    /// Of the paths that start or end like `path`, the one that shares the most bytes with it, at least half.
    private mutating func row(likest path: UnsafeBufferPointer<UInt8>) -> Int? {
        let (gone, goneByEnd) = (gone, goneByEnd)
        let start = gone.indices.partitioningIndex { place in
            files.withPath(gone[place]) { !PathOrder.precedes($0, path) }
        }
        let end = goneByEnd.indices.partitioningIndex { place in
            files.withPath(goneByEnd[place]) { !Self.precedesByEnd($0, path) }
        }
        var best: (row: Int, shared: Int)?
        for row in Self.neighbours(of: start, in: gone) + Self.neighbours(of: end, in: goneByEnd) {
            let shared = files.withPath(row) { Self.shared($0, path) }
            if shared > best?.shared ?? 0 { best = (row, shared) }
        }
        guard let best, files.withPath(best.row, { best.shared * 2 >= max($0.count, path.count) }) else { return nil }
        return best.row
    }

    private static func precedesByEnd(_ one: UnsafeBufferPointer<UInt8>, _ other: UnsafeBufferPointer<UInt8>) -> Bool {
        one.reversed().lexicographicallyPrecedes(other.reversed())
    }

    private static func neighbours(of place: Int, in rows: [Int]) -> ArraySlice<Int> {
        rows[max(0, place - 1)..<min(rows.count, place + 1)]
    }

    /// **Bytes** that two paths share at their starts and ends.
    private static func shared(_ one: UnsafeBufferPointer<UInt8>, _ other: UnsafeBufferPointer<UInt8>) -> Int {
        let most = min(one.count, other.count)
        let first = zip(one, other).prefix { $0 == $1 }.count
        let last = zip(one.reversed(), other.reversed()).prefix { $0 == $1 }.count
        return min(most, first + last)
    }
}
