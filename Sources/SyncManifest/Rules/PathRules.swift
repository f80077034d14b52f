import SyncModel

/// The rules for a path in a manifest. Nothing is repaired: a path is taken as it is, or refused.
extension ManifestRules {
    /// The longest component in **bytes**: `NAME_MAX` of Linux, limits.h(0p).
    static let componentBytes = 255
    /// The longest path in **bytes**: `PATH_MAX` of Linux less its NUL, limits.h(0p).
    static let pathBytes = 4_095

    /// Checks one path.
    ///
    /// - Returns: Whether it is ASCII throughout.
    static func check(path: UnsafeBufferPointer<UInt8>) throws(ManifestError) -> Bool {
        guard !path.isEmpty else { throw ManifestError("the path is empty", "name a file below the destination") }
        guard path.count <= pathBytes else {
            throw ManifestError("the path has \(path.count) bytes, above the limit of \(pathBytes)", "shorten it")
        }
        if path[0] == 0x2F {
            throw ManifestError("the path \(quoted(path)) is absolute", "write it relative to the destination")
        }
        var start = 0
        var bits: UInt8 = 0
        for index in 0..<path.count {
            let byte = path[index]
            bits |= byte
            if byte == 0x2F {
                try checkComponent(path, start..<index)
                start = index + 1
            } else if byte < 0x20 || byte == 0x7F {
                throw unsafeCharacter(path)
            }
        }
        try checkComponent(path, start..<path.count)
        guard bits >= 0x80 else { return true }
        if hasUnsafeCharacter(path) { throw unsafeCharacter(path) }
        return false
    }

    @inline(__always) private static func checkComponent(_ path: UnsafeBufferPointer<UInt8>, _ range: Range<Int>)
        throws(ManifestError)
    {
        let length = range.count
        guard length > 0 else {
            let isLast = range.lowerBound == path.count
            throw ManifestError(
                "the path \(quoted(path)) \(isLast ? "ends in “/”" : "has an empty component")",
                "write single slashes, and none at the end")
        }
        guard length <= componentBytes else {
            throw ManifestError(
                "a component of the path \(quoted(path)) has \(length) bytes, above the limit of \(componentBytes)",
                "shorten it")
        }
        let component = UnsafeBufferPointer(rebasing: path[range])
        guard component[0] == 0x2E || component[0] >= 0x80 else { return }
        if length == 1 || length == 2 && component[1] == 0x2E, component[0] == 0x2E {
            throw ManifestError(
                "the path \(quoted(path)) has the component \(quoted(component))", "write the path without “.” and “..”"
            )
        }
        if isReserved(component) {
            throw ManifestError(
                "the path \(quoted(path)) is under “.syncagent”", "leave out this directory, which belongs to the agent"
            )
        }
    }

    private static func unsafeCharacter(_ path: UnsafeBufferPointer<UInt8>) -> ManifestError {
        ManifestError("\(quoted(path)) has a control or bidirectional formatting character", "rename it")
    }

    /// Whether a component is the agent's own directory, on any file system: in any case, also with characters
    /// that some file systems fold to its letters or ignore (CVE-2014-9390).
    static func isReserved(_ component: UnsafeBufferPointer<UInt8>) -> Bool {
        guard component.first(where: { $0 < 0x80 }) == 0x2E else { return false }
        if component.allSatisfy({ $0 < 0x80 }) {
            guard component.count == 10 else { return false }
            let name: StaticString = ".syncagent"
            for index in 1..<10 where component[index] | 0x20 != name.utf8Start[index] { return false }
            return true
        }
        return caseFolded(String(decoding: component, as: UTF8.self)) == ".syncagent"
    }

    /// Whether UTF-8 text has a control or bidirectional formatting character; see
    /// ``SyncModel/isUnsafeOnTerminal(_:)``.
    static func hasUnsafeCharacter(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        for index in 0..<text.count {
            let byte = text[index]
            switch byte {
            case 0..<0x20, 0x7F: return true
            case 0xC2 where index + 1 < text.count && text[index + 1] < 0xA0: return true
            case 0xD8 where index + 1 < text.count && text[index + 1] == 0x9C: return true
            case 0xE2 where index + 2 < text.count:
                switch (text[index + 1], text[index + 2]) {
                case (0x80, 0x8E...0x8F), (0x80, 0xAA...0xAE), (0x81, 0xA6...0xA9): return true
                default: continue
                }
            default: continue
            }
        }
        return false
    }
}

/// The form that file systems which fold case compare: close to Unicode's full case folding, without the
/// characters that HFS+ ignores (Apple TN1150).
package func caseFolded(_ text: String) -> String {
    if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.lowercased() }
    let kept = text.unicodeScalars.filter { scalar in
        switch scalar.value {
        case 0x200C...0x200F, 0x202A...0x202E, 0x206A...0x206F, 0xFEFF: false
        default: true
        }
    }
    return String(String.UnicodeScalarView(kept)).uppercased().lowercased()
}
