/// Which paths somebody wants, by patterns of groups. A pattern stands for what it matches, and for all that is below a
/// directory that it matches.
package struct PathFilter: Sendable {
    private let include: [Glob]
    private let exclude: [Glob]

    /// - Parameters:
    ///   - include: What is wanted; all when there is none. One `/` at the end of a pattern is left out.
    ///   - exclude: What is not, of that.
    package init(include: [String], exclude: [String]) {
        func globs(_ patterns: [String]) -> [Glob] {
            patterns.map { Glob($0.hasSuffix("/") ? String($0.dropLast()) : $0) }
        }
        (self.include, self.exclude) = (globs(include), globs(exclude))
    }

    package func wants(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        (include.isEmpty || Self.matches(include, path)) && !Self.matches(exclude, path)
    }

    private static func matches(_ globs: [Glob], _ path: UnsafeBufferPointer<UInt8>) -> Bool {
        globs.contains { glob in
            if glob.matches(path) { return true }
            return path.indices.contains { index in
                path[index] == 0x2F && glob.matches(UnsafeBufferPointer(rebasing: path[..<index]))
            }
        }
    }
}
