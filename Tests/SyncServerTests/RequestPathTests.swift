import Testing

@testable import SyncServer

@Suite(.timeLimit(.minutes(10)))
struct RequestPathTests {
    @Test("A path becomes decoded names")
    func names() throws {
        let path = try RequestPath("/a%20b/%C3%A9.txt")
        #expect(path.names == [Array("a b".utf8), Array("é.txt".utf8)])
        // Bytes that are no UTF-8 name a file as well as any others.
        #expect(try RequestPath("/%FF").names == [[0xFF]])
    }

    @Test(
        "Nothing leads upwards or to a directory [V1 V3]",
        arguments: [
            "/..", "/../etc/passwd", "/%2e%2e/etc/passwd", "/a/%2E%2E/b", "/a/../b", "/.", "/./a", "/%2e", "/", "//",
            "/a//b", "/a/", "/" + String(repeating: "a", count: 256), String(repeating: "/a", count: 2_049),
        ])
    func notServed(path: String) { #expect(throws: Unserved.notFound) { try RequestPath(path) } }

    @Test("As deep as a set may be, a file has a path, and names that begin with a dot are known as such")
    func depth() throws {
        #expect(try RequestPath(String(repeating: "/a", count: 2_048)).names.count == 2_048)
        for path in ["/.git/config", "/a/.x", "/%2ex", "/..."] { #expect(try RequestPath(path).isHidden, "\(path)") }
        #expect(try !RequestPath("/a./b.c").isHidden)
    }

    @Test(
        "Disguised slashes, NULs and broken escapes are malformed [V27]",
        arguments: ["", "a", "/%", "/%2", "/%zz", "/%2G", "/a%2fb", "/a%00b", "/%+1"])
    func malformed(path: String) { #expect(throws: Unserved.malformed) { try RequestPath(path) } }

    @Test("Only a pack that bears its digest may be cached for ever")
    func cachePolicy() throws {
        let digest = String(repeating: "5f", count: 32)
        #expect(try RequestPath("/packs/\(digest).pack").isPack)
        #expect(try RequestPath("/tower/packs/\(digest).pack").isPack)
        for other in ["/packs/x.pack", "/\(digest).pack", "/packs/\(digest).zip", "/manifest.json"] {
            #expect(try !RequestPath(other).isPack, "\(other)")
        }
    }
}
