/// Bytes that are the same on every machine: xorshift64* (S. Vigna, ACM TOMS 42, 2016).
struct Bytes {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 2_685_821_657_736_338_717
    }

    /// Bytes that do not compress; `count` is rounded up to 8.
    mutating func noise(_ count: Int) -> [UInt8] {
        var words: [UInt64] = []
        words.reserveCapacity(count / 8 + 1)
        for _ in 0..<((count + 7) / 8) { words.append(next()) }
        return words.withUnsafeBytes { [UInt8]($0) }
    }

    /// Bytes of which about two thirds go when they are compressed.
    mutating func text(_ count: Int) -> [UInt8] {
        let words = ["stone ", "water ", "light ", "shader ", "normal ", "vertex ", "0.250 ", "1.000 ", "\n"].map {
            Array($0.utf8)
        }
        var result: [UInt8] = []
        result.reserveCapacity(count + 16)
        while result.count < count {
            let number = next()
            result += words[Int(number % UInt64(words.count))]
            if number >> 60 == 0 { result += Array(String(number >> 40).utf8) }
        }
        return result
    }
}
