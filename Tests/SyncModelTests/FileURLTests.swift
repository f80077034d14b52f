import SyncModel
import Testing

@Suite("URLs of files", .timeLimit(.minutes(10)))
struct FileURLTests {
    @Test(
        "A path is the same after encoding and decoding once",
        arguments: [
            "/", "/a b", "/set #2/x", "/a?b", "/%41", "/%", "/%zz", "/Länge/\u{1F600}", "/a;b&c=d+e@f:g[h]\\", "/\n",
        ])
    func paths(text: String) {
        let url = fileURL(path: text)
        #expect(url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && !url.contains { "?#[]\\".contains($0) })
        #expect(path(ofFileURL: url) == Array(text.utf8))
    }

    @Test(
        "A URL without authority gets an empty one where its scheme is known; a name with a colon stays as it is [S80]",
        arguments: [
            ("store:/a/b", "store:///a/b"), ("store:a/b", "store:///a/b"), ("STORE:/a", "STORE:///a"),
            ("store:/a?b=c:d", "store:///a?b=c:d"), ("store:///a", "store:///a"), ("store://a/b", "store://a/b"),
            ("store:", "store:"), ("shop:/a", "shop:/a"), ("C:\\a", "C:\\a"), ("./store:a", "./store:a"),
            ("a/store:b", "a/store:b"), ("http:/host/a", "http:/host/a"), ("https:a", "https:a"), (":a", ":a"),
            ("s\u{212A}:/a", "s\u{212A}:/a"), ("", ""),
        ])
    func authority(text: String, url: String) {
        #expect(withAuthority(text, schemes: ["store", "http", "https", "sk"]) == url)
    }

    @Test("Letters of either case; query and fragment are no part of the path")
    func decoding() {
        #expect(path(ofFileURL: "file:///%c3%A4/%2541?x=%00#y") == Array("/ä/%41".utf8))
    }

    @Test(
        "Percent-decoding takes two digits of either case and nothing else, and no zero byte",
        arguments: [
            ("a%2Fb%c3%A4+", "a/b\u{E4}+"), ("", ""), ("%41", "A"), ("%2541", "%41"), ("%", nil), ("%4", nil),
            ("%+1", nil), ("%-1", nil), ("%4g", nil), ("% 1", nil), ("%00", nil), ("a\0", nil),
        ] as [(String, String?)])
    func percent(text: String, decoded: String?) {
        #expect(percentDecoded(text.utf8) == decoded.map { Array($0.utf8) })
    }

    @Test("A single name keeps no slash when it is encoded")
    func name() {
        #expect(percentEncoded(bytes: "a/b ~".utf8, keepsSlash: false) == "a%2Fb%20~")
        #expect(percentEncoded(bytes: "a/b ~".utf8) == "a/b%20~")
    }

    @Test(
        "Not the path of a file here",
        arguments: [
            "", "file:", "file://", "file://host/x", "file:/x", "http:///x", "/x", "file:///%", "file:///%4",
            "file:///%4g", "file:///a%00b",
        ])
    func refused(url: String) { #expect(path(ofFileURL: url) == nil) }
}
