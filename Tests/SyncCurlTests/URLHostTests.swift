import SyncSystem
import Testing

@Suite("Hosts in URLs", .timeLimit(.minutes(10)))
struct URLHostTests {
    @Test(
        "A host in letters of any script is asked for by its ASCII name, whatever the locale",
        arguments: [
            ("https://b\u{FC}cher.example/a", "xn--bcher-kva.example", "https://xn--bcher-kva.example/a"),
            ("http://B\u{DC}CHER.example:81/", "xn--bcher-kva.example", "http://xn--bcher-kva.example:81/"),
            ("https://xn--bcher-kva.example/\u{FC}", "xn--bcher-kva.example", "https://xn--bcher-kva.example/%c3%bc"),
        ])
    func internationalized(text: String, host: String, asked: String) throws {
        let url = try CurlURL(text)
        #expect(url.origin.host == host)
        #expect(url.text.lowercased() == asked)
    }

    @Test(
        "Steps of a path that lead up or nowhere are taken out, however they are written",
        arguments: [
            ("https://a.example/x/%2e%2e/y", "/y"), ("https://a.example/x/%2E/y", "/x/y"),
            ("https://a.example/x/.%2e", "/"), ("https://a.example/x/%2e%2e?a=/%2e%2e/", "/"),
            ("https://a.example/x/a%2eb/y", "/x/a%2eb/y"),
        ])
    func dots(text: String, path: String) throws { #expect(try CurlURL(text).path == path) }

    @Test("What is no name in any script is no URL")
    func impossible() {
        #expect(throws: URLError.self) { try CurlURL("https://a\u{2028}b.example/") }
        #expect(throws: URLError.self) { try CurlURL("https://\u{FFFD}.example/") }
    }
}
