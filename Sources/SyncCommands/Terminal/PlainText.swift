import CPosix

/// Text for terminals whose locale has no UTF-8: ASCII alone.
enum PlainText {
    /// Whether such a terminal reads what is written to a descriptor.
    static func isWanted(on descriptor: Int32) -> Bool {
        isatty(descriptor) == 1 && EnvironmentPaths.ofProcess.isASCIIOnly
    }

    /// What stands for the rest of a text that was cut.
    static func ellipsis(on descriptor: Int32) -> String { isWanted(on: descriptor) ? "..." : "…" }

    /// Our own signs as people write them in ASCII; what else is there, such as the letters of a name, as ``SyncModel/escaped(_:)``
    /// writes what must not go to a terminal.
    static func of(_ text: String) -> String {
        guard !text.utf8.allSatisfy({ $0 < 0x80 }) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                result.unicodeScalars.append(scalar)
            } else {
                result += signs[scalar] ?? "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// Those of our messages, and of messages of libraries and systems.
    static let signs: [Unicode.Scalar: String] = [
        "…": "...", "“": "\"", "”": "\"", "„": "\"", "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-",
        "→": "->",
        "←": "<-", "×": "x", "≤": "<=", "≥": ">=", "≠": "!=", "±": "+-", "°": " deg", "µ": "u", "·": ".",
        "•": "*", "█": "#", "░": ".", "\u{A0}": " ",
    ]
}
