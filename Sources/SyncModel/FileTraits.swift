/// The file attributes that a manifest may record besides the content, if its publisher chose to.
package struct FileTraits: Sendable, Equatable {
    /// Permissions: 0...0o777. Set-id bits and the sticky bit are never recorded.
    package var mode: UInt16?
    /// Modification time in **nanoseconds** since 1970, within ``times``.
    package var modified: Int64?

    /// No attributes, as for most files.
    package static let none = FileTraits()

    /// The supported times, 1678-01-01 to 2261-12-31: the whole years within signed 64-bit nanoseconds.
    package static let times: Range<Int64> = -9_214_560_000_000_000_000..<9_214_646_400_000_000_000

    package init(mode: UInt16? = nil, modified: Int64? = nil) { (self.mode, self.modified) = (mode, modified) }

    /// The mode in the notation of chmod(1): three octal digits.
    package static func text(mode: UInt16) -> String { padded(mode & 0o777, 3, radix: 8) }

    /// Parses three octal digits.
    package static func mode(_ text: some Collection<UInt8>) -> UInt16? {
        guard text.count == 3, text.allSatisfy({ (0x30...0x37).contains($0) }) else { return nil }
        return text.reduce(0) { $0 << 3 | UInt16($1 - 0x30) }
    }

    /// The time in UTC, RFC 3339, with nine fractional digits unless it is a whole second.
    package static func text(time: Int64) -> String {
        let (seconds, fraction) = floorDivision(time, 1_000_000_000)
        let whole = String(timestamp(milliseconds: seconds * 1_000).dropLast(5))
        return fraction > 0 ? "\(whole).\(padded(fraction, 9))Z" : whole + "Z"
    }

    /// Parses `2026-11-20T02:00:00.123456789Z`, with one to nine fractional digits or none, always UTC.
    ///
    /// - Returns: **Nanoseconds** since 1970; `nil` for another text, an invalid day, or a time outside ``times``.
    package static func time(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
        guard (20...30).contains(text.count), text.count != 21, text[text.count - 1] == 0x5A,
            let seconds = civilSeconds(text),
            (times.lowerBound / 1_000_000_000..<times.upperBound / 1_000_000_000).contains(seconds),
            text.count == 20 || text[19] == 0x2E,
            var fraction = text.count == 20 ? 0 : decimal(text[20..<(text.count - 1)])
        else { return nil }
        for _ in (max(20, text.count - 1) - 20)..<9 where fraction > 0 { fraction *= 10 }
        return seconds * 1_000_000_000 + fraction
    }
}
