import SyncManifest
import Testing

@Suite("What a publisher wants handed on", .timeLimit(.minutes(10)))
struct UserDataTests {
    @Test("It is kept at the manifest, at a group and at a file, on one line and otherwise as it was written")
    func kept() throws {
        let digest = ManifestFixture.digestOfNothing
        let files = """
            {"path":"b","size":0,"sha256":"\(digest)","x-user-data": [1, "a b\\" c" ,\n null]},\
            {"path":"a","size":0,"sha256":"\(digest)","x-other":{"user_data":1}}
            """
        let extra =
            ",\"x-user-data\": { \"model\" : 7.50 },\"groups\":[{\"name\":\"g\",\"x-user-data\":\"x\"},{\"name\":\"h\"}]"
        let manifest = try ManifestFixture.load(ManifestFixture.document(files: files, extra: extra))
        #expect(manifest.userData == "{\"model\":7.50}")
        #expect(manifest.groups.map(\.userData) == ["\"x\"", nil])
        #expect(manifest.files.path(0) == "a" && manifest.files.userData[0] == nil)
        #expect(
            manifest.files.userData[1] == "[1,\"a b\\\" c\",null]", "rows are put in order, and it goes with its row")
    }

    @Test("Longer than it may be, or twice, it is refused by its place")
    func refused() {
        func top(_ bytes: Int) -> String { ",\"x-user-data\":\"\(String(repeating: "x", count: bytes - 2))\"" }
        func document(_ extra: String) -> String { ManifestFixture.document(files: "", extra: extra) }
        #expect(ManifestFixture.refusal(document(top(65_536))) == nil)
        #expect(ManifestFixture.refusal(document(top(65_537)))?.reason.contains("65537 bytes") == true)
        #expect(ManifestFixture.refusal(document(top(9) + top(9)))?.reason.contains("twice") == true)
        let file = ManifestFixture.entry("a").dropLast() + top(4_097) + "}"
        let error = ManifestFixture.refusal(ManifestFixture.document(files: String(file)))
        #expect(error?.path.hasPrefix("$.files[0]") == true && error?.reason.contains("4096") == true)
    }
}
