import SyncModel

extension ManifestDecoder {
    private static let userDataKey = Array("x-user-data".utf8)
    /// Most **bytes** at the top level and at a group, without white space.
    private static let longest = 64 << 10
    /// Most **bytes** at a file.
    private static let longestOfFile = 4 << 10

    /// Takes `x-user-data`, or skips any other key that starts with `x-`.
    ///
    /// - Parameter isOfFile: Whether it stands at a file.
    /// - Returns: The value as JSON text on one line; `nil` for another key.
    mutating func readUserData(
        _ key: UnsafeBufferPointer<UInt8>,
        isOfFile: Bool = false,
        seen: inout Set<[UInt8]>
    ) throws(ManifestFault) -> String? {
        let isOurs = key.elementsEqual(Self.userDataKey)
        let start = reader.position
        try skipForeign(key, seen: &seen)
        guard isOurs else { return nil }
        let text = Self.compact(reader.bytes[start..<reader.position])
        let limit = isOfFile ? Self.longestOfFile : Self.longest
        guard text.count <= limit else {
            throw ManifestFault(
                "“x-user-data” has \(text.count) bytes, above the limit of \(limit)",
                "shorten it, or put it elsewhere and give its URL here"
            )
        }
        otherBytes += 80 + text.count
        try checkMemory()
        return String(decoding: text, as: UTF8.self)
    }

    /// A JSON value, which was checked, without the white space between its tokens.
    private static func compact(_ json: Slice<UnsafeBufferPointer<UInt8>>) -> [UInt8] {
        var result: [UInt8] = []
        var (isInString, isEscaped) = (false, false)
        for byte in json {
            if isInString {
                if !isEscaped, byte == 0x22 { isInString = false }
                isEscaped = !isEscaped && byte == 0x5C
            } else if [0x20, 0x09, 0x0A, 0x0D].contains(byte) {
                continue
            } else if byte == 0x22 {
                isInString = true
            }
            result.append(byte)
        }
        return result
    }
}
