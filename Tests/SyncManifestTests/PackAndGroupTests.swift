import SyncManifest
import SyncModel
import Testing

private let hex = String(repeating: "3", count: 64)

@Suite(.timeLimit(.minutes(10)))
struct PackAndGroupTests {
    /// A document whose only pack is this.
    private static func pack(_ members: String, _ path: String, _ reason: String) -> Rejection {
        Rejection(
            "{\"format\":\"syncagent-manifest/1\",\"project\":\"p\",\"files\":[],\"packs\":[{\(members)}]}",
            "$.packs[0]" + path, reason)
    }

    @Test(
        "A pack says where it is, its size and its SHA-256 [V41, V47]",
        arguments: [
            pack("\"size\":1,\"sha256\":\"\(hex)\"", ".url", "the key is missing"),
            pack("\"urls\":[],\"size\":1,\"sha256\":\"\(hex)\"", ".url", "the key is missing"),
            pack("\"url\":\"a\",\"sha256\":\"\(hex)\"", ".size", "the key is missing"),
            pack("\"url\":\"a\",\"size\":1", ".sha256", "the key is missing"),
            pack("\"url\":\"a\",\"urls\":[\"b\"]", ".urls", "location is given twice"),
            pack("\"url\":\"a\",\"url\":\"b\"", ".url", "location is given twice"),
            pack("\"url\":\"file:///etc/passwd\"", ".url", "the scheme “file”"),
            pack("\"urls\":[\"a\",\"ftp://h/x\"]", ".urls[1]", "the scheme “ftp”"),
            pack("\"size\":-1", ".size", "negative"), pack("\"size\":1,\"size\":1", ".size", "appears twice"),
            pack("\"sha256\":\"xyz\"", ".sha256", "has 3 bytes"),
            pack("\"sha256\":\"\(hex)\",\"sha256\":\"\(hex)\"", ".sha256", "appears twice"),
            pack("\"name\":1", "[\"name\"]", "unknown key"),
        ])
    func packs(_ row: Rejection) { row.check() }

    @Test("A pack cannot be declared twice")
    func repeatedPack() {
        let entry = "{\"url\":\"a\",\"size\":1,\"sha256\":\"\(hex)\"}"
        Rejection(
            "{\"format\":\"syncagent-manifest/1\",\"project\":\"p\",\"files\":[],\"packs\":[\(entry),\(entry)]}",
            "$.packs[1].sha256", "the same as $.packs[0]"
        ).check()
    }

    @Test("A pack has mirrors in the order written")
    func mirrors() throws {
        let text = """
            {"format":"syncagent-manifest/1","project":"p","files":[],
            "packs":[{"urls":["https://a.example/p","p"],"size":1,"sha256":"\(hex)"}]}
            """
        #expect(try ManifestFixture.load(text).packs.first?.urls == ["https://a.example/p", "p"])
    }

    @Test(
        "A group has a name; hooks are names and never commands [V55, V62]",
        arguments: [
            Rejection.top("\"groups\":{}", ".groups", "expected an array"),
            .top("\"groups\":[{}]", ".groups[0].name", "the key is missing"),
            .top("\"groups\":[{\"name\":\"\"}]", ".groups[0].name", "is empty"),
            .top("\"groups\":[{\"name\":\"all\"}]", ".groups[0].name", "“all” is taken"),
            .top("\"groups\":[{\"name\":\"a b\"}]", ".groups[0].name", "not an identifier"),
            .top("\"groups\":[{\"name\":\"a=b\"}]", ".groups[0].name", "not an identifier"),
            .top("\"groups\":[{\"name\":\"-a\"}]", ".groups[0].name", "not an identifier"),
            .top("\"groups\":[{\"name\":\"../a\"}]", ".groups[0].name", "not an identifier"),
            .top("\"groups\":[{\"name\":\"a\"},{\"name\":\"a\"}]", ".groups[1].name", "declared twice"),
            .top("\"groups\":[{\"name\":\"a\",\"name\":\"a\"}]", ".groups[0].name", "appears twice"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":[\"./x\"]}]", ".groups[0].hooks[0]", "not an identifier"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":[\"ok\",\"/bin/sh\"]}]", ".groups[0].hooks[1]", "not an ident"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":[\"rm -rf\"]}]", ".groups[0].hooks[0]", "not an identifier"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":[\"..\"]}]", ".groups[0].hooks[0]", "not an identifier"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":[[\"a\"]]}]", ".groups[0].hooks[0]", "expected a string"),
            .top("\"groups\":[{\"name\":\"a\",\"hooks\":\"a\"}]", ".groups[0].hooks", "expected an array"),
            .top("\"groups\":[{\"name\":\"a\",\"include\":[\"/x\"]}]", ".groups[0].include[0]", "absolute"),
            .top("\"groups\":[{\"name\":\"a\",\"include\":[\"a/../b\"]}]", ".groups[0].include[0]", "component"),
            .top("\"groups\":[{\"name\":\"a\",\"exec\":\"x\"}]", ".groups[0][\"exec\"]", "unknown key"),
            .files("{\"path\":\"a\",\"link\":\"b\",\"group\":\"all\"}", "[0].group", "“all” is taken"),
            .files("{\"path\":\"a\",\"link\":\"b\",\"group\":\"a/b\"}", "[0].group", "not an identifier"),
        ]) func groups(_ row: Rejection)
    { row.check() }

    @Test(
        "The project is safe as a file name and as a session",
        arguments: [
            ("", "is empty"), (".", "not an identifier"), ("..", "not an identifier"), (".hidden", "not an identifier"),
            ("a/b", "not an identifier"), ("a b", "not an identifier"), ("a\u{0}", "not an identifier"),
            ("é", "not an identifier"), ("-x", "not an identifier"), (String(repeating: "a", count: 256), "256 bytes"),
        ])
    func project(_ name: String, _ reason: String) {
        Rejection(
            "{\"format\":\"syncagent-manifest/1\",\"project\":\(ManifestFixture.quoted(name)),\"files\":[]}",
            "$.project", reason
        ).check()
    }

    @Test(
        "Format, revision and time are checked [F109]",
        arguments: [
            Rejection("{\"format\":\"syncagent-manifest/2\"}", "$.format", "“syncagent-manifest/2”, and this program"),
            Rejection("{\"format\":\"metalink\"}", "$.format", "“metalink”"),
            Rejection("{\"format\":1}", "$.format", "expected a string"),
            Rejection("{\"format\":\"syncagent-manifest/1\"}", "$.project", "missing"),
            Rejection("{\"format\":\"syncagent-manifest/1\",\"project\":\"p\"}", "$.files", "missing"),
            .top("\"revision\":-1", ".revision", "negative"),
            .top("\"revision\":9223372036854775808", ".revision", "above"),
            .top("\"revision\":\"1\"", ".revision", "expected an integer"),
            .top("\"created\":\"yesterday\"", ".created", "not a date and time"),
            .top("\"created\":\"2026-11-20\"", ".created", "not a date and time"),
            .top("\"created\":\"2026-11-20T02:00:00\"", ".created", "not a date and time"),
            .top("\"created\":\"2026-11-20T02:00:00.Z\"", ".created", "not a date and time"),
            .top("\"created\":\"2026-11-20T02:00:00+0100\"", ".created", "not a date and time"),
        ])
    func topLevel(_ row: Rejection) { row.check() }

    @Test(
        "Times of RFC 3339 are taken as written",
        arguments: ["2026-11-20T02:00:00Z", "2026-11-20T02:00:00.123456Z", "2026-11-20T02:00:00-08:00"])
    func times(
        _ time: String
    ) throws {
        let text = ManifestFixture.document(files: "", extra: ",\"created\":\"\(time)\"")
        #expect(try ManifestFixture.load(text).created == time)
    }
}
