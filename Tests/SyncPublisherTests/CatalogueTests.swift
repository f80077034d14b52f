import SyncManifest
import SyncModel
import Testing

@testable import SyncPublisher

@Suite("The catalogue of blobs")
struct CatalogueTests {
    @Test("A blob of which the base gives only the head of the digest is the one that has it, which it keeps")
    func heads() throws {
        let catalogue = Catalogue()
        func digest(_ first: UInt8, _ last: UInt8) -> SHA256Digest {
            let bytes = [UInt8](repeating: first, count: 16) + [UInt8](repeating: last, count: 16)
            return bytes.withUnsafeBytes { SHA256Digest(bytes: $0) } ?? .zero
        }
        for first in 1...200 {
            let number = catalogue.add(
                Catalogue.Entry(
                    digest: digest(UInt8(first), 0), pack: 7, codec: .identity, offset: 0, storedLength: 1, rawLength: 1
                ))
            #expect(number == UInt32(first - 1))
        }
        #expect(catalogue.full(digest(5, 0)) == nil && catalogue.find(digest(201, 1)) == nil)
        #expect(!catalogue.claim(digest(6, 1), order: 0) && catalogue.claim(digest(201, 1), order: 0))
        #expect(catalogue.find(digest(5, 9)) == 4)
        #expect(catalogue.full(digest(5, 0)) == digest(5, 9) && catalogue.find(digest(5, 0)) == 4)
        // From then on it is no other.
        #expect(catalogue.find(digest(5, 8)) == nil)
        #expect(catalogue.places[4].digest == digest(5, 9) && catalogue.places[3].digest == digest(4, 0))
    }
}
