import SyncModel
import SyncSystem
import Testing

@testable import SyncTransfer

extension RedirectChain {
    /// Follows a redirect, or says why not.
    fileprivate mutating func follow(
        _ location: String?, status: Int = 302, maxAge: Int? = nil, _ policy: RedirectPolicy = RedirectPolicy(),
        rules: [RewriteRule] = []
    ) -> Result<CurlURL, Fault> {
        var answer = ResponseHeaders()
        (answer.status, answer.location, answer.cacheControl) = (status, location, maxAge.map { "max-age=\($0)" })
        do throws(Fault) {
            return .success(try follow(answer, policy, RewriteRules(rules), now: 1000).target)
        } catch { return .failure(error) }
    }
}

@Suite("Redirect chains", .timeLimit(.minutes(10)))
struct RedirectChainTests {
    static func chain(_ url: String = "https://files.example/dir/a?q=1") throws -> RedirectChain {
        RedirectChain(original: try CurlURL(url))
    }

    @Test(
        "A Location resolves against the current URL [S76 F021]",
        arguments: [
            ("https://cdn.example/b", "https://cdn.example/b"), ("/b", "https://files.example/b"),
            ("b", "https://files.example/dir/b"), ("../b", "https://files.example/b"),
            ("?x=2", "https://files.example/dir/a?x=2"), ("//cdn.example/b", "https://cdn.example/b"),
            ("b#part", "https://files.example/dir/b"), ("b c", "https://files.example/dir/b%20c"),
            ("b%20c", "https://files.example/dir/b%20c"), ("/ä", "https://files.example/%c3%a4"),
        ])
    func resolves(location: String, target: String) throws {
        for status in [301, 302, 303, 307, 308] {
            var chain = try Self.chain()
            #expect(chain.follow(location, status: status) == .success(try CurlURL(target)))
            #expect(chain.current.text == target)
            #expect(chain.original.text == "https://files.example/dir/a?q=1")
            #expect(chain.hops == 1)
            #expect(chain.firstStatus == status)
        }
    }

    private static func isUnusable(_ step: Result<CurlURL, Fault>) -> Bool {
        guard case .failure(let fault) = step, fault.kind == .redirect else { return false }
        return fault.detail.hasPrefix("a redirect without a usable target: ")
    }

    @Test(
        "Not a usable target [S80 V27 F021]",
        arguments: [
            nil, "", "file:///etc/passwd", "ftp://files.example/a", "gopher://h/", "javascript:1",
            "https://user:secret@cdn.example/", "/a\r\nX: y", "/a\u{1}", "https://", "http://[::1", "data:,x",
        ])
    func unusable(location: String?) throws {
        var chain = try Self.chain()
        let step = chain.follow(location)
        #expect(Self.isUnusable(step), "followed \(location ?? "nothing") to \(chain.current.text)")
        #expect(chain.current == (try Self.chain()).current && chain.hops == 0, "a refused redirect leaves no trace")
        #expect(chain.follow("/b") == .success(try CurlURL("https://files.example/b")))
    }

    @Test(
        "A control character that one more decoding would bring out is refused, wherever it stands [V27]",
        arguments: [
            "/a%0d%0aHost:x", "/a%0D%0A", "/a%00", "/a%1b[2J", "/a%7F", "https://cdn.example%0d%0a/",
            "https://cdn.example%00.files.example/", "https://u%0a@cdn.example/", "/a?x=%0d%0aX:%201", "/a#%0a", "%0a",
        ])
    func encodedLineEnd(location: String) throws {
        var chain = try Self.chain()
        let step = chain.follow(location)
        #expect(Self.isUnusable(step), "followed \(location) to \(chain.current.text)")
    }

    @Test("Other encoded characters are not", arguments: ["/a%20b", "/%c3%a4", "/100%", "/%zz", "/%8", "/%2500"])
    func encoded(location: String) throws {
        var chain = try Self.chain()
        let step = chain.follow(location)
        guard case .success = step else {
            Issue.record("refused \(location): \(step)")
            return
        }
    }

    @Test("https does not become http, unless the host may [V25 F023]")
    func downgrade() throws {
        var chain = try Self.chain()
        let words = "a redirect from https to http, \(redacted(chain.current)) to http://files.example/a"
        #expect(chain.follow("http://files.example/a") == .failure(Fault(.policy, words, advice: .allowDowngrade)))
        var policy = RedirectPolicy()
        policy.downgrade = .hosts(["files.example"])
        #expect(chain.follow("http://files.example/a", policy) == .success(try CurlURL("http://files.example/a")))
        #expect(!policy.downgrade.covers("cdn.example"))
        #expect(HostExemption.all.covers("cdn.example"))
    }

    @Test("Circles and long chains end [V51 F022]")
    func limits() throws {
        var chain = try Self.chain("http://a.example/0")
        let loop = Fault(.redirect, "a redirect loop, back to http://a.example/0", advice: .leaveLoop)
        #expect(chain.follow("/0") == .failure(loop))
        for hop in 1...10 { #expect(chain.follow("/\(hop)") == .success(try CurlURL("http://a.example/\(hop)"))) }
        #expect(chain.follow("/11") == .failure(Fault(.redirect, "more than 10 redirects")))
        #expect(chain.hops == 10)
    }

    @Test(
        "Home is scheme, host and port [V19]",
        arguments: [
            ("/b", true), ("https://files.example:443/b", true), ("https://FILES.example/b", true),
            ("https://files.example:8443/b", false), ("https://files.example./b", false),
            ("https://cdn.example/b", false), ("https://files.example.evil.example/", false),
        ])
    func home(location: String, isAtHome: Bool) throws {
        var chain = try Self.chain()
        _ = chain.follow(location)
        #expect(chain.isAtHome == isAtHome)
    }

    @Test("A rule of the user's chooses the target, and policies do not hold it back")
    func rewritten() throws {
        let mirror = try CurlURL("http://10.0.0.2/a")
        var chain = try Self.chain()
        let rule = try RewriteRule("https://cdn.example/ http://10.0.0.2/")
        #expect(chain.follow("https://cdn.example/a", rules: [rule]) == .success(try CurlURL("https://cdn.example/a")))
        #expect(chain.current == mirror)
        #expect(chain.isByRule)
        #expect(RedirectChain(original: try CurlURL("https://a.example/"), rewritten: mirror).isAtHome)
    }

    @Test("The shortest life of the hops is the chain's")
    func life() throws {
        var chain = try Self.chain()
        for (hop, life) in [60, 10, 300].enumerated() {
            _ = chain.follow("/\(hop)", maxAge: life)
        }
        #expect(chain.life == 10)
    }
}

@Suite("URLs", .timeLimit(.minutes(10)))
struct CurlURLTests {
    @Test(
        "Origins as libcurl connects [V30 V31]",
        arguments: [
            ("http://HOST/a", "http://host"), ("https://host:443/", "https://host"),
            ("http://host:443/", "http://host:443"), ("http://127.1/", "http://127.0.0.1"),
            ("http://0x7f000001/", "http://127.0.0.1"), ("http://2130706433/", "http://127.0.0.1"),
            ("http://[::1]:80/", "http://[::1]"), ("http://host#@evil/", "http://host"),
            ("http://host./", "http://host."), ("HTTPS://host?x", "https://host"),
        ])
    func origins(text: String, origin: String) throws { #expect(try CurlURL(text).origin.description == origin) }

    @Test(
        "Not asked [S80 V27 V30]",
        arguments: [
            "", "host/path", "//host/", "http://", "http://a%2fb/", "http://a b/", "http://host:0/",
            "http://host:65536/", "http://host:x/", "http://u@host/", "http://u:p@host/", "file:///etc/passwd",
            "ftp://host/", "gopher://host/", "dict://host/", "smb://host/", "ldap://host/", "scp://host/",
            "http://host/\n", "http://host/a\r\nX: 1", "http://host/\u{0}", "http://host/\u{7f}",
        ])
    func refused(text: String) { #expect(throws: URLError.self) { try CurlURL(text) } }

    @Test("Longer than 16 KiB is refused")
    func length() {
        #expect(throws: URLError.self) { try CurlURL("http://host/" + String(repeating: "a", count: 16_384)) }
    }
}
