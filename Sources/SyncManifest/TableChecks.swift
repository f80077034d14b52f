import SyncModel

/// Steps 2 and 3 of ``ManifestLoader``: order, and the rules that need the whole manifest.
enum TableChecks {
    static func finish(_ decoder: ManifestDecoder, digest: SHA256Digest) throws(ManifestError) -> Manifest {
        var files = decoder.files
        var order: [UInt32]?
        if !isOrdered(files) {
            let sorted = pathOrder(of: files)
            files = files.reordered(sorted)
            order = sorted
        }
        /// The index of a row in the document.
        func entry(_ row: Int) -> Int { order.map { Int($0[row]) } ?? row }

        try checkNeighbours(files, entry)
        if decoder.hasWidePaths { try checkNormalisation(files, entry) }
        try checkPacks(decoder.packs)
        try checkBlobs(files, decoder.packs, entry)
        guard let total = files.totalSize, total <= UInt64(Int64.max) else {
            throw ManifestError(
                path: "$.files",
                reason: "the sizes add up to more than 2^63",
                remedy: "correct them"
            )
        }
        for (index, directory) in decoder.linkedDirectories where !files.hasDirectory(directory) {
            throw ManifestError(
                path: "$.files[\(index)].link",
                reason:
                    "the target goes up from \(quoted(directory)), which is no directory of this manifest",
                remedy: "write “..” only at the front"
            )
        }
        try checkPatterns(files, decoder.groups, limit: decoder.limits.patternMatches)
        files.dropUselessDeltas(decoder.packs)
        let declared = Set(decoder.groups.map(\.name))
        let implied = files.impliedGroups.filter { !declared.contains($0) }.sorted()
        return Manifest(
            project: decoder.project ?? "",
            revision: decoder.revision,
            created: decoder.created,
            digest: digest,
            packs: decoder.packs,
            groups: decoder.groups + implied.map { Manifest.Group(name: $0, include: [], hooks: []) },
            files: files,
            chunking: decoder.chunking
        )
    }

    private static func isOrdered(_ files: FileTable) -> Bool {
        files.arena.withUnsafeBufferPointer { arena in
            for row in files.indices.dropFirst()
            where PathOrder.compare(files.path(row - 1, in: arena), files.path(row, in: arena)) > 0 {
                return false
            }
            return true
        }
    }

    /// The rows in order of their paths; equal paths as in the document.
    private static func pathOrder(of files: FileTable) -> [UInt32] {
        var order = files.indices.map { UInt32(truncatingIfNeeded: $0) }
        files.arena.withUnsafeBufferPointer { arena in
            order.sort { a, b in
                let difference = PathOrder.compare(
                    files.path(Int(a), in: arena),
                    files.path(Int(b), in: arena)
                )
                return difference == 0 ? a < b : difference < 0
            }
        }
        return order
    }

    /// Equal paths, and paths that are a directory of another, are neighbours in ``PathOrder`` (F106, F107, V6).
    private static func checkNeighbours(_ files: FileTable, _ entry: (Int) -> Int) throws(ManifestError) {
        let found: (row: Int, other: Int, isSame: Bool)? = files.arena.withUnsafeBufferPointer { arena in
            for row in files.indices.dropFirst() {
                let previous = files.path(row - 1, in: arena)
                let path = files.path(row, in: arena)
                if PathOrder.isDirectory(previous, of: path) { return (row - 1, row, false) }
                if previous.count == path.count, PathOrder.compare(previous, path) == 0 {
                    return (row, row - 1, true)
                }
            }
            return nil
        }
        guard let found else { return }
        throw found.isSame
            ? repeated(files, entry(found.row), found.row, entry(found.other), "is the same as")
            : directory(files, entry(found.row), found.row, entry(found.other))
    }

    static func repeated(
        _ files: FileTable,
        _ entry: Int,
        _ row: Int,
        _ other: Int,
        _ how: String
    ) -> ManifestError {
        ManifestError(
            path: "$.files[\(max(entry, other))].path",
            reason: "\(quoted(files.path(row))) \(how) $.files[\(min(entry, other))].path",
            remedy: "keep one of them"
        )
    }

    static func directory(_ files: FileTable, _ entry: Int, _ row: Int, _ other: Int) -> ManifestError {
        let what = files.kind(row) == .link ? "a link" : "a file"
        return ManifestError(
            path: "$.files[\(entry)].path",
            reason:
                "\(quoted(files.path(row))) is \(what), and $.files[\(other)].path needs a directory there",
            remedy: "rename one of them"
        )
    }

    private static func checkPacks(_ packs: [Manifest.Pack]) throws(ManifestError) {
        var first: [SHA256Digest: Int] = [:]
        for (index, pack) in packs.enumerated() {
            if let other = first.updateValue(index, forKey: pack.sha256) {
                throw ManifestError(
                    path: "$.packs[\(index)].sha256",
                    reason: "the pack is the same as $.packs[\(other)]",
                    remedy: "keep one, with all its URLs in “urls”"
                )
            }
        }
    }

    /// Blobs lie in packs that exist (V47, V54).
    private static func checkBlobs(
        _ files: FileTable,
        _ packs: [Manifest.Pack],
        _ entry: (Int) -> Int
    ) throws(ManifestError) {
        let limits = packs.map(\.size)
        for row in files.indices {
            for (index, blob) in files.blobs(row).enumerated() {
                let path = "$.files[\(entry(row))].blobs[\(index)]"
                guard blob.pack < limits.count else {
                    throw ManifestError(
                        path: path + "[0]",
                        reason: "pack \(blob.pack) does not exist; “packs” has \(limits.count)",
                        remedy: "count packs from 0"
                    )
                }
                guard blob.range.upperBound <= limits[Int(blob.pack)] else {
                    throw ManifestError(
                        path: path,
                        reason: "the blob ends at byte \(blob.range.upperBound), and pack \(blob.pack) has "
                            + "\(limits[Int(blob.pack)])",
                        remedy: "correct the offset, the length or the pack's size"
                    )
                }
            }
        }
    }

    /// Patterns that begin with a wildcard are tried on every path: too many of them would take hours (V53).
    private static func checkPatterns(
        _ files: FileTable,
        _ groups: [Manifest.Group],
        limit: Int
    ) throws(ManifestError) {
        var tries = 0
        for (index, group) in groups.enumerated() {
            for (number, pattern) in group.include.enumerated() {
                tries += files.rows(below: Glob(pattern).literalPrefix).count
                guard tries <= limit else {
                    throw ManifestError(
                        path: "$.groups[\(index)].include[\(number)]",
                        reason: "the patterns would be tried on more than \(limit) paths",
                        remedy: "begin patterns with a directory, or use “group” in the files"
                    )
                }
            }
        }
    }
}
