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
}
