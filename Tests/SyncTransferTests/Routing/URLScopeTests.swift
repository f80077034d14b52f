import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Which URLs a plugin is for", .timeLimit(.minutes(10)))
struct URLScopeTests {
    @Test(
        "An origin is compared as one, not as text [V19 V31]",
        arguments: [
            ("https://a.example", "https://a.example/x", true), ("https://a.example/", "https://a.example/x", true),
            ("https://A.Example:443/", "https://a.example", true),
            ("http://127.0.0.1:2817", "http://127.0.0.1:2817/", true),
            ("http://127.0.0.1:2817", "http://127.0.0.1:28173/", false),
            ("https://a.example", "https://a.example.evil.example/", false),
            ("https://a.example", "https://a.example@evil.example/", false),
            ("https://a.example", "http://a.example/", false), ("https://a.example", "https://a.example:8443/", false),
            ("https://a.example", "https://a.example./", false), ("https://a.example", "no URL", false),
        ])
    func origins(text: String, url: String, isCovered: Bool) throws {
        #expect(try URLScope.origins([text]).covers(url) == isCovered)
        #expect(try URLScope.prefixes(["https://other.example/", text]).covers(url) == isCovered)
        #expect(try URLScope.origins([]).covers(url) && URLScope.all.covers(url))
    }

    @Test(
        "A path ends where one of its components does",
        arguments: [
            ("https://a.example/packs", "https://a.example/packs", true),
            ("https://a.example/packs", "https://a.example/packs?x=1", true),
            ("https://a.example/packs", "https://a.example/packs/1", true),
            ("https://a.example/packs", "https://a.example/packs-secret/1", false),
            ("https://a.example/packs/", "https://a.example/packs/1", true),
            ("https://a.example/packs/", "https://a.example/packs", false),
            ("https://a.example/packs/", "https://a.example/packs/../other", false),
            ("https://a.example/packs/", "https://a.example/packs/%2e%2E/other", false),
            ("https://a.example/packs/", "https://a.example/packs/.%2e/other", false),
            ("https://a.example/packs/", "https://a.example/x/%2e./packs/%2e/1", true),
            ("https://a.example/packs/", "https://a.example/packs/%2e%2e%2e/1", true),
            ("https://a.example/packs/", "https://a.example/packs/1?%2e%2e/%2e%2e/", true),
            ("store://a/b/", "store://a/b/%2e%2e/c", false), ("store://a/b/", "store://a/b/.%2E/c", false),
            ("store://a/b/", "store://a/b/x%2f..%2f..%2Fc", false), ("store://a/b/", "store://a/b/%2e%2e%2e", true),
            ("https://a.example/packs/", "https://a.example.evil.example/packs/1", false),
            ("http:", "http://a.example/", true), ("HTTP://", "http://a.example/", true),
            ("http:", "https://a.example/", false), ("sftp:", "SFTP://a.example/x", true),
            ("sftp:", "sftps://a.example/x", false), ("sftp:", "sftp", false), ("STORE://a/", "store://a/x", true),
            ("store://a", "Store://a/x?y", true), ("store://a", "store://a", true),
            ("store://a", "store://ab/x", false), ("store://a/b/", "store://a/b", false),
            ("store://a/b/", "store://a/b/../c", false), ("store:///b/", "store:///b/c", true),
            ("store://a/", "https://a/x", false),
        ]) func prefixes(text: String, url: String, isCovered: Bool) throws
    { #expect(try URLScope.prefixes([text]).covers(url) == isCovered) }

    @Test(
        "What is neither is refused",
        arguments: [
            "", "a.example", "//a.example/", "https://", "https://a.example/?x", "https://a.example/#x",
            "https://u:p@a.example/", "https://a b/", "ftp://a.example/?x", ":", "1a:", "https:/", "*",
        ])
    func refused(text: String) {
        #expect(throws: URLError.self) { try URLScope.origins([text]) }
        if text != "https://" { #expect(throws: URLError.self) { try URLScope.prefixes([text]) } }
    }

    @Test("A credential plugin is for origins only", arguments: ["https://a.example/packs/", "https:", "https://"])
    func onlyOrigins(text: String) throws {
        #expect(throws: URLError.self) { try URLScope.origins([text]) }
        #expect(throws: Never.self) { try URLScope.prefixes([text]) }
    }

    @Test("A provider is asked for its origin with a final / or without, and for no port that begins alike [V19]")
    func providers() async throws {
        let object = ServedObject.patterned(size: 5_000)
        for (form, isAsked) in [("", true), ("/", true), ("0", false)] {
            let server = try FaultServer()
            server.serve(object, at: "/a")
            // A port of which this server's is the beginning, or the other way round, is another origin.
            let port = form == "0" ? String(String(server.port).dropLast()) : String(server.port)
            let scope = try URLScope.origins(["http://127.0.0.1:\(port)\(form == "/" ? "/" : "")"])
            let provider = ScriptedProvider { _ in Credential(.bearer(token: "canary")) }
            let bench = try Bench(server: server) {
                $0.credentialProviders = [
                    ConfiguredCredentialProvider(name: "scripted", plugin: provider, scope: scope)
                ]
            }
            try await bench.deliver(object)
            #expect(provider.requests.isEmpty != isAsked)
            #expect(server.log.values(of: "authorization") == (isAsked ? ["Bearer canary"] : []))
        }
    }
}
