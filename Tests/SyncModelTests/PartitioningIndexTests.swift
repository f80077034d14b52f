import SyncModel
import Testing

@Suite("Binary search")
struct PartitioningIndexTests {
    @Test(
        "It finds the first position that is behind, wherever that is",
        arguments: [0..<0, 3..<4, 0..<7, 5..<1_000, -9..<(-2), (Int.max - 5)..<Int.max])
    func first(range: Range<Int>) {
        for border in [range.lowerBound, range.lowerBound + range.count / 3, range.upperBound] {
            var calls = 0
            let found = range.partitioningIndex {
                calls += 1
                #expect(range.contains($0))
                return $0 >= border
            }
            #expect(found == border)
            #expect(calls <= 10)
        }
    }
}
