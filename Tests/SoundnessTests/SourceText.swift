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
            result.append(
                SourceText(path: String(relative), text: try String(contentsOf: file, encoding: .utf8))
            )
        }
        return result.sorted { $0.path < $1.path }
    }

    /// This file stands in Tests/SoundnessTests of the package.
    static let packageRoot = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Takes away comments, and what stands in string literals unless told otherwise; keeps line breaks. Knows
    /// `//`, `/* */`, `"…"`, `"""…"""` and escapes; an interpolation counts as part of its literal.
    private static func strip(_ text: String, keepingStrings: Bool) -> String {
        let bytes = Array(text.utf8)
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var position = 0

        func isAhead(_ token: String) -> Bool {
            let token = token.utf8
            return bytes.count - position >= token.count
                && bytes[position..<(position + token.count)].elementsEqual(token)
        }
        /// Goes on by `count` bytes, of which line breaks are always kept.
        func advance(_ count: Int, keeping: Bool) {
            let end = min(position + count, bytes.count)
            result += bytes[position..<end].filter { keeping || $0 == 0x0A }
            position = end
        }

        while position < bytes.count {
            if isAhead("//") {
                while position < bytes.count, bytes[position] != 0x0A { position += 1 }
            } else if isAhead("/*") {
                while position < bytes.count, !isAhead("*/") { advance(1, keeping: false) }
                advance(2, keeping: false)
            } else if bytes[position] == 0x22 {
                let quote = isAhead("\"\"\"") ? "\"\"\"" : "\""
                advance(quote.utf8.count, keeping: keepingStrings)
                // A literal on one line ends with it at the latest: a quote in a regular expression stays alone.
                while position < bytes.count, !isAhead(quote), quote.count == 3 || bytes[position] != 0x0A {
                    advance(bytes[position] == 0x5C ? 2 : 1, keeping: keepingStrings)
                }
                if isAhead(quote) { advance(quote.utf8.count, keeping: keepingStrings) }
            } else {
                advance(1, keeping: true)
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
