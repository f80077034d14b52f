import SyncManifest

/// One line of gitignore(5): `*`, `?`, `[a-z]`, `[[:alpha:]]`, `\` and `**`.
///
/// Follows git letter by letter, also where its manual is silent: git's dir.c, and wildmatch.c, which comes from
/// rsync's.
struct IgnorePattern: Sendable {
    /// Whether it includes again what an earlier pattern has excluded.
    let isNegated: Bool
    let wantsDirectory: Bool
    /// Whether it matches the whole path rather than a name at any depth.
    private let isOfPath: Bool
    /// The text that a match begins with, up to the first wildcard; for ``Kind/ending``, the text that it ends with.
    private let literal: [UInt8]
    private let kind: Kind

    private enum Kind {
        case literal
        /// `*` and then ``literal``.
        case ending
        /// ``literal``, and then what the machine matches.
        case machine(PatternMachine)
        /// No match is possible, such as for an unterminated set.
        case nothing
    }

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
        if !isOfPath, rest.first == 0x2A, !rest.dropFirst().contains(where: Self.isSpecial) {
            (literal, kind) = (Array(rest.dropFirst()), .ending)
            return
        }
        // The literal part is compared first, and the rest is matched as a pattern of its own, as in git.
        literal = Array(rest.prefix { !Self.isSpecial($0) })
        rest = rest.dropFirst(literal.count)
        guard !rest.isEmpty else {
            kind = .literal
            return
        }
        var letters = IgnoreLetters(Array(rest), isPath: isOfPath)
        kind = letters.all().map { .machine(PatternMachine($0)) } ?? .nothing
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

    /// The work of matching one **byte** of a path; 0 where no machine is needed.
    var cost: Int { if case .machine(let machine) = kind { machine.cost } else { 0 } }

    /// The memory of the pattern, about, in **bytes**.
    var memory: Int { 128 + literal.count + cost * 2_048 }

    func matches(path: UnsafeBufferPointer<UInt8>, name: UnsafeBufferPointer<UInt8>) -> Bool {
        let subject = isOfPath ? path : name
        guard subject.count >= literal.count else { return false }
        switch kind {
        case .literal: return subject.elementsEqual(literal)
        case .ending: return subject.suffix(literal.count).elementsEqual(literal)
        case .machine(let machine):
            return subject.starts(with: literal)
                && machine.matches(UnsafeBufferPointer(rebasing: subject[literal.count...]))
        case .nothing: return false
        }
    }
}

/// Makes the letters of a ``PatternMachine`` from a pattern of gitignore(5).
private struct IgnoreLetters {
    private let pattern: [UInt8]
    /// Whether `/` is special: only `**` matches it. Names have none.
    private let isPath: Bool
    private var place = 0
    private var letters: [PatternMachine.Letter] = []

    private static let slash: UInt8 = 0x2F
    private static let anyButSlash = Set((UInt8.min...UInt8.max).filter { $0 != slash })

    init(_ pattern: [UInt8], isPath: Bool) { (self.pattern, self.isPath) = (pattern, isPath) }

    /// 0 after the end; patterns contain no 0.
    private func byte(_ index: Int) -> UInt8 { pattern.indices.contains(index) ? pattern[index] : 0 }

    /// - Returns: `nil` for a pattern that matches nothing.
    mutating func all() -> [PatternMachine.Letter]? {
        while place < pattern.count {
            switch byte(place) {
            case 0x5C:
                place += 1
                guard place < pattern.count else { return nil }
                letters.append(.byte(byte(place)))
            case 0x3F: letters.append(.set(Self.anyButSlash))
            case 0x5B:
                guard let members = set() else { return nil }
                letters.append(.set(members.subtracting([Self.slash])))
            case 0x2A:
                star()
                continue
            default: letters.append(.byte(byte(place)))
            }
            place += 1
        }
        return letters
    }

    /// Two or more asterisks that are a whole component match any number of components; others count as one asterisk.
    private mutating func star() {
        let first = place
        while byte(place) == 0x2A { place += 1 }
        guard isPath, place > first + 1, first == 0 || byte(first - 1) == Self.slash else {
            return letters.append(.run)
        }
        switch byte(place) {
        case 0: letters.append(.anything)
        case Self.slash where place + 1 < pattern.count:
            place += 1
            // The letter before means the same.
            if case .depth = letters.last { return }
            letters.append(.depth)
        case Self.slash: letters.append(.anything)
        case 0x5C where byte(place + 1) == Self.slash: letters.append(.anything)
        default: letters.append(.run)
        }
    }

    /// The bytes of the set that begins with `[` at `place`, which is its `]` afterwards; `nil` for an unterminated set
    /// or an unknown class. IEEE Std 1003.1, section 9.3.5, for bytes.
    private mutating func set() -> Set<UInt8>? {
        place += 1
        let isNegated = byte(place) == 0x21 || byte(place) == 0x5E
        if isNegated { place += 1 }
        var (members, previous) = (Set<UInt8>(), UInt8(0))
        repeat {
            var current = byte(place)
            switch current {
            case 0: return nil
            case 0x5C:
                place += 1
                current = byte(place)
                if current == 0 { return nil }
                members.insert(current)
            case 0x2D where previous != 0 && byte(place + 1) != 0 && byte(place + 1) != 0x5D:
                place += 1
                if byte(place) == 0x5C { place += 1 }
                let last = byte(place)
                if last == 0 { return nil }
                if previous <= last { members.formUnion(previous...last) }
                current = 0
            case 0x5B where byte(place + 1) == 0x3A:
                let start = place + 2
                var close = start
                while byte(close) != 0, byte(close) != 0x5D { close += 1 }
                if byte(close) == 0 { return nil }
                if close == start || byte(close - 1) != 0x3A {
                    // No “:]”: a letter like others.
                    members.insert(0x5B)
                } else {
                    guard let named = Self.members(of: pattern[start..<(close - 1)]) else { return nil }
                    members.formUnion(named)
                    place = close
                    current = 0
                }
            default: members.insert(current)
            }
            previous = current
            place += 1
        } while byte(place) != 0x5D
        return isNegated ? Self.anyButSlash.subtracting(members) : members
    }

    private static func members(of name: ArraySlice<UInt8>) -> [UInt8]? {
        let (upper, lower) = (Array(UInt8(0x41)...0x5A), Array(UInt8(0x61)...0x7A))
        let digits = Array(UInt8(0x30)...0x39)
        let graphic = Array(UInt8(0x21)...0x7E)
        switch String(decoding: name, as: UTF8.self) {
        case "alnum": return upper + lower + digits
        case "alpha": return upper + lower
        case "blank": return [0x20, 0x09]
        case "cntrl": return Array(0..<0x20) + [0x7F]
        case "digit": return digits
        case "graph": return graphic
        case "lower": return lower
        case "print": return graphic + [0x20]
        case "punct": return graphic.filter { !(upper + lower + digits).contains($0) }
        case "space": return [0x20] + Array(0x09...0x0D)
        case "upper": return upper
        case "xdigit": return digits + Array(0x41...0x46) + Array(0x61...0x66)
        default: return nil
        }
    }
}
