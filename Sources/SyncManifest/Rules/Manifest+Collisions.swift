/// Two paths of a manifest that one file system keeps apart and another does not.
package struct PathCollision: Sendable, Equatable {
    /// The row in ``FileTable``.
    package let first: Int
    /// The row in ``FileTable``.
    package let second: Int
    /// Whether the first would be a directory of the second.
    package let isDirectory: Bool

    package init(first: Int, second: Int, isDirectory: Bool) {
        self.first = first
        self.second = second
        self.isDirectory = isDirectory
    }
}

extension Manifest {
    /// Paths that are one path where case is folded, such as `Read.me` and `README` on macOS, Windows or an ext4
    /// directory with the casefold flag (V13). They are real on Linux; refuse them only where the destination
    /// folds case.
    ///
    /// - Returns: Pairs of rows, each later one with the first it collides with; empty when the set is safe.
    package func caseCollisions() -> [PathCollision] {
        TableChecks.collisions(in: files, all: true, form: caseFolded).map {
            PathCollision(first: $0.first, second: $0.second, isDirectory: $0.isDirectory)
        }
    }

    /// Rows whose names Windows cannot hold, with the reason (V14): device names, a dot or space at the end, and
    /// characters that mean something there. They are real on Linux; `publish` warns of them.
    package func unportablePaths() -> [(row: Int, reason: String)] {
        files.indices.compactMap { row in
            files.withPath(row) { path in
                path.split(separator: 0x2F).lazy.compactMap(Self.portabilityProblem).first
            }.map { (row, $0) }
        }
    }

    private static func portabilityProblem(_ component: Slice<UnsafeBufferPointer<UInt8>>) -> String? {
        if let last = component.last, last == 0x2E || last == 0x20 {
            return "the component \(quoted(component)) ends in a dot or a space"
        }
        if component.contains(where: { [0x22, 0x2A, 0x3A, 0x3C, 0x3E, 0x3F, 0x5C, 0x7C].contains($0) }) {
            return "the component \(quoted(component)) has one of \" * : < > ? \\ |"
        }
        let stem = component.prefix { $0 != 0x2E }
        guard (3...4).contains(stem.count) else { return nil }
        let name = String(decoding: stem, as: UTF8.self).uppercased()
        let digits = name.hasPrefix("COM") || name.hasPrefix("LPT") ? name.dropFirst(3) : ""
        let isDevice =
            ["CON", "PRN", "AUX", "NUL"].contains(name) || ("1"..."9").contains(digits) && digits.count == 1
        return isDevice ? "the component \(quoted(component)) is a device name of Windows" : nil
    }
}
