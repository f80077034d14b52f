/// Derives a key from a passphrase as OpenSSH does for its key files: bcrypt_pbkdf of OpenBSD, slow by design.
///
/// - Parameters:
///   - salt: As it stands in the file.
///   - rounds: At least 1; each takes about **10 ms** for 48 bytes.
///   - count: **Bytes** that are wanted.
func bcryptKey(_ passphrase: [UInt8], salt: [UInt8], rounds: UInt32, count: Int) throws(TrustFault) -> [UInt8]
{
    guard !passphrase.isEmpty, rounds > 0 else { throw TrustFault("the passphrase is empty") }
    let secret = try Crypto.digest("SHA512", passphrase)
    let start = Blowfish()
    // The blocks are woven into each other, so that each byte of the key costs all of them.
    let blocks = (count + 31) / 32
    var key = [UInt8](repeating: 0, count: count)
    for block in 1...UInt32(blocks) {
        var salted = WireWriter()
        salted.raw(salt)
        salted.uint32(block)
        var piece = start.bcrypt(secret, try Crypto.digest("SHA512", salted.bytes))
        var sum = piece
        for _ in 1..<rounds {
            piece = start.bcrypt(secret, try Crypto.digest("SHA512", piece))
            for index in sum.indices { sum[index] ^= piece[index] }
        }
        for (index, byte) in sum.enumerated() {
            let place = index * blocks + Int(block) - 1
            if place < count { key[place] = byte }
        }
    }
    return key
}

extension Blowfish {
    /// The hash at the heart of bcrypt, with 64 turns. B. Provos, D. Mazières: "A Future-Adaptable Password Scheme".
    ///
    /// - Returns: 32 **bytes**.
    fileprivate func bcrypt(_ secret: [UInt8], _ salt: [UInt8]) -> [UInt8] {
        var cipher = self
        cipher.expand(key: secret, salt: salt)
        for _ in 0..<64 {
            cipher.expand(key: salt, salt: [])
            cipher.expand(key: secret, salt: [])
        }
        var text = Words(Array("OxychromaticBlowfishSwatDynamite".utf8))
        var words = (0..<8).map { _ in text.next() }
        for _ in 0..<64 {
            for pair in stride(from: 0, to: 8, by: 2) {
                (words[pair], words[pair + 1]) = cipher.encrypted(words[pair], words[pair + 1])
            }
        }
        return words.flatMap { word in
            [0, 8, 16, 24].map { UInt8(truncatingIfNeeded: word >> $0) }
        }
    }
}

/// The cipher that bcrypt is made of, and nothing is encrypted with here. B. Schneier: "Description of a New
/// Variable-Length Key, 64-Bit Block Cipher".
struct Blowfish {
    /// The 18 words of P, then the four boxes of 256.
    private var state: [UInt32]

    /// The cipher without a key: all its words are those of π.
    init() { state = Self.pi }

    /// Reads bytes as words in network order, round and round.
    fileprivate struct Words {
        private let bytes: [UInt8]
        private var place = 0

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        mutating func next() -> UInt32 {
            guard !bytes.isEmpty else { return 0 }
            var word: UInt32 = 0
            for _ in 0..<4 {
                word = word << 8 | UInt32(bytes[place])
                place = place + 1 == bytes.count ? 0 : place + 1
            }
            return word
        }
    }

    /// Stirs a key, and a salt that may be empty, into every word.
    fileprivate mutating func expand(key: [UInt8], salt: [UInt8]) {
        var (key, salt) = (Words(key), Words(salt))
        state.withUnsafeMutableBufferPointer { state in
            for index in 0..<18 { state[index] ^= key.next() }
            var (left, right) = (UInt32(0), UInt32(0))
            for index in stride(from: 0, to: state.count, by: 2) {
                left ^= salt.next()
                right ^= salt.next()
                (left, right) = Self.encrypted(left, right, UnsafeBufferPointer(state))
                (state[index], state[index + 1]) = (left, right)
            }
        }
    }

    fileprivate func encrypted(_ left: UInt32, _ right: UInt32) -> (UInt32, UInt32) {
        state.withUnsafeBufferPointer { Self.encrypted(left, right, $0) }
    }

    @inline(__always)
    private static func encrypted(
        _ left: UInt32,
        _ right: UInt32,
        _ state: UnsafeBufferPointer<UInt32>
    ) -> (UInt32, UInt32) {
        var (left, right) = (left ^ state[0], right)
        for round in stride(from: 1, to: 17, by: 2) {
            right ^= mixed(left, state) ^ state[round]
            left ^= mixed(right, state) ^ state[round + 1]
        }
        return (right ^ state[17], left)
    }

    @inline(__always)
    private static func mixed(_ word: UInt32, _ state: UnsafeBufferPointer<UInt32>) -> UInt32 {
        let a = state[18 + Int(word >> 24)]
        let b = state[18 + 256 + Int(word >> 16 & 255)]
        let c = state[18 + 512 + Int(word >> 8 & 255)]
        let d = state[18 + 768 + Int(word & 255)]
        return ((a &+ b) ^ c) &+ d
    }

    /// The first 1,042 words behind the point of π, by Machin's formula: nothing up anybody's sleeve, and no table to
    /// mistype.
    private static let pi: [UInt32] = {
        // Two words more than are wanted take up the rounding.
        let count = 18 + 1024
        var sum = Fraction(words: count + 2)
        sum.addArcTangent(of: 5, times: 16)
        sum.addArcTangent(of: 239, times: -4)
        return Array(sum.words[1...count])
    }()

    /// A number below 2³² with many words behind its point, most significant first.
    private struct Fraction {
        var words: [UInt32]

        init(words: Int) { self.words = [UInt32](repeating: 0, count: words + 1) }

        /// Adds `times` × arctan(1 ∕ `divisor`): 1∕x − 1∕3x³ + 1∕5x⁵ − …
        mutating func addArcTangent(of divisor: UInt32, times: Int) {
            var power = Fraction(words: words.count - 1)
            power.words[0] = UInt32(times.magnitude)
            power.divide(by: divisor)
            var (odd, isAdded, first) = (UInt32(1), times > 0, 0)
            while true {
                while first < power.words.count, power.words[first] == 0 { first += 1 }
                guard first < power.words.count else { return }
                var term = power
                term.divide(by: odd, from: first)
                if isAdded { add(term, from: first) } else { subtract(term, from: first) }
                power.divide(by: divisor * divisor, from: first)
                odd += 2
                isAdded.toggle()
            }
        }

        private mutating func divide(by divisor: UInt32, from first: Int = 0) {
            words.withUnsafeMutableBufferPointer { words in
                var remainder: UInt64 = 0
                for index in first..<words.count {
                    let value = remainder << 32 | UInt64(words[index])
                    words[index] = UInt32(truncatingIfNeeded: value / UInt64(divisor))
                    remainder = value % UInt64(divisor)
                }
            }
        }

        private mutating func add(_ other: Fraction, from first: Int) {
            var carry: UInt64 = 0
            for index in words.indices.reversed() where index >= first || carry > 0 {
                let sum = UInt64(words[index]) + UInt64(other.words[index]) + carry
                words[index] = UInt32(truncatingIfNeeded: sum)
                carry = sum >> 32
            }
        }

        private mutating func subtract(_ other: Fraction, from first: Int) {
            var borrow: Int64 = 0
            for index in words.indices.reversed() where index >= first || borrow > 0 {
                let difference = Int64(words[index]) - Int64(other.words[index]) - borrow
                words[index] = UInt32(truncatingIfNeeded: difference)
                borrow = difference < 0 ? 1 : 0
            }
        }
    }
}
