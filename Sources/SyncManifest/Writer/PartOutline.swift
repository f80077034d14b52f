package import SyncModel

/// The outline of a part: its text without what takes most bytes, for publishers, which know nearly all of that from
/// the files themselves. `Manifests/FORMAT.md` describes it; readers of a set do not need it.
///
/// Of the digests of files and blobs only the first 16 bytes are in it; offsets of blobs that lie behind the one before,
/// and raw lengths that are the stored ones, are not. Its marks are bytes that no UTF-8 has. A digest counts as that of
/// the same content if the 16 bytes are the same, see ``SHA256Digest/head``.
package enum PartOutline {
    /// **Bytes** of a digest that an outline has.
    static let headLength = 16
    /// Stands for a digest, whose first bytes are behind the text, in the same order.
    static let digest: UInt8 = 0xFF
    /// Stands for the offset of a blob that begins where the one before it ends.
    static let behind: UInt8 = 0xFE
    /// Stands before any other offset.
    static let offset: UInt8 = 0xFD
    /// Stands for the raw length and the codec of a blob that is stored as it is, where the text has both.
    static let unpacked: UInt8 = 0xFC

    /// Stands for unknown digits of a digest, so that the text can be read: a digit.
    package static let zero: UInt8 = 0x30
    /// The same, but a byte that no text has, so that no zstd frame made behind this text refers to it.
    package static let noText: UInt8 = 0xFF

    /// The text that an outline is of; `nil` if it is none, or its text does not have `length` **bytes**.
    ///
    /// - Parameters:
    ///   - unknown: Stands for unknown digits: ``zero`` or ``noText``.
    ///   - full: Gets the ``SHA256Digest/head`` of a digest, and the place of its digits in the text.
    /// - Returns: The text, and whether all of its digests are known.
    package static func text(
        of outline: [UInt8], length: UInt64, unknown: UInt8, full: (SHA256Digest, Int) -> SHA256Digest?
    ) -> (bytes: [UInt8], isWhole: Bool)? {
        guard let end = outline.firstIndex(of: 0), let length = Int(exactly: length) else { return nil }
        var heads = outline[(end + 1)...]
        var text: [UInt8] = []
        text.reserveCapacity(min(length, outline.count * 4))
        var (position, isWhole) = (0, true)
        var (blobEnd, stored) = (UInt64(0), UInt64(0))
        func number() -> UInt64? {
            let digits = outline[position..<end].prefix { (0x30...0x39).contains($0) }
            position = digits.endIndex
            return UInt64(String(decoding: digits, as: UTF8.self))
        }
        while position < end, text.count <= length {
            let byte = outline[position]
            position += 1
            switch byte {
            case digest:
                var bytes = Array(heads.prefix(headLength))
                heads = heads.dropFirst(headLength)
                bytes += repeatElement(0, count: SHA256Digest.byteCount - headLength)
                guard let head = bytes.withUnsafeBytes({ SHA256Digest(bytes: $0) }) else { return nil }
                text.append(0x22)
                let known = full(head, text.count)
                (known ?? head).writeHex { place, digit in
                    text.append(known == nil && place >= 2 * headLength ? unknown : digit)
                }
                text.append(0x22)
                isWhole = isWhole && known != nil
            case behind, offset:
                if byte == offset {
                    guard let number = number() else { return nil }
                    blobEnd = number
                }
                guard position < end, outline[position] == 0x2C else { return nil }
                position += 1
                guard let length = number() else { return nil }
                text += "\(blobEnd),\(length)".utf8
                (blobEnd, stored) = (blobEnd &+ length, length)
            case unpacked: text += ",\(stored),\"none\"".utf8
            default: text.append(byte)
            }
        }
        return text.count == length && position == end && heads.isEmpty ? (text, isWhole) : nil
    }
}
