import SyncModel

/// Steps 2 and 3 of ``ManifestAssembly``: order, and the rules that need the whole manifest.
extension ManifestAssembly {
    /// Checks the rules that need the whole.
    ///
    /// - Throws: ``ManifestError`` for the first rule that is broken, or when parts are missing.
    package consuming func finish() throws(ManifestError) -> Manifest {
        if partStarts.isEmpty { try checkTotals() }
        guard partStarts.count == parts.count else {
            throw ManifestError(
                at: "$.parts[\(partStarts.count)]", "the manifest is in parts, and this one is not here",
                "read it with its parts")
        }
        if !Self.isOrdered(files) {
            let sorted = Self.pathOrder(of: files)
            (files, order) = (files.reordered(sorted), sorted)
        }
        try checkNeighbours()
        try checkDirectories()
        if hasWidePaths {
            try checkNormalisation()
            if directories.count > 0 { try checkNormalisationOfDirectories() }
        }
        try Self.checkPacks(packs)
        try checkBlobs()
        guard let total = files.totalSize, total <= UInt64(Int64.max) else {
            throw ManifestError(at: "$.files", "the sizes add up to more than 2^63", "correct them")
        }
        for (index, directory) in linkedDirectories
        where !isNarrowed && !files.hasDirectory(directory) && !directories.names(directory) {
            throw ManifestError(
                at: place(ofEntry: index) + ".link",
                "the target goes up from \(quoted(directory)), which is not a directory of this manifest",
                "write “..” only at the front")
        }
        try checkPatterns()
        files.dropUselessDeltas(packs)
        files.sortGroups()
        let declared = Set(groups.map(\.name))
        let implied = Set(files.impliedGroups + directories.impliedGroups).subtracting(declared).sorted()
        return Manifest(
            project: project, revision: revision, created: created, digest: digest, packs: packs,
            groups: groups + implied.map { Manifest.Group(name: $0, include: [], hooks: []) }, files: files,
            directories: directories, chunking: chunking, userData: userData, source: source, parts: parts,
            dictionary: dictionary, isNarrowed: isNarrowed)
    }

    static func isOrdered(_ files: FileTable) -> Bool {
        files.arena.withUnsafeBufferPointer { arena in
            for row in files.indices.dropFirst()
            where PathOrder.compare(files.path(row - 1, in: arena), files.path(row, in: arena)) > 0 { return false }
            return true
        }
    }

    /// The rows in order of their paths; equal paths as in the document.
    static func pathOrder(of files: FileTable) -> [UInt32] {
        var order = files.indices.map { UInt32(truncatingIfNeeded: $0) }
        files.arena.withUnsafeBufferPointer { arena in
            order.sort { a, b in
                let difference = PathOrder.compare(files.path(Int(a), in: arena), files.path(Int(b), in: arena))
                return difference == 0 ? a < b : difference < 0
            }
        }
        return order
    }

    /// Refuses equal paths, and paths that are a directory of another: both are neighbours in ``PathOrder``.
    private func checkNeighbours() throws(ManifestError) {
        let found: (row: Int, other: Int, isSame: Bool)? = files.arena.withUnsafeBufferPointer { arena in
            for row in files.indices.dropFirst() {
                let previous = files.path(row - 1, in: arena)
                let path = files.path(row, in: arena)
                if PathOrder.isDirectory(previous, of: path) { return (row - 1, row, false) }
                if previous.count == path.count, PathOrder.compare(previous, path) == 0 { return (row, row - 1, true) }
            }
            return nil
        }
        guard let found else { return }
        throw found.isSame
            ? repeated(found.row, found.other, "is the same as") : directory(found.row, above: found.other)
    }

    func repeated(_ row: Int, _ other: Int, _ how: String) -> ManifestError {
        let (first, second) = entry(of: row) < entry(of: other) ? (row, other) : (other, row)
        return ManifestError(
            at: place(of: second) + ".path", "\(quoted(files.path(row))) \(how) \(place(of: first)).path",
            "keep one of them")
    }

    func directory(_ row: Int, above other: Int) -> ManifestError {
        let what = files.kind(row) == .link ? "a link" : "a file"
        return ManifestError(
            at: place(of: row) + ".path",
            "\(quoted(files.path(row))) is \(what), and \(place(of: other)).path needs a directory there",
            "rename one of them")
    }

    static func checkPacks(_ packs: [Manifest.Pack]) throws(ManifestError) {
        var first: [SHA256Digest: Int] = [:]
        for (index, pack) in packs.enumerated() {
            if let other = first.updateValue(index, forKey: pack.sha256) {
                throw ManifestError(
                    at: "$.packs[\(index)].sha256", "the pack is the same as $.packs[\(other)]",
                    "keep one, with all its URLs in “urls”")
            }
        }
    }

    /// Checks that blobs lie in packs that exist.
    private func checkBlobs() throws(ManifestError) {
        let limits = packs.map(\.size)
        for row in files.indices {
            for (index, blob) in files.blobs(row).enumerated() {
                guard blob.pack < limits.count else {
                    throw ManifestError(
                        at: "\(place(of: row)).blobs[\(index)][0]",
                        "pack \(blob.pack) does not exist; “packs” has \(limits.count)",
                        "count packs from 0")
                }
                guard blob.range.upperBound <= limits[Int(blob.pack)] else {
                    throw ManifestError(
                        at: "\(place(of: row)).blobs[\(index)]",
                        "the blob ends at byte \(blob.range.upperBound), and pack \(blob.pack) has "
                            + "\(limits[Int(blob.pack)])", "correct the offset, the length or the pack's size")
                }
            }
        }
    }

    /// Checks the cost of the patterns. One that begins with a wildcard is tried on every path: too many of them, or
    /// too long ones on long paths, would take hours.
    private func checkPatterns() throws(ManifestError) {
        let tables = [files, directories]
        var budget = PatternBudget(limits)
        for (index, group) in groups.enumerated() {
            for (number, pattern) in group.include.enumerated() {
                let glob = Glob(pattern)
                let rows = tables.map { $0.rows(below: glob.literalPrefix) }
                let reason = budget.spend(glob, paths: rows.reduce(0) { $0 + $1.count }) {
                    zip(tables, rows).reduce(0) { $0 + $1.0.pathBytes(of: $1.1) }
                }
                guard let reason else { continue }
                throw ManifestError(
                    at: "$.groups[\(index)].include[\(number)]", reason,
                    "begin patterns with a directory, or use “group” in the files")
            }
        }
    }
}

// The places of rows in the document.
extension ManifestAssembly {
    /// The number of a row's entry, counted through the whole document.
    private func entry(of row: Int) -> Int { order.map { Int($0[row]) } ?? row }

    /// The row's JSON path.
    private func place(of row: Int) -> String { place(ofEntry: entry(of: row)) }

    private func place(ofEntry number: Int) -> String {
        guard !partStarts.isEmpty else { return "$.files[\(number)]" }
        let part = (partStarts.firstIndex { $0 > number } ?? partStarts.count) - 1
        return "$.parts[\(part)].files[\(number - partStarts[max(0, part)])]"
    }
}

extension ManifestAssembly {
    /// Puts named directories in ``PathOrder``, and refuses one that is named twice, is a file, or is below a file.
    private mutating func checkDirectories() throws(ManifestError) {
        guard directories.count > 0 else { return }
        if !Self.isOrdered(directories) { directories = directories.reordered(Self.pathOrder(of: directories)) }
        for row in directories.indices.dropFirst()
        where directories.withPath(row, { path in directories.withPath(row - 1) { $0.elementsEqual(path) } }) {
            throw Self.refusal(directories, row, "is named twice", "keep one of them")
        }
        // A path below a file sorts behind it, with nothing else in between.
        var file = 0
        for row in directories.indices {
            let isInTheWay = directories.withPath(row) { path in
                while file < files.count, files.withPath(file, { PathOrder.compare($0, path) < 0 }) { file += 1 }
                if file < files.count, files.withPath(file, { $0.elementsEqual(path) }) { return true }
                return file > 0 && files.withPath(file - 1) { PathOrder.isDirectory($0, of: path) }
            }
            guard !isInTheWay else {
                throw Self.refusal(directories, row, "is a file or a link, or below one", "rename one of them")
            }
        }
        directories.sortGroups()
    }

    /// Refuses directories that are one path with another entry after Unicode normalisation.
    private func checkNormalisationOfDirectories() throws(ManifestError) {
        let all = files.merged(with: directories)
        for pair in Self.collisions(in: all, all: true, form: { $0 }) where all.isConflict(pair) {
            throw Self.refusal(
                all, pair.second, "is the same as \(quoted(all.path(pair.first))) after Unicode normalisation",
                "rename one of them")
        }
    }

    private static func refusal(_ table: FileTable, _ row: Int, _ reason: String, _ remedy: String) -> ManifestError {
        ManifestError(at: "$.x-directories", "\(quoted(table.path(row))) \(reason)", remedy)
    }
}

extension FileTable {
    /// Whether this directory, or one below it, is named.
    func names(_ directory: [UInt8]) -> Bool { !rows(below: directory).isEmpty }

    /// The paths and kinds of this table's rows and of directories, in ``PathOrder``, and nothing else of them.
    func merged(with directories: FileTable) -> FileTable {
        guard directories.count > 0 else { return self }
        var all = FileTable()
        all.reserve(count: count + directories.count, pathBytes: arena.count + directories.arena.count)
        func add(_ row: Int, of table: FileTable) {
            // Both tables fit below 4 GiB, and paths below 4 KiB.
            guard let path = table.withPath(row, { all.store($0) }) else { return }
            _ = all.append(Pending(path: path, kind: table.kind(row), firstBlob: 0, firstText: 0))
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

    /// Whether two rows that collide cannot both exist: a directory that would be above the other row does no harm.
    func isConflict(_ pair: PathCollision) -> Bool { !(pair.isDirectory && kind(pair.first) == .directory) }
}

extension Manifest {
    /// Files, links and named directories alike: paths and kinds in ``PathOrder``.
    package var allPaths: FileTable { files.merged(with: directories) }

    /// The directories that belong to some rows of files and links: those with content if rows below them are wanted,
    /// and empty ones if they are selected themselves. All rows ascend.
    ///
    /// - Parameter names: Groups of this manifest; none means everything.
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
                    row + 1 < directories.count && directories.withPath(row + 1) { PathOrder.isDirectory(path, of: $0) }
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
