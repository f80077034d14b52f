import SyncModel

extension TableChecks {
    /// Refuses paths that are one path after Unicode normalisation, and paths that are a directory of another
    /// then (V13): some file systems keep only one of them.
    ///
    /// Swift's strings are equal, and hash alike, exactly when they are canonically equivalent. So hashes are
    /// sorted, and only neighbours with equal hashes are compared as text.
    static func checkNormalisation(_ files: FileTable, _ entry: (Int) -> Int) throws(ManifestError) {
        for pair in collisions(in: files, all: hasSingletons(files), form: { $0 }) {
            if pair.isDirectory {
                throw directory(files, entry(pair.first), pair.first, entry(pair.second))
            }
            throw repeated(
                files,
                entry(pair.second),
                pair.second,
                entry(pair.first),
                "is, after Unicode normalisation, the same as"
            )
        }
    }

    /// Two rows that a file system could take for one path, or a row that is a directory of another there.
    struct Collision {
        var first: Int
        var second: Int
        /// Whether the first is a directory of the second.
        var isDirectory: Bool
    }

    /// Finds rows whose paths are equal in another form without being the same bytes.
    ///
    /// - Parameters:
    ///   - all: Whether paths of ASCII alone take part.
    ///   - form: The form that counts; Swift's string equality normalises it.
    static func collisions(in files: FileTable, all: Bool, form: (String) -> String) -> [Collision] {
        struct Key {
            var hash: Int
            var row: UInt32
            /// **Bytes** of the path that are meant: all of them, or those of a directory above it.
            var length: UInt16
            var isWhole: Bool
        }
        var keys: [Key] = []
        var previous: [UInt8] = []
        for row in files.indices {
            let path = files.withPath(row) { [UInt8]($0) }
            guard all || path.contains(where: { $0 >= 0x80 }) else { continue }
            let shared = zip(path, previous).prefix { $0 == $1 }.count
            for index in path.indices where path[index] == 0x2F && index >= shared {
                let text = form(String(decoding: path[..<index], as: UTF8.self))
                keys.append(
                    Key(hash: text.hashValue, row: UInt32(row), length: UInt16(index), isWhole: false)
                )
            }
            let text = form(String(decoding: path, as: UTF8.self))
            keys.append(
                Key(hash: text.hashValue, row: UInt32(row), length: UInt16(path.count), isWhole: true)
            )
            previous = path
        }
        keys.sort { ($0.hash, $0.row, $0.length) < ($1.hash, $1.row, $1.length) }

        func text(_ key: Key) -> String {
            form(files.withPath(Int(key.row)) { String(decoding: $0.prefix(Int(key.length)), as: UTF8.self) })
        }
        var result: [Collision] = []
        var start = 0
        while start < keys.count {
            var end = start + 1
            while end < keys.count, keys[end].hash == keys[start].hash { end += 1 }
            // A file and what equals it: the first file of a run stands for all.
            let run = keys[start..<end]
            if run.count > 1, let whole = run.first(where: \.isWhole) {
                for other in run where other.row != whole.row && text(other) == text(whole) {
                    result.append(
                        Collision(first: Int(whole.row), second: Int(other.row), isDirectory: !other.isWhole)
                    )
                }
            }
            start = end
        }
        return result
    }

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
