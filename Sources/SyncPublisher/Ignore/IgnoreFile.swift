/// A file of patterns to leave out, as in gitignore(5).
struct IgnoreFile: Sendable {
    /// The name of such files in a tree.
    static let name = ".syncignore"

    /// Largest file, in **bytes**.
    static let maximumSize = 1 << 20
    /// Longest pattern, in **bytes**: twice the longest path.
    private static let longestPattern = 8 << 10

    private var patterns: [IgnorePattern] = []
    /// **Bytes** of the directory's path, with its `/`, that patterns do not see.
    private let base: Int

    /// A line too long to be a pattern; counted from 1.
    struct LongLine: Error { let number: Int }

    /// - Parameter directory: Of the file, relative to the tree; empty at its top, and for a file from elsewhere.
    init(_ text: some Collection<UInt8>, directory: [UInt8] = []) throws(LongLine) {
        base = directory.isEmpty ? 0 : directory.count + 1
        // A byte order mark is no part of the first pattern.
        let rest = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text.dropFirst(0)
        for (index, line) in rest.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
            guard line.count <= Self.longestPattern else { throw LongLine(number: index + 1) }
            if let pattern = IgnorePattern(line: Array(line)) { patterns.append(pattern) }
        }
    }

    /// The verdict of the last matching pattern: `true` to leave it out, `false` to keep it; `nil` without a match.
    ///
    /// - Parameter path: Relative to the tree, and below this file's directory.
    func verdict(on path: UnsafeBufferPointer<UInt8>, isDirectory: Bool) -> Bool? {
        let seen = UnsafeBufferPointer(rebasing: path[base...])
        let name = UnsafeBufferPointer(rebasing: path[((path.lastIndex(of: 0x2F) ?? -1) + 1)...])
        let decisive = patterns.last { pattern in
            (isDirectory || !pattern.wantsDirectory) && pattern.matches(path: seen, name: name)
        }
        return decisive.map { !$0.isNegated }
    }
}

private struct IgnorePattern {
    /// Whether it includes again what an earlier one has excluded.
    let isNegated: Bool
    let wantsDirectory: Bool
    /// Whether it matches the whole path rather than a name at any depth.
    private let isOfPath: Bool
    private let text: [UInt8]
    /// **Bytes** before the first wildcard.
    private let literal: Int
    /// Whether it is `*` followed by literal text.
    private let isEnding: Bool

    /// - Returns: `nil` for an empty line and a comment.
    init?(line: [UInt8]) {
        guard line.first != 0x23, let text = Self.withoutTrailingBlanks(line) else { return nil }
        var rest = text[...]
        isNegated = rest.first == 0x21
        if isNegated { rest = rest.dropFirst() }
        wantsDirectory = rest.last == 0x2F
        if wantsDirectory { rest = rest.dropLast() }
        isOfPath = rest.contains(0x2F)
        if rest.first == 0x2F { rest = rest.dropFirst() }
        guard !rest.isEmpty else { return nil }
        self.text = Array(rest)
        literal = rest.prefix { !Self.isSpecial($0) }.count
        isEnding = rest.first == 0x2A && !rest.dropFirst().contains(where: Self.isSpecial)
    }

    private static func isSpecial(_ byte: UInt8) -> Bool { [0x2A, 0x3F, 0x5B, 0x5C].contains(byte) }

    /// Removes blanks at the end, unless the first is escaped by a backslash.
    private static func withoutTrailingBlanks(_ line: [UInt8]) -> [UInt8]? {
        var line = line[...]
        if line.last == 0x0D { line = line.dropLast() }
        var (index, blanks) = (0, -1)
        while index < line.count {
            if line[index] == 0x20 {
                if blanks < 0 { blanks = index }
            } else {
                if line[index] == 0x5C { index += 1 }
                blanks = -1
            }
            index += 1
        }
        let text = blanks < 0 ? line : line[..<blanks]
        return text.isEmpty || text.contains(0) ? nil : Array(text)
    }

    func matches(path: UnsafeBufferPointer<UInt8>, name: UnsafeBufferPointer<UInt8>) -> Bool {
        let subject = isOfPath ? path : name
        if literal == text.count { return subject.elementsEqual(text) }
        if !isOfPath, isEnding {
            return subject.count >= text.count - 1
                && subject.suffix(text.count - 1).elementsEqual(text.dropFirst())
        }
        // The literal part is compared first, and the rest is matched as a pattern of its own, as in git.
        let start = isOfPath ? literal : 0
        guard subject.count >= start, subject.prefix(start).elementsEqual(text[..<start]) else {
            return false
        }
        return WildMatch.matches(
            text[start...],
            UnsafeBufferPointer(rebasing: subject[start...]),
            isPath: isOfPath
        )
    }
}
