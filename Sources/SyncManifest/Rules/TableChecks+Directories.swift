import SyncModel

extension TableChecks {
    /// Puts named directories in ``PathOrder``, and refuses one that is named twice, is a file, or is below a file.
    static func checkDirectories(_ named: FileTable, _ files: FileTable) throws(ManifestError) -> FileTable {
        guard named.count > 0 else { return named }
        var directories = named
        if !isOrdered(named) { directories = named.reordered(pathOrder(of: named)) }
        for row in directories.indices.dropFirst()
        where directories.withPath(row, { path in directories.withPath(row - 1) { $0.elementsEqual(path) } })
        {
            throw refusal(directories, row, "is named twice", "keep one of them")
        }
        // What is below a file stands behind it, and nothing else in between.
        var file = 0
        for row in directories.indices {
            let isInTheWay = directories.withPath(row) { path in
                while file < files.count, files.withPath(file, { PathOrder.compare($0, path) < 0 }) {
                    file += 1
                }
                if file < files.count, files.withPath(file, { $0.elementsEqual(path) }) { return true }
                return file > 0 && files.withPath(file - 1) { PathOrder.isDirectory($0, of: path) }
            }
            if isInTheWay {
                throw refusal(directories, row, "is a file or a link, or below one", "rename one of them")
            }
        }
        directories.sortGroups()
        return directories
    }

    /// Refuses directories that are one path with another entry after Unicode normalisation (V13).
    static func checkNormalisation(
        of directories: FileTable,
        with files: FileTable
    ) throws(ManifestError) {
        let all = files.merged(with: directories)
        for pair in collisions(in: all, all: true, form: { $0 }) where all.isConflict(pair) {
            throw refusal(
                all,
                pair.second,
                "meets \(quoted(all.path(pair.first))) after Unicode normalisation",
                "rename one of them"
            )
        }
    }

    private static func refusal(
        _ table: FileTable,
        _ row: Int,
        _ reason: String,
        _ remedy: String
    ) -> ManifestError {
        ManifestError(path: "$.x-directories", reason: "\(quoted(table.path(row))) \(reason)", remedy: remedy)
    }
}

extension FileTable {
    /// Whether a directory is named here, or one below it.
    func names(_ directory: [UInt8]) -> Bool { !rows(below: directory).isEmpty }

    /// The paths and kinds of this table's rows and of directories, in ``PathOrder``, and nothing else of them.
    func merged(with directories: FileTable) -> FileTable {
        guard directories.count > 0 else { return self }
        var all = FileTable()
        all.reserve(count: count + directories.count, pathBytes: arena.count + directories.arena.count)
        func add(_ row: Int, of table: FileTable) {
            // Both tables fit below 4 GiB, and paths below 4 KiB.
            _ = all.append(Row(path: table.withPath(row) { Array($0) }, kind: table.kind(row)))
        }
        var next = 0
        for row in indices {
            while next < directories.count,
                withPath(row, { path in directories.withPath(next) { PathOrder.precedes($0, path) } })
            {
                add(next, of: directories)
                next += 1
            }
            add(row, of: self)
        }
        for row in next..<directories.count { add(row, of: directories) }
        return all
    }

    /// Whether two rows that meet cannot both be there: directories are there for others, and meet each other in peace
    /// where only case is folded.
    func isConflict(_ pair: TableChecks.Collision) -> Bool {
        !(pair.isDirectory && kind(pair.first) == .directory)
    }
}

extension Manifest {
    /// Files, links and named directories alike: paths and kinds in ``PathOrder``.
    package var allPaths: FileTable { files.merged(with: directories) }

    /// The directories that go with some rows: those that are not empty with what is wanted below them, empty ones where
    /// they are wanted themselves.
    ///
    /// - Parameters:
    ///   - rows: Of files and links, ascending.
    ///   - groups: Names of groups of this manifest; none means everything.
    ///   - filter: Which paths are wanted; `nil` for all.
    /// - Returns: Rows of ``directories``, ascending.
    package func directories(with rows: [Int], groups names: [String], filter: PathFilter?) -> [Int] {
        guard directories.count > 0 else { return [] }
        var selection = RowSelection(all: directories.count)
        // Unknown names were refused with the files.
        if let wanted = (try? groups(named: names)) ?? nil {
            selection = RowSelection(none: directories.count)
            for group in wanted { _ = directories.add(group, to: &selection) { false } }
        }
        var found: [Int] = []
        for row in directories.indices.reversed() {
            let isWanted = directories.withPath(row) { path in
                let below = files.rows(below: Array(path))
                let hasDirectories =
                    row + 1 < directories.count
                    && directories.withPath(row + 1) { PathOrder.isDirectory(path, of: $0) }
                guard below.isEmpty, !hasDirectories else {
                    let next = rows.indices.partitioningIndex { rows[$0] >= below.lowerBound }
                    if next < rows.count, below.contains(rows[next]) { return true }
                    guard let last = found.last else { return false }
                    return directories.withPath(last) { PathOrder.isDirectory(path, of: $0) }
                }
                return selection.contains(row) && (filter?.wants(path) ?? true)
            }
            if isWanted { found.append(row) }
        }
        return found.reversed()
    }
}
