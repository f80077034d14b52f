import SyncModel
import Testing

@testable import SyncPublisher

@Suite(.timeLimit(.minutes(10)))
struct DigestIndexTests {
    @Test("Every digest is found under its number, others are not", arguments: [0, 1, 31, 32, 33, 10_000])
    func finds(count: Int) throws {
        let digests = try (0..<(count + 100)).map { number in
            try digest(withUnsafeBytes(of: number.littleEndian) { Array($0) })
        }
        var index = DigestIndex()
        for number in 0..<count { index.insert(UInt32(number)) { digests[Int($0)] } }
        #expect(index.count == count)
        let found = digests.map { digest in index.find(digest) { digests[Int($0)] } }
        #expect(found.prefix(count).enumerated().allSatisfy { $0.element == UInt32($0.offset) })
        #expect(found.suffix(100).allSatisfy { $0 == nil })
    }
}
