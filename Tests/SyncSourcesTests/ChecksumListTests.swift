import SyncModel
import Testing

@testable import SyncManifest

struct ChecksumListTests {
    static let one = String(repeating: "1", count: 64)
    static let two = String(repeating: "ab", count: 32)

    private func read(_ text: String, base: String = "http://h.test/d/") throws -> [String] {
        try ChecksumList.read(Array(text.utf8), base: base).files.map { file in
            "\(String(decoding: file.path, as: UTF8.self))|\(file.digest?.algorithm.rawValue ?? "")|\(file.urls.joined(separator: ","))"
        }
    }

    @Test(
        "Everything that sha256sum(1) writes and reads is read",
        arguments: [
            ("\(one)  a.txt\n", ["a.txt|sha256|http://h.test/d/a.txt"]),
            ("\(one) *dir/b c.bin\n", ["dir/b c.bin|sha256|http://h.test/d/dir/b%20c.bin"]),
            ("\(one) a b\n\(two) c\n", ["a b|sha256|http://h.test/d/a%20b", "c|sha256|http://h.test/d/c"]),
            ("\(one) a\n\(two) *b\n", ["a|sha256|http://h.test/d/a", "*b|sha256|http://h.test/d/%2Ab"]),
            ("\(one)  ./a\n\(two)  .//b/c\n", ["a|sha256|http://h.test/d/a", "b/c|sha256|http://h.test/d/b/c"]),
            ("\\\(one)  back\\\\slash\n", ["back\\slash|sha256|http://h.test/d/back%5Cslash"]),
            ("\(one)  back\\slash\n", ["back\\slash|sha256|http://h.test/d/back%5Cslash"]),
            ("SHA256 (a (1).txt) = \(two)\n", ["a (1).txt|sha256|http://h.test/d/a%20%281%29.txt"]),
            ("SHA256(x) = \(two)\n", ["x|sha256|http://h.test/d/x"]),
            ("\(one)  a\r\n\(two)  b\r\n", ["a|sha256|http://h.test/d/a", "b|sha256|http://h.test/d/b"]),
            ("\(one)  a\0\(two)  b\0", ["a|sha256|http://h.test/d/a", "b|sha256|http://h.test/d/b"]),
            ("# comment\n\n  \(one.uppercased())  a", ["a|sha256|http://h.test/d/a"]),
            ("\(one)  a\n\(one)  a\n", ["a|sha256|http://h.test/d/a"]),
            ("\(one)  ä#?%\n", ["ä#?%|sha256|http://h.test/d/%C3%A4%23%3F%25"]),
            ("d41d8cd98f00b204e9800998ecf8427e  a\n", ["a|md5|http://h.test/d/a"]),
            ("SHA512 (a) = \(String(repeating: "0", count: 128))\n", ["a|sha512|http://h.test/d/a"]),
            ("MD5 (a) = \(one.prefix(32))\nSHA256 (a) = \(one)\n", ["a|sha256|http://h.test/d/a"]),
            ("SHA256 (a) = \(one)\nSHA1 (a) = \(one.prefix(40))\n", ["a|sha256|http://h.test/d/a"]),
            (
                "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n\(one)  a\n-----BEGIN PGP SIGNATURE-----\n\nxyz\n",
                ["a|sha256|http://h.test/d/a"]
            ),
        ] as [(String, [String])])
    func forms(_ text: String, _ expected: [String]) throws {
        #expect(ChecksumList.isList(Array(text.utf8)))
        #expect(try read(text) == expected)
    }

    @Test(
        "What no destination may have is refused by line [V1 V3]",
        arguments: [
            ("\(one)  a\n\(two)  ../b\n", "line 2"), ("\(one)  /etc/passwd\n", "line 1"),
            ("\(one)  a/../b\n", "line 1"),
            ("\(one)  .syncagent/x\n", "line 1"), ("\\\(one)  a\\nb\n", "line 1"), ("\(one)  a\n\(two)  a\n", "line 2"),
            ("\(one)  a\n\(two) b\n", "line 2"), ("\(one) a\n\(two)\n", "line 2"),
            ("\(one)  a\nnonsense\n", "line 2"), ("\(one)  -\n", "line 1"), ("\\\(one)  a\\x\n", "line 1"),
            ("\(one)  a\n\(one.dropLast())  b\n", "line 2"), ("\(one)  a//b\n", "line 1"), ("\(one)  \n", "line 1"),
            ("\(one)  \u{202E}a\n", "line 1"), ("\(one)  \(String(repeating: "x", count: 300))\n", "line 1"),
        ] as [(String, String)])
    func hostile(_ text: String, _ place: String) {
        #expect { try read(text) } throws: { error in
            (error as? ListingError)?.place == place
        }
    }

    @Test("Only the start of a text is looked at: what says nothing for long is no list")
    func longSilence() {
        let line = Array("\(String(repeating: "a", count: 64))  name\n".utf8)
        #expect(ChecksumList.isList([UInt8](repeating: 0x0A, count: 60_000) + line))
        #expect(!ChecksumList.isList([UInt8](repeating: 0x0A, count: 1 << 20) + line))
        #expect(!ChecksumList.isList([UInt8](repeating: 0, count: 1 << 20)))
    }

    @Test("Neither a manifest nor a web page nor a text is taken for a list")
    func others() {
        for text in [
            "{\"format\":\"syncagent-manifest/1\"}", "<html>", "hello\n", "", "\(Self.one)\n", "\(Self.one) \n",
            "# only this\n",
        ] {
            #expect(!ChecksumList.isList(Array(text.utf8)), "\(text)")
        }
    }

    @Test("The manifest is the same for the same list in another order, with groups of top-level directories")
    func manifest() throws {
        let origin = SourceOrigin(kind: "sums", url: "http://h.test/d/SHA256SUMS", at: Self.one)
        func text(_ list: String) throws -> [UInt8] {
            var listing = try ChecksumList.read(Array(list.utf8), base: "http://h.test/d/")
            for row in listing.files.indices { listing.files[row].size = 7 }
            return listing.manifest(project: "d", origin)
        }
        let a = try text("\(Self.one)  maps/a\n\(Self.two)  b\n\(Self.two)  all/c\n")
        #expect(try a == text("\(Self.two)  all/c\n\(Self.two)  b\n\(Self.one)  maps/a\n"))
        let assembly = try ManifestAssembly(a, digest: .zero)
        let manifest = try assembly.finish()
        #expect(manifest.source == origin && manifest.project == "d")
        #expect(manifest.files.indices.map { manifest.files.path($0) } == ["all/c", "b", "maps/a"])
        #expect(manifest.groups.map(\.name) == ["maps"])
        #expect(manifest.files.urls(2) == ["http://h.test/d/maps/a"] && manifest.files.size(2) == 7)
    }

    @Test("What a list does not say is left to be learnt, and only where that is allowed")
    func unknown() throws {
        let list = "\(Self.one)  a\n0cc175b9c0f1b6a831c399e269772661  b\n"
        let listing = try ChecksumList.read(Array(list.utf8), base: "")
        let text = listing.manifest(project: "d", SourceOrigin(kind: "sums", url: "/d/x", at: "1"))
        #expect(throws: ManifestError.self) { _ = try ManifestAssembly(text, digest: .zero) }
        var limits = ManifestLimits.standard
        limits.learns = true
        let manifest = try ManifestAssembly(text, digest: .zero, limits: limits).finish()
        #expect(manifest.files.checks.count == 2)
        #expect(manifest.files.checks[0]?.isSizeKnown == false && manifest.files.digest(0).hex == Self.one)
        #expect(manifest.files.checks[1]?.digest?.algorithm == .md5)
    }

    @Test(
        "A project is named as the directory that its list lies in",
        arguments: [
            ("http://h.test/maps/SHA256SUMS", "maps"), ("http://h.test/SHA256SUMS", "h.test"),
            ("http://h.test:81/x/a%20b/l?q=/z/", "a.b"), ("/srv/my set/SHA256SUMS", "my.set"), ("/SHA256SUMS", "set"),
            ("/srv/.hidden/l", "hidden"),
        ] as [(String, String)])
    func projects(_ location: String, _ project: String) {
        #expect(SourceListing.project(ofDirectory: location) == project)
    }
}
