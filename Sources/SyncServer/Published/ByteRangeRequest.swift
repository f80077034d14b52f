import SyncModel

/// What a `Range` header asks of an object. RFC 9110 §14.1.2 and §14.2.
enum ByteRangeRequest: Equatable, Sendable {
    /// Not one range of bytes: the header is ignored, as §14.2 allows. Several ranges are never asked for here.
    case ignored
    /// Nothing of it lies inside the object: 416.
    case unsatisfiable
    /// These **bytes**; not empty.
    case bytes(Range<UInt64>)

    /// Reads the header's value for an object of `size` **bytes**.
    init(_ header: String, size: UInt64) {
        let value = header.lowercased()
        guard value.hasPrefix("bytes=") else {
            self = .ignored
            return
        }
        let bounds = value.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard bounds.count == 2, let first = Number(bounds[0]), let last = Number(bounds[1]) else {
            self = .ignored
            return
        }
        switch (first, last) {
        case (.missing, .missing): self = .ignored
        case (.missing, .value(let suffix)):
            let start = size - min(size, suffix)
            self = start < size ? .bytes(start..<size) : .unsatisfiable
        case (.value(let start), .missing): self = start < size ? .bytes(start..<size) : .unsatisfiable
        case (.value(let start), .value(let end)):
            guard start <= end else {
                self = .ignored
                return
            }
            self = start < size ? .bytes(start..<(min(end, size - 1) + 1)) : .unsatisfiable
        }
    }

    /// One bound: digits or nothing.
    private enum Number {
        case missing
        case value(UInt64)

        /// `nil` for anything but digits. A number past 64 bits is past the end of every object.
        init?(_ text: Substring) {
            let trimmed = text.trimmed
            guard !trimmed.isEmpty else {
                self = .missing
                return
            }
            guard trimmed.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            self = .value(UInt64(trimmed) ?? .max)
        }
    }
}
