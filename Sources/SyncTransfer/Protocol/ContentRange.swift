/// `Content-Range: bytes 0-499/1234`. RFC 9110 §14.4.
package struct ContentRange: Equatable, Sendable {
    /// The **bytes** of the object that the body holds; `nil` for `bytes */1234`.
    package let range: Range<UInt64>?
    /// The object's whole length in **bytes**; `nil` for `*`.
    package let total: UInt64?

    /// Reads a header's value; `nil` when it breaks the grammar, or contradicts itself.
    package init?(_ text: String) {
        let words = text.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let sides = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }

        if sides[1] == "*" {
            total = nil
        } else {
            guard let number = decimal(sides[1]) else { return nil }
            total = number
        }
        if sides[0] == "*" {
            guard total != nil else { return nil }
            range = nil
            return
        }
        let ends = sides[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = decimal(ends[0]), let last = decimal(ends[1]),
            first <= last, last < UInt64.max
        else { return nil }
        if let total { guard last < total else { return nil } }
        range = first..<(last + 1)
    }
}

/// Digits only: no sign, no blanks, at most 2^64 − 1 (V47).
package func decimal(_ text: some StringProtocol) -> UInt64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return UInt64(text)
}
