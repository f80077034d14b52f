import SyncManifest
import Testing

@Suite(.timeLimit(.minutes(10)))
struct LinkTests {
    @Test(
        "A link that leaves the tree, or leads to the agent's own, is refused [V4, V62]",
        arguments: [
            Rejection.link("", "no target"), .link("/etc", "is absolute"), .link("/", "is absolute"),
            .link("../..", "leaves the tree"), .link("../../x", "leaves the tree"),
            .link(".././../x", "leaves the tree"), .link("..//..//x", "leaves the tree"),
            .link("a/../../../x", "leaves the tree"), .link("../.syncagent/id", "under “.syncagent”"),
            .link("../.SYNCAGENT", "under “.syncagent”"), .link("../a/.syncagent/x", "under “.syncagent”"),
            .link("../.syncagent/../x", "under “.syncagent”"), .link("a\u{0}b", "control"), .link("a\nb", "control"),
            .link("a\u{202E}b", "bidirectional"), .link(String(repeating: "a", count: 256), "256 bytes"),
            .link(String(repeating: "a/", count: 2_048), "4096 bytes"),
            .link((0..<33).map { "a\($0)/../" }.joined() + "b", "goes up again from more than 32 places"),
            .link("a/../b", "goes up from “dir/a”, which is not a directory"),
        ])
    func refused(_ row: Rejection) { row.check() }

    @Test("A chain of links cannot leave the tree, though each looks harmless [V4]")
    func chain() {
        // `d/up` is the root; `d/up/..` is outside, though by its text it is `d`.
        let files = [
            ManifestFixture.link("d/up", to: ".."), ManifestFixture.link("escape", to: "d/up/../x"),
            ManifestFixture.entry("d/file"),
        ].joined(separator: ",")
        Rejection.files(files, "[1].link", "goes up from “d/up”, which is not a directory").check()
    }

    @Test(
        "A path cannot go through a link, in any order and at any depth [V5, V6]",
        arguments: [["a", "a/b"], ["a/b", "a"], ["x", "a/b/c/d", "a/b", "z"], ["A/b", "A"]])
    func through(
        _ paths: [String]
    ) throws {
        let shortest = try #require(paths.filter { path in paths.contains { $0.hasPrefix(path + "/") } }.first)
        let files = paths.map { $0 == shortest ? ManifestFixture.link($0, to: "z") : ManifestFixture.entry($0) }
        let index = try #require(paths.firstIndex(of: shortest))
        Rejection.files(files.joined(separator: ","), "[\(index)].path", "is a link, and").check()
    }

    @Test(
        "Links inside the tree are kept as they are written",
        arguments: [
            "x", "./x", "../x", "..", ".", "x/", "x//y", "../real/../x", "real/sub/../../y", "-x", "é", ".x", "link",
        ])
    func accepted(_ target: String) throws {
        let files = [
            ManifestFixture.link("dir/link", to: target), ManifestFixture.entry("real/file"),
            ManifestFixture.entry("dir/real/sub/file"),
        ].joined(separator: ",")
        let table = try ManifestFixture.load(ManifestFixture.document(files: files)).files
        #expect(table.linkTarget(0) == target || table.linkTarget(1) == target)
        #expect(table.indices.filter { table.kind($0) == .link }.count == 1)
    }

    @Test(
        "A link carries nothing but its target and its group",
        arguments: [
            ("\"size\":0", "size"), ("\"sha256\":\"\(ManifestFixture.digest)\"", "sha256"), ("\"blobs\":[]", "blobs"),
            ("\"urls\":[]", "urls"), ("\"executable\":true", "executable"),
        ])
    func extraKeys(_ member: String, _ key: String) {
        Rejection.files("{\"path\":\"a\",\"link\":\"b\",\(member)}", "[0].\(key)", "a link has “\(key)”").check()
        Rejection.files("{\(member),\"link\":\"b\",\"path\":\"a\"}", "[0].\(key)", "a link has “\(key)”").check()
    }
}
