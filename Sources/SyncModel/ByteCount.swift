/// A number of bytes, in the notation for people.
///
/// Suffixes as in rsync(1) and curl's `--limit-rate`: `K`, `M`, `G`, `T` and `KiB` … are powers of 1024,
/// `KB` … powers of 1000.
public struct ByteCount: Hashable, Sendable, Comparable {
    /// The number of **bytes**.
    public let bytes: UInt64

    /// Makes a count from a number of **bytes**.
    public init(_ bytes: UInt64) { self.bytes = bytes }

    /// Parses `65536`, `64K`, `64KiB`, `1.5 GB`; `nil` for anything else, and for values that do not fit into 64 bits.
    public init?(parsing text: String) {
        // At most one space is left inside, before the unit: `1 0M` is not a number.
        let words = text.split(separator: " ").joined(separator: " ")
        let digits = words.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let rest = words.dropFirst(digits.count)
        let suffix = rest.first == " " ? rest.dropFirst() : rest
        guard !digits.isEmpty, suffix.utf8.allSatisfy({ $0 < 0x80 }), let unit = Self.units[suffix.lowercased()] else {
            return nil
        }
        if let whole = UInt64(digits) {
            let (product, overflow) = whole.multipliedReportingOverflow(by: unit)
            guard !overflow else { return nil }
            bytes = product
        } else {
            guard let value = Double(String(digits)), value.isFinite else { return nil }
            guard let rounded = UInt64(exactly: (value * Double(unit)).rounded()) else { return nil }
            bytes = rounded
        }
    }

    /// Smaller first.
    public static func < (a: ByteCount, b: ByteCount) -> Bool { a.bytes < b.bytes }

    private static let units: [String: UInt64] = [
        "": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "kb": 1_000, "m": 1 << 20, "mib": 1 << 20, "mb": 1_000_000,
        "g": 1 << 30, "gib": 1 << 30, "gb": 1_000_000_000, "t": 1 << 40, "tib": 1 << 40, "tb": 1_000_000_000_000,
    ]
}

extension ByteCount: CustomStringConvertible {
    /// Three significant digits and a binary unit: `512 B`, `1.50 MiB`, `20.0 GiB`.
    public var description: String {
        let names = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        guard bytes >= 1024 else { return "\(bytes) B" }
        var value = Double(bytes) / 1024
        var unit = 0
        while value >= 1023.5, unit + 1 < names.count {
            value /= 1024
            unit += 1
        }
        let decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0
        return "\(Self.fixed(value, decimals: decimals)) \(names[unit])"
    }

    private static func fixed(_ value: Double, decimals: Int) -> String {
        guard decimals > 0 else { return String(Int(value.rounded())) }
        let scale = decimals == 1 ? 10 : 100
        let scaled = Int((value * Double(scale)).rounded())
        return "\(scaled / scale).\(padded(scaled % scale, decimals))"
    }
}
