import Glibc
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncTransfer

@Suite("Rewriting rules", .timeLimit(.minutes(10)))
struct RewriteTests {
    @Test(
        "Rules apply in order; the first that leads elsewhere wins",
        arguments: [
            (["https://a.example/ http://b.example/x/"], "https://a.example/p/1", "http://b.example/x/p/1"),
            (
                ["https://c.example/ http://b.example/", "https://a.example http://d.example"], "https://a.example/p",
                "http://d.example/p"
            ),
            (
                ["~^https://(\\w+)\\.example/(.*)$ https://mirror.test/$1/$2"], "https://a.example/p/q",
                "https://mirror.test/a/p/q"
            ), (["https://A.example:443 http://b.example"], "https://a.example/p?q", "http://b.example/p?q"),
            (["http://a.example http://b.example"], "http://a.example:80/p", "http://b.example/p"),
            (["https://a.example/v1 http://b.example/v2"], "https://a.example/v10", "http://b.example/v20"),
            (["https:// http://b.example/"], "https://a.example/p", "http://b.example/a.example/p"),
            (["HTTPS:// HTTP://b.example/"], "https://a.example/p", "http://b.example/a.example/p"),
            (["HTTPS://A.example/p http://b.example/q"], "https://a.example/p/1", "http://b.example/q/1"),
            (["~/v[0-9]+/ /latest/"], "https://a.example/v12/x", "https://a.example/latest/x"),
            (["~(\\.zst)$ $1?x=$$1"], "https://a.example/m.zst", "https://a.example/m.zst?x=$1"),
            (["https://a.example/ http://"], "https://a.example/b.example/p", "http://b.example/p"),
            (["https://a.example/x http://b.example"], "https://a.example/x/p", "http://b.example/p"),
        ]) func applies(rules: [String], url: String, expected: String) throws
    {
        let found = RewriteRules(try rules.map { try RewriteRule($0) }).apply(to: try CurlURL(url))
        #expect(found?.url.text == expected)
    }

    @Test(
        "No rule, no change",
        arguments: [
            [], ["https://b.example/ http://c.example/"], ["https://a.example/ https://a.example/"],
            ["https://a.exam http://c.example"], ["https://a.example:44 http://c.example"], ["~nothing x"],
            ["~(.*) $9"],
        ])
    func unchanged(rules: [String]) throws {
        #expect(
            RewriteRules(try rules.map { try RewriteRule($0) }).apply(to: try CurlURL("https://a.example/p")) == nil)
    }

    @Test(
        "The beginning of a host or a port is another one's [V19]",
        arguments: [
            ("https://a.example http://b.example", "https://a.example.evil.example/p"),
            ("http://127.0.0.1:2817 http://b.example", "http://127.0.0.1:28173/p"),
            ("http://127.0.0.1 http://b.example", "http://127.0.0.1:81/p"),
            ("https://a.example. http://b.example", "https://a.example/p"),
            ("https://a.example/x http://b.example", "https://a.example/x.evil.example/p"),
            ("https://a.example/x http://b.example:8", "https://a.example/x0/p"),
        ])
    func boundaries(rule: String, url: String) throws {
        #expect(RewriteRules([try RewriteRule(rule)]).apply(to: try CurlURL(url)) == nil)
    }

    @Test(
        "A text that is no rule is refused",
        arguments: ["", "a", "a b c", "a ", " b", "~( x", "~[ x", "https://a:b x", "http://u@a/ x"])
    func notRules(text: String) { #expect(throws: URLError.self) { try RewriteRule(text) } }

    @Test(
        "A rule for what begins no URL is refused: it would never apply",
        arguments: [
            "cdn.example/", "//cdn.example/", "/packs/", "a", "ftp://cdn.example/", "s3://bucket/", "file:///srv/",
            "https:///", "httpx://cdn.example/",
        ])
    func neverApplies(prefix: String) {
        let error = #expect(throws: URLError.self) { try RewriteRule("\(prefix) http://mirror.example/") }
        #expect(error?.description.contains("not the beginning of a URL") == true)
    }

    @Test(
        "A rule that leads to no URL is refused: requests would go where it was to keep them from",
        arguments: [
            "ftp://b.example/", "htp://b.example/", "b.example/", "http://u:canary@b.example/", "http://b:x/",
            "http://b.example", "http://b.example:8", "http://[::1]",
        ])
    func leadsNowhere(replacement: String) {
        let error = #expect(throws: URLError.self) { try RewriteRule("https://a.example/ \(replacement)") }
        #expect(error?.description.contains("canary") == false)
    }

    @Test(
        "So is one for all hosts, and an expression for the beginning",
        arguments: [
            "https:// htp://", "https:// ftp://", "http:// b.example/", "https:// http://b.example", "http: htp:",
            "~^https://a[.]example/(.*) b.example/$1", "~^https://(.*) htp://$1",
        ])
    func leadsNowhere(rule: String) { #expect(throws: URLError.self) { try RewriteRule(rule) } }

    @Test("One for all hosts may change their scheme", arguments: ["http:// https://", "http: https:", "http https"])
    func secured(rule: String) throws {
        let found = RewriteRules([try RewriteRule(rule)]).apply(to: try CurlURL("http://a.example/p"))
        #expect(found?.url.text == "https://a.example/p")
    }
}

@Suite("What redirects taught", .timeLimit(.minutes(10)))
struct RedirectMemoryTests {
    static func url(_ text: String) throws -> CurlURL { try CurlURL(text) }

    func learnt(_ from: String, _ to: String, life: Int64 = 100, now: Int64 = 1000) throws -> RedirectMemory {
        var memory = RedirectMemory()
        memory.learn(
            try Self.url(from), isAt: try Self.url(to), status: 302, originIsPublic: true, life: life, now: now)
        return memory
    }

    @Test("The same URL, and its neighbours, until it expires [S149]")
    func lessons() throws {
        let memory = try learnt("https://a.example/packs/1.pack", "https://cdn.example/x/1.pack")
        let same = memory.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1099)
        #expect(same?.url.text == "https://cdn.example/x/1.pack")
        #expect(same?.status == 302 && same?.originIsPublic == true)
        let neighbour = memory.target(of: try Self.url("https://a.example/packs/2.pack"), now: 1099)
        #expect(neighbour?.url.text == "https://cdn.example/x/2.pack")
        #expect(neighbour?.status == 302 && neighbour?.originIsPublic == true)
        #expect(memory.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1100) == nil)
        #expect(memory.target(of: try Self.url("https://a.example/packs/2.pack"), now: 1100) == nil)
        #expect(memory.target(of: try Self.url("https://a.example/other/1.pack"), now: 1001) == nil)
    }

    @Test("A directory that was asked for without its slash says nothing about the files beside it")
    func slashes() throws {
        for (from, to) in [("/set", "/set/"), ("/set/", "/set/set/"), ("/a/set", "/b/set/"), ("/", "/")] {
            let memory = try learnt("https://a.example\(from)", "https://b.example\(to)")
            let same = memory.target(of: try Self.url("https://a.example\(from)"), now: 1001)
            #expect(same?.url.text == "https://b.example\(to)")
            for directory in ["/", "/set/", "/a/"] {
                let neighbour = try Self.url("https://a.example\(directory)tile.dat")
                #expect(memory.target(of: neighbour, now: 1001) == nil, "\(from) -> \(to): \(directory)")
            }
        }
    }

    @Test("A signed link is for its own object, and for no longer than it says")
    func signed() throws {
        let link = "https://cdn.example/x/1.pack?X-Amz-Date=19700101T001640Z&X-Amz-Expires=30&X-Amz-Signature=ab"
        let memory = try learnt("https://a.example/packs/1.pack", link)
        #expect(memory.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1027) != nil)
        #expect(memory.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1028) == nil)
        #expect(memory.target(of: try Self.url("https://a.example/packs/2.pack"), now: 1001) == nil)
    }

    @Test("A lesson that failed is forgotten, and neighbours there are not guessed again")
    func forgotten() throws {
        var memory = try learnt("https://a.example/packs/1.pack", "https://cdn.example/x/1.pack")
        memory.forget(try Self.url("https://a.example/packs/2.pack"))
        #expect(memory.target(of: try Self.url("https://a.example/packs/3.pack"), now: 1001) == nil)
        #expect(memory.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1001) != nil)
        memory.learn(
            try Self.url("https://a.example/packs/4.pack"), isAt: try Self.url("https://cdn.example/x/4.pack"),
            status: 302, originIsPublic: true, life: 100, now: 1000)
        #expect(memory.target(of: try Self.url("https://a.example/packs/5.pack"), now: 1001) == nil)
        #expect(memory.target(of: try Self.url("https://a.example/packs/4.pack"), now: 1001) != nil)
    }

    /// The lines of the file, in words.
    private static func lines(_ root: TemporaryRoot) throws -> [[String]] {
        let text = String(decoding: try #require(root.read("links")), as: UTF8.self)
        return text.split(separator: "\n").dropFirst().map { $0.split(separator: " ").map(String.init) }
    }

    @Test("The next process knows what is worth knowing, and no secret without an end [S149]")
    func kept() throws {
        let root = try TemporaryRoot()
        var memory = try learnt("https://a.example/packs/1.pack", "https://cdn.example/x/1.pack")
        let first = memory.version
        for (from, to) in [
            ("https://a.example/b", "https://cdn.example/b?token=for-ever"),
            ("https://a.example/c?key=mine", "https://cdn.example/c"),
            ("https://a.example/d", "https://cdn.example/d?X-Amz-Date=19700101T001640Z&X-Amz-Expires=30"),
        ] {
            memory.learn(
                try Self.url(from), isAt: try Self.url(to), status: 307, originIsPublic: false, life: 100, now: 1000)
        }
        #expect(memory.version > first)
        try memory.add(to: root.path, now: 1000)
        #expect(
            try Self.lines(root) == [
                ["directory", "302", "public", "1100", "https://a.example/packs/", "https://cdn.example/x/"],
                [
                    "url", "302", "public", "1100", "https://a.example/packs/1.pack", "https://cdn.example/x/1.pack",
                ],
                [
                    "url", "307", "local", "1028", "https://a.example/d",
                    "https://cdn.example/d?X-Amz-Date=19700101T001640Z&X-Amz-Expires=30",
                ],
            ])
        let next = RedirectMemory(from: root.path, now: 1000)
        let same = next.target(of: try Self.url("https://a.example/packs/1.pack"), now: 1099)
        #expect(same?.url.text == "https://cdn.example/x/1.pack")
        #expect(same?.status == 302 && same?.originIsPublic == true)
        #expect(next.target(of: try Self.url("https://a.example/packs/2.pack"), now: 1099)?.status == 302)
        #expect(next.target(of: try Self.url("https://a.example/d"), now: 1027)?.originIsPublic == false)
        #expect(next.target(of: try Self.url("https://a.example/d"), now: 1028) == nil)
        memory.forget(try Self.url("https://a.example/packs/1.pack"))
        try memory.add(to: root.path, now: 1000)
        #expect(try Self.lines(root).map { $0[4] } == ["https://a.example/d"])
    }

    @Test("Lessons of several processes stand in one file; what has ended or failed goes; others may not read it")
    func file() throws {
        let root = try TemporaryRoot()
        func isEmpty(now: Int64) -> Bool {
            let memory = RedirectMemory(from: root.path, now: now)
            return !["x", "y", "short", "d/"].contains { memory.isKnown("https://a.example/\($0)") }
        }
        func learn(_ memory: inout RedirectMemory, _ name: String, _ target: String? = nil, life: Int64 = 90) throws {
            memory.learn(
                try Self.url("https://a.example/\(name)"),
                isAt: try Self.url(target ?? "https://cdn.example/other-\(name)"), status: 302, originIsPublic: true,
                life: life, now: 10)
        }
        #expect(isEmpty(now: 0))
        var first = RedirectMemory()
        try learn(&first, "x")
        try learn(&first, "short", life: 10)
        try first.add(to: root.path, now: 10)
        var second = RedirectMemory()
        try learn(&second, "d/1", "https://cdn.example/d/1")
        try learn(&second, "y")
        try second.add(to: root.path, now: 10)
        #expect(try Self.lines(root).count == 5)
        #expect(try Self.lines(root).first?[4] == "https://a.example/d/")
        second.forget(try Self.url("https://a.example/y"))
        try learn(&second, "x", "https://new.example/other-x")
        try second.add(to: root.path, now: 30)
        #expect(
            Set(try Self.lines(root).map { $0[5] }) == [
                "https://new.example/other-x", "https://cdn.example/d/", "https://cdn.example/d/1",
            ])
        #expect(!isEmpty(now: 99) && isEmpty(now: 100))
        var status = stat()
        #expect(stat(root.path("links"), &status) == 0 && status.st_mode & 0o777 == 0o600)
        var many = RedirectMemory()
        for number in 0..<RedirectMemory.mostKept + 50 { try learn(&many, "\(number)") }
        try many.add(to: root.path, now: 10)
        #expect(try Self.lines(root).count == RedirectMemory.mostKept)
        #expect(try Self.lines(root).first?[4] == "https://a.example/d/", "directories are worth most")
        for damage in [
            "", "links 2\nurl 302 public 100 https://a.example/x https://b/\n", "links 1\nurl 302 public x\n\u{0}",
        ] {
            try root.write(damage, to: "links")
            _ = chmod(root.path("links"), 0o600)
            #expect(isEmpty(now: 10))
        }
    }

    @Test("Nothing is kept that may not be kept")
    func noStore() throws {
        let memory = try learnt("https://a.example/1", "https://cdn.example/1", life: 0)
        #expect(memory.target(of: try Self.url("https://a.example/1"), now: 1000) == nil)
    }

    @Test(
        "The life of a redirect [RFC 9111 4.2]",
        arguments: [
            (nil, nil, RedirectMemory.longestLife), ("no-store", nil, 0), ("no-cache", nil, 0), ("max-age=5", nil, 5),
            ("private, MAX-AGE = 7", nil, 7), ("max-age=x", nil, 0), (nil, "Thu, 01 Jan 1970 00:17:40 GMT", 60),
            (nil, "0", 0), ("max-age=9", "Thu, 01 Jan 1970 00:17:40 GMT", 9),
            ("public", nil, RedirectMemory.longestLife),
        ] as [(String?, String?, Int64)])
    func life(cacheControl: String?, expires: String?, seconds: Int64) {
        var answer = ResponseHeaders()
        (answer.cacheControl, answer.expires) = (cacheControl, expires)
        #expect(RedirectMemory.life(of: answer, now: 1000) == seconds)
    }

    @Test(
        "When signed links end",
        arguments: [
            ("X-Amz-Date=20261120T020000Z&X-Amz-Expires=300&X-Amz-Signature=a", 1_795_140_300),
            ("X-Goog-Date=20261120T020000Z&X-Goog-Expires=60", 1_795_140_060),
            ("Expires=1795140000&Signature=x&Key-Pair-Id=y", 1_795_140_000),
            ("se=2026-11-20T02%3A00%3A00Z&sig=x", 1_795_140_000), ("expires=12", nil), ("x=1", nil),
            ("X-Amz-Date=garbage&X-Amz-Expires=300", nil), ("X-Amz-Date=20261120T020000Z&X-Amz-Expires=-3", nil),
        ] as [(String, Int64?)])
    func ends(query: String, seconds: Int64?) throws {
        #expect(try Self.url("https://s.example/a?\(query)").expiry == seconds)
    }
}
