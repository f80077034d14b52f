import Testing

@testable import SyncRemotes

@Suite("Repositories with large files, by name", .timeLimit(.minutes(10)))
struct LFSAddressTests {
    @Test(
        "A URL names a repository, and a branch, a tag or a commit of it",
        arguments: [
            ("lfs+https://h/acme/site.git", "https://h/acme/site.git", nil, "acme.site"),
            ("lfs+https://h/acme/site.git@main", "https://h/acme/site.git", "main", "acme.site"),
            ("lfs+https://h/g/acme/site.git@feature/x@2", "https://h/g/acme/site.git", "feature/x@2", "acme.site"),
            ("lfs+http://h:81/site@v1.0", "http://h:81/site", "v1.0", "site"),
            ("lfs+https://h/acme/site.git/", "https://h/acme/site.git", nil, "acme.site"),
            ("lfs+file:///srv/a%20b.git@main", "file:///srv/a%20b.git", "main", "srv.a.b"),
        ] as [(String, String, String?, String)])
    func read(url: String, repository: String, reference: String?, project: String) throws {
        let address = try LFSAddress(url)
        #expect(address.repository == repository && address.reference == reference)
        #expect(address.project == project)
    }

    @Test("Files have URLs that say all that is needed to bring them, and are read as they are written")
    func objects() {
        let digest = String(repeating: "ab", count: 32)
        let large = LFSObject.large(endpoint: "https://h/a.git/info/lfs", sha256: digest, size: 7)
        #expect(large.url == "lfs+https://h/a.git/info/lfs/objects/\(digest)/7" && LFSObject(large.url) == large)
        let plain = LFSObject.plain(repository: "file:///a.git", name: String(repeating: "0a", count: 20))
        #expect(LFSObject(plain.url) == plain)
        for url in [
            "https://h/objects/\(digest)/7", "lfs+https://h/objects/\(digest)", "lfs+https://h/objects/\(digest)/-7",
            "lfs+https://h/objects/ab/7", "lfs+https://h/blobs/ab", "lfs+https://h/objects/\(digest)/7?x",
            "lfs+https://h/a",
        ] { #expect(LFSObject(url) == nil, "\(url)") }
    }

    @Test("A pointer says its SHA-256 and its size; what is only like one is a text")
    func pointers() throws {
        let digest = String(repeating: "ab", count: 32)
        func pointer(_ text: String) -> LFSPointer? { LFSPointer(Array(text.utf8)) }
        let version = "version https://git-lfs.github.com/spec/v1\n"
        let found = pointer("\(version)oid sha256:\(digest)\nsize 12\n")
        #expect(found?.sha256 == digest && found?.size == 12 && found?.isExtended == false)
        for text in [
            "", "hello", version, "\(version)oid sha256:\(digest)\n", "\(version)oid sha256:ab\nsize 1\n",
            "\(version)oid sha256:\(digest)\nsize -1\n", "\(version)oid sha256:\(digest)\nsize 99999999999999999999\n",
            "version https://example.com/\noid sha256:\(digest)\nsize 12\n",
        ] { #expect(pointer(text) == nil, "\(text)") }
        let extended = pointer("\(version)ext-0-a sha256:\(digest)\noid sha256:\(digest)\nsize 1\n")
        #expect(extended?.isExtended == true)
    }
}
