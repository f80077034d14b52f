import SyncManifest
import Testing

@testable import SyncEngine

@Suite("Requests for the parts of a manifest")
struct PartFetchTests {
    @Test(
        "Parts come in a few requests side by side, and none of them is shorter or longer than pays",
        arguments: [
            (0, 512 << 10), (3 << 20, 512 << 10), (6 << 20, 1 << 20), (12 << 20, 2 << 20), (1 << 30, 2 << 20),
            (.max, 2 << 20),
        ] as [(UInt64, UInt64)])
    func rule(_ total: UInt64, _ longest: UInt64) { #expect(PartFetch.rule(total: total).spanLength == longest) }
}
