/// Base64 with its padding, RFC 4648 section 4.
enum Base64 {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8
    )

    static func text(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let piece = bytes[start..<min(start + 3, bytes.count)]
            var word: UInt32 = 0
            for place in 0..<3 {
                word = word << 8 | (place < piece.count ? UInt32(piece[start + place]) : 0)
            }
            for place in 0..<4 {
                let isPadding = place > piece.count
                text.append(
                    isPadding ? UInt8(ascii: "=") : alphabet[Int(word >> UInt32(18 - 6 * place) & 63)]
                )
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The bytes of a text; `nil` when it is not the one text that they have.
    static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var (word, digits, padding) = (UInt32(0), 0, 0)
        for byte in text {
            if byte == UInt8(ascii: "=") {
                padding += 1
                word <<= 6
            } else {
                guard padding == 0, let value = value(byte) else { return nil }
                word = word << 6 | value
            }
            digits += 1
            guard digits % 4 == 0 else { continue }
            guard padding <= 2 else { return nil }
            let three = [word >> 16, word >> 8, word].map { UInt8(truncatingIfNeeded: $0) }
            // What the padding stands for has to be nothing.
            guard three[(3 - padding)...].allSatisfy({ $0 == 0 }) else { return nil }
            bytes += three[..<(3 - padding)]
            word = 0
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
