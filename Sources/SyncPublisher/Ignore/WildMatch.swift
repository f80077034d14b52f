/// Matches a text against a pattern of gitignore(5): `*`, `?`, `[a-z]`, `[[:alpha:]]`, `\` and `**`.
///
/// Follows git letter by letter, also where its manual is silent: git's wildmatch.c, which comes from rsync's. Failed
/// attempts are remembered, so that a pattern of many asterisks costs no more than its length times the text's.
struct WildMatch {
    private enum Outcome {
        case match, noMatch
        /// No longer text can match here, so the callers may give up.
        case hopeless
        /// Only a `**` further up can match more.
        case wantsSlash
    }

    private let pattern: ArraySlice<UInt8>
    private let text: UnsafeBufferPointer<UInt8>
    /// Whether `/` is special: only `**` matches it.
    private let isPath: Bool
    /// By position in the pattern and in the text.
    private var tried: [Int: Outcome] = [:]

    static func matches(
        _ pattern: ArraySlice<UInt8>,
        _ text: UnsafeBufferPointer<UInt8>,
        isPath: Bool
    ) -> Bool {
        var match = WildMatch(pattern: pattern, text: text, isPath: isPath)
        return match.run(pattern.startIndex, 0) == .match
    }

    /// 0 after the end; patterns and names contain no 0.
    private func letter(_ index: Int) -> UInt8 {
        pattern.indices.contains(index) ? pattern[index] : 0
    }

    private func byte(_ index: Int) -> UInt8 { index < text.count ? text[index] : 0 }

    private mutating func attempt(_ place: Int, _ position: Int) -> Outcome {
        let key = place * (text.count + 1) + position
        if let known = tried[key] { return known }
        let outcome = run(place, position)
        tried[key] = outcome
        return outcome
    }

    private mutating func run(_ start: Int, _ from: Int) -> Outcome {
        var (place, position) = (start, from)
        while letter(place) != 0 {
            let wanted = letter(place)
            let found = byte(position)
            if found == 0, wanted != 0x2A { return .hopeless }
            switch wanted {
            case 0x5C:
                place += 1
                if letter(place) != found { return .noMatch }
            case 0x3F:
                if isPath, found == 0x2F { return .noMatch }
            case 0x5B:
                guard let matched = set(at: &place, contains: found) else { return .hopeless }
                if !matched || isPath && found == 0x2F { return .noMatch }
            case 0x2A:
                if let outcome = star(start, &place, &position) { return outcome }
            default:
                if wanted != found { return .noMatch }
            }
            place += 1
            position += 1
        }
        return position < text.count ? .noMatch : .match
    }

    /// - Returns: `nil` when both stand at a `/` that an asterisk before it has led to.
    private mutating func star(_ start: Int, _ place: inout Int, _ position: inout Int) -> Outcome? {
        let first = place
        place += 1
        var takesSlash = !isPath
        if letter(place) == 0x2A {
            while letter(place) == 0x2A { place += 1 }
            if isPath, first == start || letter(first - 1) == 0x2F,
                [0, 0x2F].contains(letter(place)) || letter(place) == 0x5C && letter(place + 1) == 0x2F
            {
                // Between two slashes it may match nothing.
                if letter(place) == 0x2F, attempt(place + 1, position) == .match { return .match }
                takesSlash = true
            }
        }
        if letter(place) == 0 {
            return takesSlash || !text[position...].contains(0x2F) ? .match : .noMatch
        }
        if !takesSlash, letter(place) == 0x2F {
            guard let slash = text[position...].firstIndex(of: 0x2F) else { return .noMatch }
            position = slash
            return nil
        }
        while position < text.count {
            let outcome = attempt(place, position)
            switch outcome {
            case .noMatch: if !takesSlash, text[position] == 0x2F { return .wantsSlash }
            case .wantsSlash where takesSlash: break
            default: return outcome
            }
            position += 1
        }
        return .hopeless
    }
}

/// Bracket expressions. IEEE Std 1003.1, section 9.3.5, for bytes.
extension WildMatch {
    /// Whether the set at a `[` contains a byte; `nil` for an unterminated set, which matches nothing.
    ///
    /// - Parameter place: At its `]` afterwards.
    private func set(at place: inout Int, contains byte: UInt8) -> Bool? {
        place += 1
        let isNegated = letter(place) == 0x21 || letter(place) == 0x5E
        if isNegated { place += 1 }
        var (matched, previous) = (false, UInt8(0))
        repeat {
            var current = letter(place)
            switch current {
            case 0: return nil
            case 0x5C:
                place += 1
                current = letter(place)
                if current == 0 { return nil }
                matched = matched || current == byte
            case 0x2D where previous != 0 && letter(place + 1) != 0 && letter(place + 1) != 0x5D:
                place += 1
                if letter(place) == 0x5C { place += 1 }
                let last = letter(place)
                if last == 0 { return nil }
                matched = matched || previous <= byte && byte <= last
                current = 0
            case 0x5B where letter(place + 1) == 0x3A:
                let start = place + 2
                var close = start
                while letter(close) != 0, letter(close) != 0x5D { close += 1 }
                if letter(close) == 0 { return nil }
                if close == start || letter(close - 1) != 0x3A {
                    // No “:]”: a letter like others.
                    matched = matched || byte == 0x5B
                } else {
                    guard let isMember = Self.isMember(byte, of: pattern[start..<(close - 1)]) else {
                        return nil
                    }
                    matched = matched || isMember
                    place = close
                    current = 0
                }
            default: matched = matched || current == byte
            }
            previous = current
            place += 1
        } while letter(place) != 0x5D
        return matched != isNegated
    }

    private static func isMember(_ byte: UInt8, of name: ArraySlice<UInt8>) -> Bool? {
        let isUpper = (0x41...0x5A).contains(byte)
        let isLower = (0x61...0x7A).contains(byte)
        let isDigit = (0x30...0x39).contains(byte)
        let isGraphic = (0x21...0x7E).contains(byte)
        switch String(decoding: name, as: UTF8.self) {
        case "alnum": return isUpper || isLower || isDigit
        case "alpha": return isUpper || isLower
        case "blank": return byte == 0x20 || byte == 0x09
        case "cntrl": return byte < 0x20 || byte == 0x7F
        case "digit": return isDigit
        case "graph": return isGraphic
        case "lower": return isLower
        case "print": return isGraphic || byte == 0x20
        case "punct": return isGraphic && !isUpper && !isLower && !isDigit
        case "space": return byte == 0x20 || (0x09...0x0D).contains(byte)
        case "upper": return isUpper
        case "xdigit": return isDigit || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
        default: return nil
        }
    }
}
