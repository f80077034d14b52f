import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SHA256DigestTests {
    /// FIPS 180-4: SHA-256 of "abc".
    private static let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    @Test("Hexadecimal in, bytes and hexadecimal out [F108]")
    func roundTrip() throws {
        let digest = try #require(SHA256Digest(hex: Self.abc))
        #expect(digest.hex == Self.abc)
        #expect("\(digest)" == Self.abc)
        #expect(digest[byte: 0] == 0xBA)
        #expect(digest[byte: 8] == 0x41)
        #expect(digest[byte: 31] == 0xAD)
        #expect(SHA256Digest(hex: Self.abc.uppercased()) == digest)

        var bytes = [UInt8](repeating: 0, count: 32)
        bytes.withUnsafeMutableBytes { buffer in if let base = buffer.baseAddress { digest.store(to: base) } }
        #expect(bytes.first == 0xBA)
        #expect(bytes.withUnsafeBytes { SHA256Digest(bytes: $0) } == digest)
    }

    @Test("Both readers of hexadecimal agree on every byte in every place [F108]")
    func readersAgree() {
        var text = Array(Self.abc.utf8)
        for place in [0, 15, 16, 31, 32, 47, 48, 63] {
            let kept = text[place]
            for byte in UInt8.min...UInt8.max {
                text[place] = byte
                let slow = SHA256Digest(hex: text)
                let fast = text.withUnsafeBufferPointer { SHA256Digest(hex: $0) }
                #expect(slow == fast)
                let isDigit =
                    (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
                #expect((fast != nil) == isDigit)
            }
            text[place] = kept
        }
    }

    @Test("Other lengths are no digest [F108]", arguments: [0, 1, 31, 32, 63, 65, 128])
    func lengths(_ count: Int) {
        let text = String(repeating: "a", count: count)
        #expect(SHA256Digest(hex: text) == nil)
        #expect(Array(text.utf8).withUnsafeBufferPointer { SHA256Digest(hex: $0) } == nil)
        let bytes = [UInt8](repeating: 1, count: count)
        #expect((bytes.withUnsafeBytes { SHA256Digest(bytes: $0) } != nil) == (count == 32))
    }

    @Test("Order is that of the hexadecimal text")
    func order() throws {
        let texts = ["00", "01", "0f", "7f", "80", "ff"].map { $0 + String(repeating: "0", count: 62) }
        let digests = try texts.map { try #require(SHA256Digest(hex: $0)) }
        #expect(digests.reversed().sorted() == digests)
        #expect(SHA256Digest.zero.hex == texts[0])
    }
}
