/// A pattern that selects paths: `*` is any run of characters within a component, `?` is one character, and a
/// component `**` is any number of components. Every other character stands for itself; case counts.
///
/// `sheets/**` is everything below `sheets`; `**/*.pdf` is every PDF at any depth.
///
/// A pattern is a machine whose states are bits: a path is read once, whatever the pattern looks like, and nothing is
/// ever tried again (R. Baeza-Yates and G. Gonnet, "A New Approach to Text Searching", CACM 35(10), 1992).
package struct Glob: Sendable {
    /// The path all matches begin with, up to the first component with a wildcard; no `/` at its end.
    let literalPrefix: [UInt8]
    /// What follows it; `nil` when the pattern is a path.
    private let matcher: Matcher?

    /// Takes a pattern as the manifest has it.
    package init(_ pattern: String) {
        var components = pattern.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map(Array.init)
        let literal = components.prefix { !$0.contains(0x2A) && !$0.contains(0x3F) }
        literalPrefix = Array(literal.joined(separator: [0x2F]))
        components.removeFirst(literal.count)
        matcher = components.isEmpty ? nil : Matcher(components)
    }

    /// Whether a text has anything that does not stand for itself.
    package static func isPattern(_ text: some StringProtocol) -> Bool {
        text.utf8.contains { $0 == 0x2A || $0 == 0x3F }
    }

    /// What looking at one **byte** of a path takes: 1 for each 64 states of the pattern, about **1 ns** each.
    var cost: Int { matcher?.words ?? 1 }

    /// Whether the whole path is meant.
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

/// The states of a pattern: state *i* waits for its *i*-th letter, the last one is a match.
private final class Matcher: Sendable {
    /// 64 states each.
    let words: Int
    /// For every byte the states that it takes to the next: `words` of them, then those of the next byte.
    private let steps: [UInt64]
    /// States that any byte but `/` keeps: `*`.
    private let runs: [UInt64]
    /// States that every byte keeps: `**`.
    private let depths: [UInt64]
    /// States that the rest of a character keeps: behind `?`. UTF-8 continuation bytes, RFC 3629 section 3.
    private let characters: [UInt64]
    private let last: Int
    /// Whether the pattern ends in `**`.
    private let isOpen: Bool
    /// What every match ends with.
    private let suffix: [UInt8]

    private enum Letter {
        case byte(UInt8)
        case character, run, depth
    }

    init(_ components: [[UInt8]]) {
        var letters: [Letter] = []
        var suffix: [UInt8] = []
        var isOpen = false
        func add(_ letter: Letter) {
            letters.append(letter)
            if case .byte(let byte) = letter { suffix.append(byte) } else { suffix = [] }
        }
        for (index, component) in components.enumerated() {
            let isLast = index + 1 == components.count
            if component == [0x2A, 0x2A] {
                // The next one says it, too.
                if !isLast, components[index + 1] == component { continue }
                add(.depth)
                isOpen = isLast
                continue
            }
            for byte in component {
                switch byte {
                case 0x2A: if case .run = letters.last {} else { add(.run) }
                case 0x3F: add(.character)
                default: add(.byte(byte))
                }
            }
            if !isLast { add(.byte(0x2F)) }
        }
        let words = letters.count / 64 + 1
        let none = [UInt64](repeating: 0, count: words)
        var (runs, depths, characters) = (none, none, none)
        var steps = [UInt64](repeating: 0, count: 256 * words)
        for (state, letter) in letters.enumerated() {
            let (word, bit) = (state / 64, UInt64(1) << UInt64(state % 64))
            switch letter {
            case .byte(let byte): steps[Int(byte) * words + word] |= bit
            case .run: runs[word] |= bit
            case .depth: depths[word] |= bit
            case .character:
                for byte in 0..<256 where byte != 0x2F && byte & 0xC0 != 0x80 {
                    steps[byte * words + word] |= bit
                }
                characters[(state + 1) / 64] |= 1 << UInt64((state + 1) % 64)
            }
        }
        (self.steps, self.runs, self.depths, self.characters) = (steps, runs, depths, characters)
        (self.words, self.suffix, self.isOpen, last) = (words, suffix, isOpen, letters.count)
    }

    func matches(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard path.count >= suffix.count, path.suffix(suffix.count).elementsEqual(suffix) else {
            return false
        }
        return words == 1 ? matchesInOneWord(path) : matchesInWords(path)
    }

    private func matchesInOneWord(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        let (runs, depths, characters) = (runs[0], depths[0], characters[0])
        let open = isOpen ? UInt64(1) << UInt64(last - 1) : 0
        return steps.withUnsafeBufferPointer { steps in
            var active: UInt64 = 1
            active |= (active & depths) << 1
            active |= (active & runs) << 1
            for byte in path {
                // At the end of a pattern, at least one component must be left for `**`.
                if active & open != 0 { return true }
                var next = (active & steps[Int(byte)]) << 1 | active & depths
                if byte == 0x2F {
                    next |= (next & depths) << 1
                } else {
                    next |= active & runs
                    if byte & 0xC0 == 0x80 { next |= active & characters }
                }
                active = next | (next & runs) << 1
                if active == 0 { return false }
            }
            return !isOpen && active >> UInt64(last) & 1 == 1
        }
    }

    private func matchesInWords(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        var active = [UInt64](repeating: 0, count: words)
        active[0] = 1
        pass(&active, depths)
        pass(&active, runs)
        for byte in path {
            if isOpen, isActive(last - 1, active) { return true }
            var (carry, any): (UInt64, UInt64) = (0, 0)
            let keptByCharacters = byte & 0xC0 == 0x80
            for word in 0..<words {
                let taken = active[word] & steps[Int(byte) * words + word]
                var next = taken << 1 | carry | active[word] & depths[word]
                carry = taken >> 63
                if byte != 0x2F { next |= active[word] & runs[word] }
                if keptByCharacters { next |= active[word] & characters[word] }
                active[word] = next
                any |= next
            }
            if any == 0 { return false }
            if byte == 0x2F { pass(&active, depths) }
            pass(&active, runs)
        }
        return !isOpen && isActive(last, active)
    }

    private func isActive(_ state: Int, _ active: [UInt64]) -> Bool {
        active[state / 64] >> UInt64(state % 64) & 1 == 1
    }

    /// Lets what may stand for nothing stand for nothing; no two such letters follow each other.
    private func pass(_ active: inout [UInt64], _ letters: [UInt64]) {
        var carry: UInt64 = 0
        for word in 0..<words {
            let passed = active[word] & letters[word]
            active[word] |= passed << 1 | carry
            carry = passed >> 63
        }
    }
}

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
