import SyncManifest
import SyncModel

/// What a publish would change against its base.
extension PublishReport {
    /// Compares a source with its base, and fills in the changes.
    ///
    /// - Parameters:
    ///   - tree: What would be published.
    ///   - digests: SHA-256 of the files, by index in the tree.
    ///   - hasOtherChoices: Whether the set would differ from the base even with the same files.
    ///   - isShown: Whether the channel points at the base already.
    ///   - listsAll: Whether files and links that are as in the base are listed, too.
    mutating func compare(
        _ tree: SourceTree, _ digests: [Int: SHA256Digest], with base: Manifest?, hasOtherChoices: Bool, isShown: Bool,
        listsAll: Bool = false
    ) {
        func add(_ kind: Change.Kind, _ path: String, _ size: UInt64) {
            counts[kind, default: 0] += 1
            if listsAll || kind != .unchanged { changes.append(Change(kind: kind, path: path, size: size)) }
        }
        let former = base?.files ?? FileTable()
        // Both are in path order.
        var row = 0
        for index in tree.entries.indices {
            tree.withPath(index) { path in
                while row < former.count, former.withPath(row, { PathOrder.precedes($0, path) }) {
                    add(.removed, former.path(row), former.size(row))
                    row += 1
                }
            }
            let size = tree.entries[index].kind == .link ? 0 : tree.entries[index].stamp.size
            guard row < former.count, former.withPath(row, { $0.elementsEqual(tree.path(index).utf8) }) else {
                add(.new, tree.path(index), size)
                continue
            }
            let isSame = Self.isSame(tree, index, digests[index], former, row)
            add(isSame ? .unchanged : .changed, tree.path(index), size)
            row += 1
        }
        for row in row..<max(row, former.count) { add(.removed, former.path(row), former.size(row)) }
        let hasOtherDirectories = compare(tree.directories, base?.directories ?? FileTable())
        guard let base else { return }
        baseRevision = base.revision
        guard changes.allSatisfy({ $0.kind == .unchanged }), !hasOtherChoices, !hasOtherDirectories else { return }
        (unchanged, revision) = (isShown, base.revision)
    }

    /// Adds directories that appear and disappear, with a final `/`. Both are in path order.
    ///
    /// - Returns: Whether a directory that both have has other traits than in the base.
    private mutating func compare(_ directories: [(path: [UInt8], traits: FileTraits)], _ former: FileTable) -> Bool {
        var isOther = false
        func change(_ kind: Change.Kind, _ path: String) -> Change { Change(kind: kind, path: path + "/", size: 0) }
        var row = 0
        for directory in directories {
            let isKnown = directory.path.withUnsafeBufferPointer { path in
                while row < former.count, former.withPath(row, { PathOrder.precedes($0, path) }) {
                    changes.append(change(.removed, former.path(row)))
                    row += 1
                }
                return row < former.count && former.withPath(row) { $0.elementsEqual(path) }
            }
            guard isKnown else {
                changes.append(change(.new, String(decoding: directory.path, as: UTF8.self)))
                continue
            }
            if former.traits(row) != directory.traits { isOther = true }
            row += 1
        }
        for row in row..<former.count { changes.append(change(.removed, former.path(row))) }
        return isOther
    }

    private static func isSame(
        _ tree: SourceTree, _ index: Int, _ digest: SHA256Digest?, _ former: FileTable, _ row: Int
    ) -> Bool {
        guard tree.traits(index) == former.traits(row) else { return false }
        return switch (tree.entries[index].kind, former.kind(row)) {
        case (.link, .link): former.withLinkTarget(row) { $0.elementsEqual(tree.linkTargets[index] ?? []) } ?? false
        case (.file, .file), (.executable, .executable): digest == former.digest(row)
        default: false
        }
    }
}
