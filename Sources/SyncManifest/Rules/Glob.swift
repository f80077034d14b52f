/// A pattern that selects paths: `*` is any run of characters within a component, `?` is one character, and a
/// component `**` is any number of components. Every other character stands for itself; case counts.
///
/// `sheets/**` is everything below `sheets`; `**/*.pdf` is every PDF at any depth.
///
/// Its ``PatternMachine`` reads a path once, whatever the pattern looks like.
package struct Glob: Sendable {
    /// The path all matches begin with, up to the first component with a wildcard; no `/` at its end.
    package let literalPrefix: [UInt8]
    /// The rest of the pattern; `nil` when the pattern is a path.
    private let matcher: PatternMachine?

    /// Makes a glob from a pattern as the manifest has it.
    package init(_ pattern: String) {
        var components = pattern.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map(Array.init)
        let literal = components.prefix { !$0.contains(0x2A) && !$0.contains(0x3F) }
        literalPrefix = Array(literal.joined(separator: [0x2F]))
        components.removeFirst(literal.count)
        matcher = components.isEmpty ? nil : PatternMachine(Self.letters(components))
    }

    /// Whether a text has a wildcard.
    package static func isPattern(_ text: some StringProtocol) -> Bool {
        text.utf8.contains { $0 == 0x2A || $0 == 0x3F }
    }

    /// The work of matching one **byte** of a path; see ``PatternBudget``.
    package var cost: Int { matcher?.cost ?? 1 }

    private static func letters(_ components: [[UInt8]]) -> [PatternMachine.Letter] {
        var letters: [PatternMachine.Letter] = []
        for (index, component) in components.enumerated() {
            let isLast = index + 1 == components.count
            if component == [0x2A, 0x2A] {
                // The next component means the same.
                if isLast || components[index + 1] != component { letters.append(.depth) }
                continue
            }
            for byte in component {
                switch byte {
                case 0x2A: if case .run = letters.last {} else { letters.append(.run) }
                case 0x3F: letters.append(.character)
                default: letters.append(.byte(byte))
                }
            }
            if !isLast { letters.append(.byte(0x2F)) }
        }
        return letters
    }

    /// Whether the pattern matches the whole path.
    ///
    /// - Complexity: O(*n* · ⌈*m* / 64⌉) for a path of *n* bytes and a pattern of *m*.
    package func matches(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard path.starts(with: literalPrefix) else { return false }
        guard let matcher else { return path.count == literalPrefix.count }
        var start = literalPrefix.count
        if start > 0 {
            guard start < path.count, path[start] == 0x2F else { return false }
            start += 1
        }
        return matcher.matches(UnsafeBufferPointer(rebasing: path[start...]))
    }
}

/// Selects paths by patterns like those of groups. A pattern selects every path that it matches, and everything below a
/// directory that it matches.
package struct PathFilter: Sendable {
    private let include: [Glob]
    private let exclude: [Glob]

    /// - Parameters:
    ///   - include: Patterns of the wanted paths; all paths when there are none. One `/` at the end of a pattern is
    ///     left out.
    ///   - exclude: Patterns of paths among these that are not wanted.
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
