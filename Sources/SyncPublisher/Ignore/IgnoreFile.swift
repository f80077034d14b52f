/// A file of patterns to leave out, as in gitignore(5).
struct IgnoreFile: Sendable {
    /// The name of such files in a tree.
    static let name = ".syncignore"

    /// Largest file, in **bytes**.
    static let maximumSize = 1 << 20
    /// Longest pattern, in **bytes**: twice the longest path.
    private static let longestPattern = 8 << 10

    private var patterns: [IgnorePattern] = []
    /// The memory of its patterns, about, in **bytes**.
    private(set) var memory = 0
    /// **Bytes** of the directory's path, with its `/`, that patterns do not see.
    private let base: Int

    /// - Parameters:
    ///   - name: Of the file, for people.
    ///   - directory: Of the file, relative to the tree; empty at its top, and for a file from elsewhere.
    ///   - mostMemory: Most **bytes** that its patterns may take.
    init(_ text: some Collection<UInt8>, _ name: String, directory: [UInt8] = [], mostMemory: Int) throws(PublishError)
    {
        base = directory.isEmpty ? 0 : directory.count + 1
        // A byte order mark is no part of the first pattern.
        let rest = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text.dropFirst(0)
        for (index, line) in rest.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            guard line.count <= Self.longestPattern else {
                throw .invalid(
                    "\(name):\(index + 1): the pattern is longer than 8,192 bytes", "shorten it; no path is that long")
            }
            guard let pattern = IgnorePattern(line: Array(line)) else { continue }
            patterns.append(pattern)
            memory += pattern.memory
            guard memory <= mostMemory else {
                throw .invalid(
                    "\(name):\(index + 1): the patterns take too much memory, with those of the directories above",
                    "use fewer wildcards, or leave out whole directories by their names")
            }
        }
    }

    /// The verdict of the last matching pattern: `true` to leave it out, `false` to keep it; `nil` without a match.
    ///
    /// - Parameters:
    ///   - path: Relative to the tree, and below this file's directory.
    ///   - work: Is increased by the work done, as ``PatternBudget`` counts it.
    func verdict(on path: UnsafeBufferPointer<UInt8>, isDirectory: Bool, _ work: inout Int) -> Bool? {
        let seen = UnsafeBufferPointer(rebasing: path[base...])
        let name = UnsafeBufferPointer(rebasing: path[((path.lastIndex(of: 0x2F) ?? -1) + 1)...])
        for pattern in patterns.reversed() where isDirectory || !pattern.wantsDirectory {
            // Comparing literal text costs about as much as a machine does for a few bytes.
            work += 8 + pattern.cost * seen.count
            if pattern.matches(path: seen, name: name) { return !pattern.isNegated }
        }
        return nil
    }
}
