import SyncManifest
package import SyncModel

/// What a publish would do.
package struct PublishPreview: Sendable {
    /// What is known of it: no packs, no manifest.
    package let report: PublishReport
    /// The base's revision; `nil` without a base.
    package let baseRevision: UInt64?
    /// **Bytes** that would be compressed: content not in the base's packs, each counted once.
    package let encodedBytes: UInt64
    /// Files and links by how they would change against the base.
    package let counts: [Change.Kind: Int]
    /// Files and links that differ from the base, in path order.
    package let changes: [Change]

    /// How one file or link would change.
    package struct Change: Sendable, Equatable {
        package enum Kind: String, Sendable, CaseIterable { case new, changed, unchanged, removed }

        package let kind: Kind
        package let path: String
        /// **Bytes**; 0 for links; for removed files their former size.
        package let size: UInt64
    }

    /// Files and links of one kind.
    package func count(_ kind: Change.Kind) -> Int { counts[kind] ?? 0 }

    /// Of a publish that got nowhere.
    package init() { (report, baseRevision, encodedBytes, counts, changes) = (PublishReport(), nil, 0, [:], []) }

    /// - Parameters:
    ///   - report: With the next revision.
    ///   - hasOtherChoices: Whether it would differ from the base also with the same files.
    init(_ report: PublishReport, hasOtherChoices: Bool, _ tree: SourceTree, _ collector: Collector, _ base: Manifest?)
    {
        encodedBytes = collector.unplaced
        let former = base?.files ?? FileTable()
        var changes: [Change] = []
        var counts: [Change.Kind: Int] = [:]
        func tell(_ kind: Change.Kind, _ path: String, _ size: UInt64) {
            counts[kind, default: 0] += 1
            if kind != .unchanged { changes.append(Change(kind: kind, path: path, size: size)) }
        }
        // Both are in path order.
        var row = 0
        for index in tree.entries.indices {
            tree.withPath(index) { path in
                while row < former.count, former.withPath(row, { PathOrder.precedes($0, path) }) {
                    tell(.removed, former.path(row), former.size(row))
                    row += 1
                }
            }
            let size = tree.entries[index].kind == .link ? 0 : tree.entries[index].stamp.size
            guard row < former.count, former.withPath(row, { $0.elementsEqual(tree.path(index).utf8) }) else {
                tell(.new, tree.path(index), size)
                continue
            }
            let isSame = Self.isSame(tree, index, collector.ledger.digests[index], former, row)
            tell(isSame ? .unchanged : .changed, tree.path(index), size)
            row += 1
        }
        for row in row..<max(row, former.count) { tell(.removed, former.path(row), former.size(row)) }
        let hasOtherDirectories = Self.compare(tree.directories, base?.directories ?? FileTable(), &changes)
        (self.changes, self.counts) = (changes, counts)
        baseRevision = base?.revision
        var report = report
        if let base, changes.isEmpty, !hasOtherChoices, !hasOtherDirectories {
            report.unchanged = true
            report.revision = base.revision
        }
        self.report = report
    }

    /// Adds directories that appear and disappear, with a final `/`. Both are in path order.
    ///
    /// - Returns: Whether anything of directories is not as in the base.
    private static func compare(_ directories: [SourceTree.Directory], _ former: FileTable, _ changes: inout [Change])
        -> Bool
    {
        var isOther = false
        func tell(_ kind: Change.Kind, _ path: String) { changes.append(Change(kind: kind, path: path + "/", size: 0)) }
        var row = 0
        for directory in directories {
            let isKnown = directory.path.withUnsafeBufferPointer { path in
                while row < former.count, former.withPath(row, { PathOrder.precedes($0, path) }) {
                    tell(.removed, former.path(row))
                    row += 1
                }
                return row < former.count && former.withPath(row) { $0.elementsEqual(path) }
            }
            guard isKnown else {
                tell(.new, String(decoding: directory.path, as: UTF8.self))
                continue
            }
            if former.traits(row) != directory.traits { isOther = true }
            row += 1
        }
        for row in row..<former.count { tell(.removed, former.path(row)) }
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

    /// One line of `publish --dry-run --json -v`.
    package func json(_ change: Change, time: String) -> JSONLine {
        JSONLine.event(.publishFile) { line in
            line.field("time", time)
            line.field("path", change.path)
            line.field("change", change.kind.rawValue)
            line.field("size", change.size)
        }
    }

    /// The last line of `publish --dry-run --json`; `elapsed` in **milliseconds**.
    ///
    /// - Parameter failure: What the process exits with, and why; `nil` when all went well.
    package func json(time: String, elapsed: Int64, failure: (status: Int32, message: String)? = nil) -> JSONLine {
        JSONLine.event(.publishPlanned) { line in
            line.field("time", time)
            line.result(failure)
            line.field("project", report.project)
            line.field("revision", report.revision)
            line.field("base_revision", optional: baseRevision)
            line.field("unchanged", report.unchanged)
            line.field("files", report.files)
            line.field("links", report.links)
            line.field("directories", report.directories)
            line.field("excluded", report.excluded)
            line.field("unread", report.unreadFiles)
            line.field("loose", report.isLoose)
            line.object("changes") { line in for kind in Change.Kind.allCases { line.field(kind.rawValue, count(kind)) }
            }
            line.object("bytes") { line in
                line.field("raw", report.rawBytes)
                line.field("encoded", encodedBytes)
            }
            line.field("kept", report.kept)
            line.field("warnings", report.warnings)
            line.field("elapsed_ms", elapsed)
        }
    }
}
