import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct URLTests {
    private static func url(_ url: String, _ reason: String) -> Rejection {
        .file("\"urls\":[\"ok\",\(ManifestFixture.quoted(url))]", ".urls[1]", reason)
    }

    /// A manifest with one file that has one URL.
    private static func document(_ url: String) -> String {
        ManifestFixture.document(
            files: "{\"path\":\"a\",\"size\":1,\"sha256\":\"\(ManifestFixture.digest)\",\"urls\":[\"\(url)\"]}")
    }

    @Test(
        "Only http, https and relative URLs that every parser reads alike [S80, V24, V27, V30]",
        arguments: [
            url("", "is empty"), url("http://h/a\nb", "control character"),
            url("http://h/a\r\nHost: x", "control character"), url("http://h/a\u{0}b", "control character"),
            url("a%0d%0aX", "percent-encoded control"), url("a%0Ab", "percent-encoded control"),
            url("a%00b", "percent-encoded control"), url("a%7fb", "percent-encoded control"),
            url("a?q=%0a", "percent-encoded control"), url("a%", "broken percent-encoding"),
            url("a%4", "broken percent-encoding"), url("a%zz", "broken percent-encoding"),
            url("a b", "a character that a URL cannot have"), url("a\\b", "a character that a URL cannot have"),
            url("http:\\\\h\\a", "a character that a URL cannot have"),
            url("é.pdf", "a character that a URL cannot have"),
            url("http://h\u{202E}/", "a character that a URL cannot have"), url("a#b", "has a fragment"),
            url("http://user@h/a", "user name or password"), url("https://user:secret@h/a", "user name or password"),
            url("//user@h/a", "user name or password"), url("http://", "no host"), url("http:///a", "no host"),
            url("http://:80/a", "no host"), url("//", "no host"), url("http:a", "no host"), url("https:/a", "no host"),
            url("http://a%2Fb/c", "percent-encoded"), url("file.txt:1", "has the scheme “file.txt”"),
            url("javascript:alert(1)", "has the scheme “javascript”"),
            url(String(repeating: "a", count: 8_193), "8193 bytes, above the limit of 8192"),
        ])
    func refused(_ row: Rejection) { row.check() }

    @Test(
        "Every other scheme is refused by name [S80]",
        arguments: [
            "dict", "file", "ftp", "ftps", "gopher", "gophers", "imap", "imaps", "ldap", "ldaps", "mqtt", "pop3",
            "pop3s", "rtmp", "rtmpe", "rtmps", "rtmpt", "rtsp", "scp", "sftp", "smb", "smbs", "smtp", "smtps", "telnet",
            "tftp", "ws", "wss", "data", "ipfs", "s3", "HTTPX", "",
        ])
    func schemes(_ scheme: String) {
        Self.url(scheme + "://host/path", "has the scheme “\(scheme.lowercased())”").check()
    }

    @Test("A scheme that this machine has a transport for is let through, without a host too [S80]")
    func served() throws {
        var limits = ManifestLimits.standard
        limits.schemes?.insert("store")
        for (url, isTaken) in [
            ("store:///a/b", true), ("STORE://bucket/b", true), ("store:a", true), ("store:/a/b", true),
            ("store:", false), ("other:/a", false), ("http:/host/a", false), ("https:a", false),
            ("store://me@bucket/b", false), ("file:///etc/passwd", false),
        ] {
            let refusal = ManifestFixture.refusal(Self.document(url), limits: limits)
            #expect((refusal == nil) == isTaken, "\(url)")
        }
    }

    @Test("No secret of a URL reaches the message [V64]")
    func secrets() throws {
        for url in ["https://user:CANARY@h/a", "http://h/a?token=CANARY\u{1}", "ftp://CANARY@h/a", "ftp://h/a?CANARY"] {
            let error = try #require(ManifestFixture.refusal(Self.url(url, "").text))
            #expect(!error.description.contains("CANARY"), "\(error)")
        }
    }

    @Test(
        "Ordinary URLs are kept as written",
        arguments: [
            "a", "a/b.bin", "./a:b", "../a", "/a", "//cdn.example.net/a", "http://h", "HTTPS://H/a",
            "https://h:8443/a?x=y&z", "https://[::1]:80/a", "https://[2001:db8::1]/a", "a%20b", "a?b:c", "a;b=c,d",
            "https://h/a@b", "a/b?c@d", "%41",
        ])
    func accepted(_ url: String) throws { #expect(try ManifestFixture.load(Self.document(url)).files.urls(0) == [url]) }
}
