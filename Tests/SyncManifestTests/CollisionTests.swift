import Testing

@testable import SyncManifest

@Suite(.timeLimit(.minutes(10)))
struct CollisionTests {
    @Test(
        "Paths that a file system which folds case takes for one are found [V13]",
        arguments: [
            (["README", "readme"], [[0, 1]]), (["a/b/C", "a/B/c"], [[0, 1]]), (["A", "a/b"], [[0, 1]]),
            (["É", "é"], [[0, 1]]), (["É", "e\u{301}x", "e\u{301}"], [[0, 2]]), (["ß", "SS"], [[0, 1]]),
            (["ﬁ", "FI"], [[0, 1]]), (["a\u{200D}b", "ab"], [[0, 1]]), (["x", "X", "y"], [[0, 1]]),
            (["i", "ı"], [[0, 1]]),  // No more than a caution: only some systems fold these.
        ])
    func found(_ paths: [String], _ pairs: [[Int]]) throws {
        let manifest = try manifest(paths)
        let found = manifest.caseCollisions().map { pair in
            [pair.first, pair.second].compactMap { row in
                paths.firstIndex { $0.utf8.elementsEqual(manifest.files.path(row).utf8) }
            }.sorted()
        }
        #expect(found == pairs)
    }

    @Test(
        "Others are not",
        arguments: [["a", "b"], ["Docs/a", "docs/b"], ["a/b", "a/c"], ["ab", "a/b"], ["é", "e"], []])
    func notFound(
        _ paths: [String]
    ) throws { #expect(try manifest(paths).caseCollisions().isEmpty) }

    @Test("The directory of a pair is named as such")
    func directory() throws {
        let pairs = try manifest(["Docs", "docs/a", "docs/b"]).caseCollisions()
        #expect(pairs.map { [$0.first, $0.second] } == [[0, 1]] && pairs.allSatisfy(\.isDirectory))
    }

    @Test(
        "Names that Windows cannot hold are found with the reason [V14]",
        arguments: [
            ("CON", "device"), ("nul.txt", "device"), ("Com1", "device"), ("LPT9.x.y", "device"), ("aux", "device"),
            ("a.", "ends in a dot"), ("a ", "ends in a dot or a space"), ("a:b", "has one of"), ("a\\b", "has one of"),
            ("a*", "has one of"), ("what?", "has one of"),
        ])
    func unportable(_ path: String, _ reason: String) { #expect(problem(path)?.contains(reason) == true) }

    @Test("Names that every system holds are not", arguments: ["COM0", "CONS", "console", "a.b", ".a", "LPT10", "é"])
    func portable(_ path: String) { #expect(problem(path) == nil) }

    private func problem(_ name: String) -> String? { Array(name.utf8).withUnsafeBufferPointer(windowsProblem) }

    private func manifest(_ paths: [String]) throws -> Manifest {
        try ManifestFixture.load(
            ManifestFixture.document(files: paths.map(ManifestFixture.entry).joined(separator: ",")))
    }
}
