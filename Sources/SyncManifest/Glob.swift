/// A pattern that selects paths: `*` is any run of characters within a component, `?` is one character, and a
/// component `**` is any number of components. Every other character stands for itself; case counts.
///
/// `sheets/**` is everything below `sheets`; `**/*.pdf` is every PDF at any depth.
package struct Glob: Sendable {
    private let components: [[UInt8]]

    /// Takes a pattern as the manifest has it.
    package init(_ pattern: String) {
        components = pattern.utf8.split(separator: 0x2F, omittingEmptySubsequences: false).map(Array.init)
    }

    /// The path all matches begin with, up to the first component with a wildcard; no `/` at its end.
    var literalPrefix: [UInt8] {
        let literal = components.prefix { !$0.contains(0x2A) && !$0.contains(0x3F) }
        return Array(literal.joined(separator: [0x2F]))
    }

    /// Whether the whole path is meant.
    ///
    /// - Complexity: O(*n* · *m*) for a path of *n* bytes and a pattern of *m*; nothing is exponential.
    package func matches(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        let parts = path.split(separator: 0x2F, omittingEmptySubsequences: false)
        var part = 0
        var component = 0
        /// Where to go on when a component fails: behind the last `**`, which takes one more component.
        var retry: (component: Int, part: Int)?
        while part < parts.count {
            if component < components.count {
                if components[component] == Self.anyDepth {
                    component += 1
                    // At the end of a pattern, at least one component must be left for it.
                    if component == components.count { return true }
                    retry = (component, part)
                    continue
                }
                if Self.matches(parts[part], components[component][...]) {
                    part += 1
                    component += 1
                    continue
                }
            }
            guard let last = retry else { return false }
            retry = (last.component, last.part + 1)
            (component, part) = (last.component, last.part + 1)
        }
        return component == components.count
    }

    private static let anyDepth: [UInt8] = [0x2A, 0x2A]

    /// Matches within one component, going back to the last `*` alone.
    private static func matches(_ name: Slice<UnsafeBufferPointer<UInt8>>, _ pattern: ArraySlice<UInt8>)
        -> Bool
    {
        var position = name.startIndex
        var letter = pattern.startIndex
        var retry: (letter: Int, position: Int)?
        while position < name.endIndex {
            if letter < pattern.endIndex {
                switch pattern[letter] {
                case 0x2A:
                    letter += 1
                    retry = (letter, position)
                    continue
                case 0x3F:
                    letter += 1
                    position += 1
                    while position < name.endIndex, name[position] & 0xC0 == 0x80 { position += 1 }
                    continue
                case name[position]:
                    letter += 1
                    position += 1
                    continue
                default: break
                }
            }
            guard let last = retry else { return false }
            retry = (last.letter, last.position + 1)
            (letter, position) = (last.letter, last.position + 1)
        }
        return pattern[letter...].allSatisfy { $0 == 0x2A }
    }
}
