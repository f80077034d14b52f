import Testing

@testable import SyncManifest

struct MetalinkTests {
    private static let digest = String(repeating: "ab", count: 32)

    private func read(_ text: String) throws -> SourceListing {
        try Metalink.read(Array(text.utf8), schemes: ["http", "https"]) { $0 }
    }

    private func document(_ inner: String, head: String = "") -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\(head)<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\(inner)</metalink>\n"
    }

    @Test("Sizes, the strongest digest and mirrors by priority are read")
    func plain() throws {
        let listing = try read(
            document(
                """
                <!-- a set --><published>2026-11-20T02:00:00Z</published>
                <file name="dir/a &amp; b.iso"><size> 14471447 </size>
                  <identity>x</identity><hash type="md5">\(String(repeating: "1", count: 32))</hash>
                  <hash type="sha-256">\(Self.digest.uppercased())</hash>
                  <pieces length="100" type="sha-256"><hash>00</hash></pieces>
                  <url location="de" priority="2">http://two.test/a</url><url>ftp://ftp.test/a</url>
                  <url priority="1">http://one.test/ä<![CDATA[&]]>b</url><url>http://three.test/a</url>
                  <metaurl mediatype="torrent">http://t.test/a.torrent</metaurl></file>
                <file name="b"><hash type="sha-1">\(String(repeating: "2", count: 40))</hash><url>http://one.test/b</url></file>
                """))
        let file = listing.files[0]
        #expect(String(decoding: file.path, as: UTF8.self) == "dir/a & b.iso")
        #expect(file.size == 14_471_447 && file.digest?.algorithm == .sha256 && file.digest?.hex == Self.digest)
        #expect(file.urls == ["http://one.test/%C3%A4&b", "http://two.test/a", "http://three.test/a"])
        #expect(listing.files[1].digest?.algorithm == .sha1 && listing.files[1].size == nil)
    }

    @Test("A mirror that cannot be asked keeps no file away that others have, and is named where there are none")
    func unusable() throws {
        let bad = "<url>http://u:canary@one.test/a</url><url>http://one.test/%zz</url>"
        let listing = try read(document("<file name=\"a\">\(bad)<url>http://two.test/a</url></file>"))
        #expect(listing.files[0].urls == ["http://two.test/a"])
        let error = #expect(throws: ListingError.self) { try read(document("<file name=\"a\">\(bad)</file>")) }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains("broken percent-encoding") && !text.contains("canary"))
    }

    @Test("Names with a prefix mean the same, and unknown elements nothing")
    func prefixed() throws {
        let text = """
            <m:metalink xmlns:m="urn:ietf:params:xml:ns:metalink" xmlns:x="urn:x"><x:file name="no"><x:url>http://x.test/</x:url></x:file>
            <m:file name="a"><m:url>http://one.test/a</m:url><x:url>http://x.test/</x:url></m:file></m:metalink>
            """
        let listing = try read(text)
        #expect(listing.files.map(\.urls) == [["http://one.test/a"]])
        #expect(Metalink.isMetalink(Array(text.utf8)))
    }

    @Test(
        "Hostile documents are refused: entities, names that lead out, broken XML [V1 V42]",
        arguments: [
            "<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">&b;</metalink>",
            "<!DOCTYPE m SYSTEM \"file:///etc/passwd\"><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"/>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"../x\"><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"/x\"><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"&#46;&#46;/x\"><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"><url>file:///etc/passwd</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"><size>-1</size><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"><hash type=\"sha-256\">12</hash><url>http://o.test/x</url></file></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"x\"><url>http://o.test/x</url></file>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><a></b></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">&unknown;</metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"/><metalink/>",
            "<metalink version=\"3.0\" xmlns=\"http://www.metalinker.org/\"><files/></metalink>",
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\" a=\"1\" a=\"2\"/>",
            "<?xml version=\"1.0\" encoding=\"UTF-16\"?><metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"/>",
            "<html><body>metalink</body></html>",
        ])
    func hostile(_ text: String) { #expect(throws: ListingError.self) { try read(text) } }

    @Test("A deep document and one that ends anywhere are refused without a trap")
    func cut() {
        let deep = String(repeating: "<a>", count: 1_000)
        #expect(throws: ListingError.self) { try read(document(deep)) }
        let whole = Array(
            document("<file name=\"a\"><size>1</size><url priority='1'>http://o.test/&#x61;</url></file>").utf8)
        for end in 0..<(whole.count - 1) {
            #expect(throws: ListingError.self) {
                try Metalink.read(Array(whole[..<end]), schemes: ["http"]) { $0 }
            }
        }
        for place in whole.indices {
            var bytes = whole
            bytes[place] ^= 0x1F
            _ = try? Metalink.read(bytes, schemes: ["http"]) { $0 }
        }
    }
}
