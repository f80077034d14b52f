import SyncModel

/// A pattern as a machine whose states are bits: a text is read once, without backtracking, for any pattern (R.
/// Baeza-Yates and G. Gonnet, "A New Approach to Text Searching", CACM 35(10), 1992).
///
/// State *i* waits for the *i*-th letter, the last one is a match. ``Glob`` and the patterns of `.syncignore` are made
/// into its letters.
package final class PatternMachine: Sendable {
    package enum Letter: Sendable {
        case byte(UInt8)
        /// One character of UTF-8, except `/`.
        case character
        /// One byte of these.
        case set(Set<UInt8>)
        /// Any run of bytes without `/`, or nothing.
        case run
        /// Any number of components, each with its `/`, or none; at the end of a pattern at least one byte.
        case depth
        /// Any bytes, or none.
        case anything
    }

    /// The number of words, each with 64 states.
    private let words: Int
    /// For every byte, in `words` words, the states that it moves to the next one.
    private let steps: [UInt64]
    /// States that any byte but `/` keeps.
    private let runs: [UInt64]
    /// States that every byte keeps.
    private let kept: [UInt64]
    /// States that can be left without a byte: those of ``Letter/run`` and ``Letter/anything``.
    private let free: [UInt64]
    /// States that can be left without a byte where a component begins.
    private let depths: [UInt64]
    /// States that the rest of a character keeps: behind ``Letter/character``. UTF-8 continuation bytes, RFC 3629
    /// section 3.
    private let characters: [UInt64]
    private let last: Int
    /// Whether the pattern ends in ``Letter/depth``.
    private let isOpen: Bool
    /// The bytes that every match ends with.
    private let suffix: [UInt8]

    /// The work of reading one **byte** of a text: 1 for each 64 states, about **1 ns** and **2 KiB** of memory each.
    package var cost: Int { words }

    /// - Parameter letters: Among ``Letter/run``, ``Letter/depth`` and ``Letter/anything`` there are no two equal ones
    ///   in a row, and behind ``Letter/depth`` there is at most one of the others.
    package init(_ letters: [Letter]) {
        let words = letters.count / 64 + 1
        let none = [UInt64](repeating: 0, count: words)
        var (runs, kept, free, depths, characters) = (none, none, none, none, none)
        var steps = [UInt64](repeating: 0, count: 256 * words)
        var suffix: [UInt8] = []
        for (state, letter) in letters.enumerated() {
            let (word, bit) = (state / 64, UInt64(1) << UInt64(state % 64))
            if case .byte(let byte) = letter { suffix.append(byte) } else { suffix = [] }
            switch letter {
            case .byte(let byte): steps[Int(byte) * words + word] |= bit
            case .set(let bytes): for byte in bytes { steps[Int(byte) * words + word] |= bit }
            case .run:
                runs[word] |= bit
                free[word] |= bit
            case .depth:
                kept[word] |= bit
                depths[word] |= bit
            case .anything:
                kept[word] |= bit
                free[word] |= bit
            case .character:
                for byte in 0..<256 where byte != 0x2F && byte & 0xC0 != 0x80 { steps[byte * words + word] |= bit }
                characters[(state + 1) / 64] |= 1 << UInt64((state + 1) % 64)
            }
        }
        if case .depth = letters.last { isOpen = true } else { isOpen = false }
        (self.steps, self.runs, self.kept, self.free, self.depths) = (steps, runs, kept, free, depths)
        (self.characters, self.words, self.suffix, last) = (characters, words, suffix, letters.count)
    }

    /// Whether the pattern matches the whole text.
    package func matches(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count >= suffix.count, text.suffix(suffix.count).elementsEqual(suffix) else { return false }
        return words == 1 ? matchesInOneWord(text) : matchesInWords(text)
    }

    private func matchesInOneWord(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let (runs, kept, free, depths, characters) = (runs[0], kept[0], free[0], depths[0], characters[0])
        let open = isOpen ? UInt64(1) << UInt64(last - 1) : 0
        return steps.withUnsafeBufferPointer { steps in
            var active: UInt64 = 1
            active |= (active & depths) << 1
            active |= (active & free) << 1
            for byte in text {
                // At the end of a pattern, at least one component must be left for ``Letter/depth``.
                if active & open != 0 { return true }
                var next = (active & steps[Int(byte)]) << 1 | active & kept
                if byte == 0x2F {
                    next |= (next & depths) << 1
                } else {
                    next |= active & runs
                    if byte & 0xC0 == 0x80 { next |= active & characters }
                }
                active = next | (next & free) << 1
                if active == 0 { return false }
            }
            return !isOpen && active >> UInt64(last) & 1 == 1
        }
    }

    private func matchesInWords(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var active = [UInt64](repeating: 0, count: words)
        active[0] = 1
        pass(&active, depths)
        pass(&active, free)
        for byte in text {
            if isOpen, isActive(last - 1, active) { return true }
            var (carry, any): (UInt64, UInt64) = (0, 0)
            let keptByCharacters = byte & 0xC0 == 0x80
            for word in 0..<words {
                let taken = active[word] & steps[Int(byte) * words + word]
                var next = taken << 1 | carry | active[word] & kept[word]
                carry = taken >> 63
                if byte != 0x2F { next |= active[word] & runs[word] }
                if keptByCharacters { next |= active[word] & characters[word] }
                active[word] = next
                any |= next
            }
            if any == 0 { return false }
            if byte == 0x2F { pass(&active, depths) }
            pass(&active, free)
        }
        return !isOpen && isActive(last, active)
    }

    private func isActive(_ state: Int, _ active: [UInt64]) -> Bool {
        active[state / 64] >> UInt64(state % 64) & 1 == 1
    }

    /// Activates the states behind letters that may match nothing; no two such letters follow each other.
    private func pass(_ active: inout [UInt64], _ letters: [UInt64]) {
        var carry: UInt64 = 0
        for word in 0..<words {
            let passed = active[word] & letters[word]
            active[word] |= passed << 1 | carry
            carry = passed >> 63
        }
    }
}

/// A limit on the work of matching patterns, so that their author cannot keep others busy for hours.
package struct PatternBudget: Sendable {
    private let limits: ManifestLimits
    private var tries = 0
    /// **Bytes** of texts, where a pattern counts once for each 64 bytes of its own: about **1 ns** each.
    package private(set) var bytes = 0
    /// **Bytes** besides what the limits give.
    private var allowance = 0

    package init(_ limits: ManifestLimits = .standard) { self.limits = limits }

    /// Counts the paths that one pattern of a group is tried on.
    ///
    /// - Parameter pathBytes: The **bytes** of these paths together; not asked for where there are too many of them.
    /// - Returns: Why that is too much; `nil` if it is not.
    package mutating func spend(_ glob: Glob, paths: Int, pathBytes: () -> Int) -> String? {
        tries += paths
        guard tries <= limits.patternMatches else {
            return "the patterns would be tried on more than \(limits.patternMatches) paths"
        }
        // Making the machine of a pattern counts, too.
        return spend((pathBytes() + 256) * glob.cost)
    }

    /// Raises the limit by so many **bytes**: a set that takes long because it is large is no attack.
    package mutating func allow(_ count: Int) { allowance = allowance.saturatingAdd(count) }

    /// Counts **bytes**; returns why that is too much, or `nil`.
    package mutating func spend(_ count: Int) -> String? {
        bytes += count
        let most = limits.patternBytes.saturatingAdd(allowance)
        guard bytes > most else { return nil }
        return "the patterns would be tried on more than \(most) bytes of paths"
    }
}
