import SyncModel

extension ManifestAssembly {
    /// Refuses paths that are one path after Unicode normalisation, and paths that are a directory of another
    /// then: some file systems keep only one of them.
    ///
    /// Swift's strings are equal, and hash alike, exactly when they are canonically equivalent. So only paths
    /// with equal hashes are compared as text.
    func checkNormalisation() throws(ManifestError) {
        for pair in Self.collisions(in: files, all: Self.hasSingletons(files), form: { $0 }) {
            if pair.isDirectory { throw directory(pair.first, above: pair.second) }
            throw repeated(pair.second, pair.first, "is, after Unicode normalisation, the same as")
        }
    }

    /// Finds rows whose paths are equal in another form without being the same bytes, each with the first that it
    /// collides with. The form is that of one component; Swift's string equality normalises it.
    ///
    /// - Parameter all: Whether paths of ASCII alone take part.
    /// - Complexity: O(*n*) for *n* bytes of paths.
    static func collisions(in files: FileTable, all: Bool, form: (String) -> String) -> [PathCollision] {
        var rows: [Int: Int] = [:]
        var result: [PathCollision] = []
        func forEachPrefix(_ body: (_ row: Int, _ length: Int, _ hash: Int, _ isWhole: Bool) -> Void) {
            for row in files.indices where all || files.withPath(row, isWide) {
                files.withPath(row) { path in
                    Self.forEachPrefix(of: path, form) { length, hash in body(row, length, hash, length == path.count) }
                }
            }
        }
        func isSame(_ row: Int, _ length: Int, as other: Int) -> Bool {
            text(files, row, length, form) == text(files, other, nil, form)
        }
        forEachPrefix { row, length, hash, isWhole in
            guard isWhole else { return }
            guard let first = rows[hash] else { return rows[hash] = row }
            if isSame(row, length, as: first) { result.append((first, row, false)) }
        }
        var found: Set<Int> = []
        forEachPrefix { row, length, hash, isWhole in
            guard !isWhole, let file = rows[hash], !found.contains(file), isSame(row, length, as: file) else { return }
            found.insert(file)
            result.append((file, row, true))
        }
        return result
    }

    /// Calls `body` with the length in **bytes**, and a hash, of every directory above a path and of the path
    /// itself. `/` takes part in no normalisation, so components are hashed one by one.
    private static func forEachPrefix(
        of path: UnsafeBufferPointer<UInt8>, _ form: (String) -> String, _ body: (_ length: Int, _ hash: Int) -> Void
    ) {
        var hash = 0
        var start = 0
        for end in 0...path.count where end == path.count || path[end] == 0x2F {
            var hasher = Hasher()
            hasher.combine(hash)
            hasher.combine(form(String(decoding: path[start..<end], as: UTF8.self)))
            hash = hasher.finalize()
            body(end, hash)
            start = end + 1
        }
    }

    private static func text(_ files: FileTable, _ row: Int, _ length: Int?, _ form: (String) -> String) -> [String] {
        files.withPath(row) { path in
            path.prefix(length ?? path.count).split(separator: 0x2F).map { form(String(decoding: $0, as: UTF8.self)) }
        }
    }

    private static func isWide(_ path: UnsafeBufferPointer<UInt8>) -> Bool { path.contains { $0 >= 0x80 } }

    /// Whether some path has one of the three characters that normalise to ASCII: Greek question mark, Greek
    /// varia, Kelvin sign. Only then can a path outside ASCII equal one inside. UnicodeData.txt.
    private static func hasSingletons(_ files: FileTable) -> Bool {
        files.arena.withUnsafeBufferPointer { arena in
            files.indices.contains { row in
                let path = files.path(row, in: arena)
                return path.indices.dropLast().contains { index in
                    switch path[index] {
                    case 0xCD: path[index + 1] == 0xBE
                    case 0xE1: index + 2 < path.count && path[index + 1] == 0xBF && path[index + 2] == 0xAF
                    case 0xE2: index + 2 < path.count && path[index + 1] == 0x84 && path[index + 2] == 0xAA
                    default: false
                    }
                }
            }
        }
    }
}

/// Two paths of a manifest that one file system keeps apart and another does not: their rows in ``FileTable``, and
/// whether the first would be a directory of the second.
package typealias PathCollision = (first: Int, second: Int, isDirectory: Bool)

extension Manifest {
    /// Paths that are one path where case is folded, such as `Read.me` and `README` on macOS, Windows or an ext4
    /// directory with the casefold flag. They are real on Linux; refuse them only where the destination
    /// folds case.
    ///
    /// - Returns: Pairs of rows of ``allPaths``, each later one with the first it collides with; empty when the set is
    ///   safe.
    package func caseCollisions() -> [PathCollision] {
        let all = allPaths
        return ManifestAssembly.collisions(in: all, all: true, form: caseFolded).filter { pair in
            all.isConflict(pair) && !(all.kind(pair.first) == .directory && all.kind(pair.second) == .directory)
        }
    }
}
