import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct LimitTests {
    private static let digest = ManifestFixture.digest

    @Test("A larger own text raises memory and counts with it, and a smaller one lowers none [V46]")
    func grown() {
        let (standard, small, large) = (
            ManifestLimits.standard, ManifestLimits(ownText: 1), ManifestLimits(ownText: 2 << 30)
        )
        #expect(small.entries == standard.entries && small.memoryBytes == standard.memoryBytes)
        #expect(small.patternMatches == standard.patternMatches && small.patternBytes == standard.patternBytes)
        #expect(large.memoryBytes == 6 << 30)
        #expect(large.entries == 100_663_296 && large.blobs > large.entries && large.packs > standard.packs)
        #expect(large.patternMatches == large.entries * 10)
        // The tables count with 32 bits.
        let all = ManifestLimits(ownText: .max)
        #expect(all.entries > large.entries)
        #expect([all.entries, all.blobs, all.packs, all.textBytes].allSatisfy { UInt32(exactly: $0) != nil })
    }

    /// One limit set low, and a text that is one above it.
    struct Row: Sendable, CustomTestStringConvertible {
        var limit: any WritableKeyPath<ManifestLimits, Int> & Sendable
        var value: Int
        var text: String
        var path: String
        var reason: String
        var testDescription: String { reason }
    }

    @Test(
        "Past a limit the message names it; at the limit the manifest is read [V46, V53]",
        arguments: [
            Row(
                limit: \.entries, value: 2, text: ManifestFixture.document(files: entries(3)), path: "$.files[2]",
                reason: "more than 2 entries in “files”"),
            Row(
                limit: \.packs, value: 1, text: ManifestFixture.document(files: ""), path: "$.packs[1]",
                reason: "more than 1 packs"),
            Row(
                limit: \.blobs, value: 1,
                text: ManifestFixture.document(
                    files: """
                        {"path":"a","size":2,"sha256":"\(digest)",
                        "blobs":[[0,0,1,1,"none","\(digest)"],[0,0,1,1,"none","\(digest)"]]}
                        """), path: "$.files[0].blobs[1]", reason: "more than 1 blobs"),
            Row(
                limit: \.groups, value: 1,
                text: ManifestFixture.document(files: "", extra: ",\"groups\":[{\"name\":\"a\"},{\"name\":\"b\"}]"),
                path: "$.groups[1]", reason: "more than 1 groups"),
            Row(
                limit: \.groups, value: 1,
                text: ManifestFixture.document(
                    files:
                        "{\"path\":\"a\",\"link\":\"x\",\"group\":\"a\"},{\"path\":\"b\",\"link\":\"x\",\"group\":\"b\"}"
                ), path: "$.files[1].group", reason: "more than 1 groups"),
            Row(
                limit: \.patternsPerGroup, value: 1,
                text: ManifestFixture.document(
                    files: "", extra: ",\"groups\":[{\"name\":\"a\",\"include\":[\"a\",\"b\"]}]"),
                path: "$.groups[0].include[1]", reason: "more than 1 patterns"),
            Row(
                limit: \.patternMatches, value: 5,
                text: ManifestFixture.document(
                    files: entries(4) + "," + ManifestFixture.entry("d/e"),
                    extra: ",\"groups\":[{\"name\":\"a\",\"include\":[\"d/*\",\"3\",\"x/**\",\"*\"]}]"),
                path: "$.groups[0].include[3]", reason: "tried on more than 5 paths"),
            Row(
                limit: \.urlsPerFile, value: 2,
                text: ManifestFixture.document(
                    files: "{\"path\":\"a\",\"size\":1,\"sha256\":\"\(digest)\",\"urls\":[\"a\",\"b\",\"c\"]}"),
                path: "$.files[0].urls[2]", reason: "more than 2 URLs"),
            Row(
                limit: \.urlBytes, value: 3,
                text: ManifestFixture.document(
                    files: "{\"path\":\"a\",\"size\":1,\"sha256\":\"\(digest)\",\"urls\":[\"abcd\"]}"
                ).replacing("packs/", with: ""), path: "$.packs[0].url", reason: "6 bytes, above the limit of 3"),
            Row(
                limit: \.textBytes, value: 5, text: ManifestFixture.document(files: entries(4)),
                path: "$.files[2].path", reason: "more than 5 bytes"),
            Row(
                limit: \.manifestBytes, value: 10, text: ManifestFixture.document(files: ""), path: "$",
                reason: "above the limit of 10"),
            Row(
                limit: \.depth, value: 3, text: ManifestFixture.document(files: "", extra: ",\"x-a\":[[[]]]"),
                path: "$[\"x-a\"]", reason: "more than 3 nested"),
            Row(
                limit: \.extensionMembers, value: 1,
                text: ManifestFixture.document(files: "", extra: ",\"x-a\":{\"a\":1,\"b\":2}"), path: "$[\"x-a\"]",
                reason: "more than 1 extension keys"),
        ]) func limit(_ row: Row) throws
    {
        var limits = ManifestLimits.standard
        limits[keyPath: row.limit] = row.value
        let error = try #require(ManifestFixture.refusal(row.text, limits: limits))
        #expect(error.path == row.path)
        #expect(error.reason.contains(row.reason), "\(error.reason)")
        limits[keyPath: row.limit] = row.value + 10_000
        #expect(ManifestFixture.refusal(row.text, limits: limits) == nil)
    }

    @Test("Ten thousand files in any order are read [V53]")
    func many() throws {
        let files = (0..<10_000).reversed().map { ManifestFixture.entry("d\($0 % 97)/f\($0)") }
        let table = try ManifestFixture.load(ManifestFixture.document(files: files.joined(separator: ","))).files
        #expect(table.count == 10_000)
        for row in table.indices.dropFirst() {
            #expect(table.withPath(row - 1) { before in table.withPath(row) { PathOrder.precedes(before, $0) } })
        }
    }

    private static func entries(_ count: Int) -> String {
        (0..<count).map { ManifestFixture.entry("\($0)") }.joined(separator: ",")
    }
}
