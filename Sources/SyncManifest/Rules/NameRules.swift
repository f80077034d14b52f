/// The rules for identifiers in a manifest: they become file names, arguments and environment values.
extension ManifestRules {
    /// The longest identifier in **bytes**.
    static let identifierBytes = 255

    /// Checks a project, group or hook name: `[A-Za-z0-9._-]`, not starting with `.` or `-`.
    static func check(identifier name: UnsafeBufferPointer<UInt8>, what: String) throws(ManifestError) -> String {
        guard let first = name.first else { throw ManifestError("the \(what) is empty", "give it a name") }
        guard name.count <= identifierBytes else {
            throw ManifestError(
                "the \(what) has \(name.count) bytes, above the limit of \(identifierBytes)", "shorten it")
        }
        let isPlain = name.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
            default: false
            }
        }
        guard isPlain, first != 0x2E, first != 0x2D else {
            throw ManifestError(
                "the \(what) \(quoted(name)) is not an identifier",
                "use letters, digits, “.”, “_” and “-”, and start with a letter, a digit or “_”")
        }
        return String(decoding: name, as: UTF8.self)
    }

    /// Checks the shape of an RFC 3339 date and time, `2026-11-20T02:00:00Z`.
    static func check(time text: UnsafeBufferPointer<UInt8>) throws(ManifestError) -> String {
        let pattern: StaticString = "0000-00-00T00:00:00"
        let length = pattern.utf8CodeUnitCount
        func matches() -> Bool {
            guard text.count > length, text.count <= 40 else { return false }
            for index in 0..<length {
                let wanted = pattern.utf8Start[index]
                guard wanted == 0x30 ? isDigit(text[index]) : text[index] == wanted else { return false }
            }
            var index = length
            if text[index] == 0x2E {
                index += 1
                let start = index
                while index < text.count, isDigit(text[index]) { index += 1 }
                guard index > start, index < text.count else { return false }
            }
            if text[index] == 0x5A { return index + 1 == text.count }
            guard text[index] == 0x2B || text[index] == 0x2D, text.count - index == 6 else { return false }
            return isDigit(text[index + 1]) && isDigit(text[index + 2]) && text[index + 3] == 0x3A
                && isDigit(text[index + 4]) && isDigit(text[index + 5])
        }
        guard matches() else {
            throw ManifestError(
                "\(quoted(text)) is not a date and time", "write it as in RFC 3339, such as 2026-11-20T02:00:00Z")
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 <= 9 }
}

/// Why Windows cannot hold a name: it is that of a device, ends in a dot or a space, or has a character that means
/// something there. Such names are real on Linux and ordinary in a manifest; `publish` warns of them.
package func windowsProblem(_ name: UnsafeBufferPointer<UInt8>) -> String? {
    if let last = name.last, last == 0x2E || last == 0x20 { return "ends in a dot or a space" }
    if name.contains(where: { [0x22, 0x2A, 0x3A, 0x3C, 0x3E, 0x3F, 0x5C, 0x7C].contains($0) }) {
        return "has one of \" * : < > ? \\ |"
    }
    let stem = name.prefix { $0 != 0x2E }
    guard (3...4).contains(stem.count) else { return nil }
    let device = String(decoding: stem, as: UTF8.self).uppercased()
    let digits = device.hasPrefix("COM") || device.hasPrefix("LPT") ? device.dropFirst(3) : ""
    let isDevice = ["CON", "PRN", "AUX", "NUL"].contains(device) || ("1"..."9").contains(digits) && digits.count == 1
    return isDevice ? "is a device's name" : nil
}
