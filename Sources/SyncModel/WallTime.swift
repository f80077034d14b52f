/// A moment, as the control API says it: RFC 3339 in UTC with milliseconds, `2026-11-20T02:00:00.000Z`.
public struct WallTime: Sendable, Hashable, Comparable, Codable {
    /// Since 1970-01-01 UTC.
    public var milliseconds: Int64

    /// Takes **milliseconds** since 1970-01-01 UTC.
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Orders by time.
    public static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }

    /// Reads a time with or without fractions of a second, in any offset.
    ///
    /// - Throws: `DecodingError` for anything else.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let milliseconds = parseTimestamp(text) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "not a time such as 2026-11-20T02:00:00Z"
            )
        }
        self.milliseconds = milliseconds
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(timestamp(milliseconds: milliseconds))
    }
}
