import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)), .enabled(if: PluginFixture.hasPython, "there is no /usr/bin/python3"))
struct ResolverTests {
    /// A disposition as a plugin writes it, what it means, and a word of the warning that comes with it.
    struct Row: Sendable, CustomTestStringConvertible {
        let json: String
        let means: RequestDisposition
        var warning: String?
        var testDescription: String { json }
    }

    static let link = "https://cdn.example/a?sig=1"

    @Test(
        "Each disposition, and what is not allowed, which lets the request go on [S54 S55 V28]",
        arguments: [
            Row(json: "{'disposition': 'continue'}", means: .proceed),
            Row(json: "{'disposition': 'cancel'}", means: .cancel(reason: "plugin test gave no reason")),
            Row(json: "{'disposition': 'cancel', 'reason': 'gone\\x1b[m'}", means: .cancel(reason: "gone\\u{1b}[m")),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': '\(link)'}}",
                means: .replace(url: link, headers: [])),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': '\(link)', 'headers': {'X-B': '2', 'X-A': '1'}}}",
                means: .replace(url: link, headers: [HeaderField("X-A", "1"), HeaderField("X-B", "2")])),
            Row(
                json: "{'disposition': 'continue', 'request': {'url': '\(link)'}}", means: .proceed,
                warning: "fields that this disposition does not have are ignored: request"),
            Row(json: "{'disposition': 'replace'}", means: .proceed, warning: "without an absolute http"),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': 'file:///etc/passwd'}}", means: .proceed,
                warning: "without an absolute http"),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': 'https://a.example/\\r\\nX: y'}}", means: .proceed,
                warning: "without an absolute http"),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': '\(link)', 'headers': {'X-A': 'a\\r\\nHost: b'}}}",
                means: .proceed, warning: "not a single line of text"),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': '\(link)', 'headers': {'Host': 'b'}}}",
                means: .proceed, warning: "may not be set by a plugin"),
            Row(
                json: "{'disposition': 'replace', 'request': {'url': '\(link)', 'headers': {'a b': 'c'}}}",
                means: .proceed, warning: "not a token"),
            Row(json: "{'disposition': 'later'}", means: .proceed, warning: "not one of continue, replace, cancel"),
            Row(json: "7", means: .proceed, warning: "not one of continue, replace, cancel"),
        ]) func disposition(row: Row) async throws
    {
        let fixture = try PluginFixture()
        let client = try fixture.client("serve(lambda m: answer(m, {'dispositions': [\(row.json)]}))")
        #expect(try await client.resolve().get() == row.means)
        if let warning = row.warning {
            #expect(fixture.notices(.warning).contains { $0.contains(warning) }, "\(fixture.notices())")
        } else {
            #expect(fixture.notices().isEmpty, "\(fixture.notices())")
        }
    }

    @Test("A plugin is told URL, original, range and reason; twenty thousand requests are few questions")
    func questions() async throws {
        let fixture = try PluginFixture()
        let body = """
            log = open("\(fixture.root.path)/questions", "a")
            def handler(message):
                requests = message["params"]["requests"]
                log.write("%d %s\\n" % (len(requests), json.dumps(requests[0], sort_keys=True)))
                log.flush()
                answer(message, {"dispositions": [
                    {"disposition": "replace", "request": {"url": r["url"] + "?s"}} for r in requests]})
            serve(handler)
            """
        let client = try fixture.client(body)
        let resolver = client
        let first = ResolverRequest(
            url: "https://b.example/x", original: "https://a.example/x", range: 5..<9, reason: .expired(status: 403))
        #expect(
            try await blocking { try? resolver.resolve([first]) } == [
                .replace(url: "https://b.example/x?s", headers: [])
            ])
        let many = (0..<20_000).map { number in
            let url = "https://a.example/files/\(number)"
            return ResolverRequest(url: url, original: url)
        }
        let answers = try #require(await blocking { try? resolver.resolve(many) })
        #expect(answers.count == 20_000)
        #expect(answers.last == .replace(url: "https://a.example/files/19999?s", headers: []))
        let questions = fixture.text("questions").split(separator: "\n")
        #expect(questions.count == 41)
        let told =
            #"1 {"original": "https://a.example/x", "range": [5, 9], "reason": "expired", "status": 403, "#
            + #""url": "https://b.example/x"}"#
        #expect(questions.first.map(String.init) == told)
    }
}
