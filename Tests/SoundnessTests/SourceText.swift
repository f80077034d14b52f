import Foundation

/// One Swift file, as these tests read it.
struct SourceText: Sendable {
    /// Relative to the package's root.
    let path: String
    /// The lines as written.
    let lines: [String]
    /// The lines without comments.
    let code: [String]
    /// The lines without comments and without what stands in string literals.
    let bareCode: [String]

    init(path: String, text: String) {
        self.path = path
        lines = text.components(separatedBy: "\n")
        code = Self.strip(text, keepingStrings: true).components(separatedBy: "\n")
        bareCode = Self.strip(text, keepingStrings: false).components(separatedBy: "\n")
    }

    /// The target or test target a file belongs to: the second part of its path.
    var target: String {
        let parts = path.split(separator: "/")
        return parts.count > 2 ? String(parts[1]) : ""
    }

    /// Every Swift file below a directory of the package; each is read once.
    static func all(below directory: String) throws -> [SourceText] {
        try (directory == "Tests" ? tests : sources).get().filter { $0.path.hasPrefix("\(directory)/") }
    }

    private static let sources = Result { try read(below: "Sources") }
    private static let tests = Result { try read(below: "Tests") }

    private static func read(below directory: String) throws -> [SourceText] {
        let root = packageRoot
        let base = root.appendingPathComponent(directory)
        let files = FileManager.default.enumerator(at: base, includingPropertiesForKeys: nil)
        var result: [SourceText] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let relative = file.path.dropFirst(root.path.count + 1)
            result.append(SourceText(path: String(relative), text: try String(contentsOf: file, encoding: .utf8)))
        }
        return result.sorted { $0.path < $1.path }
    }

    /// This file stands in Tests/SoundnessTests of the package.
    static let packageRoot = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Takes away comments, and what stands in string literals unless told otherwise; keeps line breaks. Knows
    /// `//`, `/* */`, `"…"`, `"""…"""` and escapes; an interpolation counts as part of its literal.
    private static func strip(_ text: String, keepingStrings: Bool) -> String {
        enum Place { case code, lineComment, blockComment, literal, longLiteral }
        // Three bytes of padding, so that looking ahead needs no check.
        let bytes = Array(text.utf8) + [0, 0, 0]
        let (slash, star, quote, backslash, newline) = (UInt8(0x2F), UInt8(0x2A), UInt8(0x22), UInt8(0x5C), UInt8(0x0A))
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var place = Place.code
        var position = 0
        while position < bytes.count - 3 {
            let (byte, second, third) = (bytes[position], bytes[position + 1], bytes[position + 2])
            let isTripleQuote = byte == quote && second == quote && third == quote
            var length = 1
            var isKept = true
            switch place {
            case .code:
                if byte == slash, second == slash {
                    (place, isKept) = (.lineComment, false)
                } else if byte == slash, second == star {
                    (place, length, isKept) = (.blockComment, 2, false)
                } else if byte == quote {
                    (place, length) = isTripleQuote ? (.longLiteral, 3) : (.literal, 1)
                }
            case .lineComment:
                isKept = false
                if byte == newline { place = .code }
            case .blockComment:
                isKept = false
                if byte == star, second == slash { (place, length) = (.code, 2) }
            case .literal:
                isKept = keepingStrings
                // It ends with the line at the latest: a quote in a regular expression stays alone.
                if byte == quote || byte == newline { place = .code }
                if byte == backslash { length = 2 }
            case .longLiteral:
                isKept = keepingStrings
                if isTripleQuote { (place, length) = (.code, 3) }
                if byte == backslash { length = 2 }
            }
            for index in position..<(position + length) where isKept || bytes[index] == newline {
                result.append(bytes[index])
            }
            position += length
        }
        return String(decoding: result, as: UTF8.self)
    }
}
