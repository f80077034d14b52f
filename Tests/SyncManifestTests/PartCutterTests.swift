import SyncManifest
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PartCutterTests {
    /// The entries that begin a part, the first one not counted.
    private func borders(_ paths: [String], weight: Int = 100) -> [String] {
        var cutter = PartCutter()
        return paths.filter { path in
            Array(path.utf8).withUnsafeBufferPointer { cutter.isBorder(before: $0, weight: weight) }
        }
    }

    private static let paths: [String] = (0..<12_000).map { number in
        let digits = String(number)
        return "d\(number / 1_000)/" + String(repeating: "0", count: 6 - digits.count) + digits
    }.sorted()

    @Test("Borders depend on the paths alone: these, in every version of the program")
    func pinned() {
        let borders = borders(Self.paths)
        #expect(borders.prefix(2) == PartCutterTests.first[...])
        #expect((8...20).contains(borders.count), "\(borders.count)")
    }

    private static let first = ["d1/001419", "d10/010108"]

    @Test("A part has at least 256 entries and at most 4,096")
    func sizes() throws {
        let borders = borders(Self.paths)
        var start = 0
        for border in borders {
            let end = try #require(Self.paths.firstIndex(of: border))
            #expect((PartCutter.minimum...PartCutter.maximum).contains(end - start))
            start = end
        }
    }

    @Test("An entry that comes or goes moves at most the borders beside it", arguments: [0, 777, 6_000, 11_999])
    func neighbourhood(_ place: Int) {
        let before = Set(borders(Self.paths))
        var paths = Self.paths
        paths.insert(paths[place] + "a", at: place + 1)
        #expect(before.symmetricDifference(borders(paths)).count <= 2)
        paths = Self.paths
        paths.remove(at: place)
        #expect(before.symmetricDifference(borders(paths)).count <= 2)
    }

    @Test("Long entries end a part early, and an entry longer than a part stands alone")
    func weights() {
        let paths = Array(Self.paths.prefix(10))
        #expect(borders(paths, weight: PartCutter.weight / 2) == [2, 4, 6, 8].map { paths[$0] })
        #expect(borders(paths, weight: PartCutter.weight + 1) == Array(paths.dropFirst()))
    }
}
