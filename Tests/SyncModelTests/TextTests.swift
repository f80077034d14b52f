import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct TextTests {
    @Test(
        "A URL in a message has no user name, password, query or fragment [V64]",
        arguments: [
            ("https://h/a", "https://h/a"), ("https://user:secret@h:8443/a?token=x#y", "https://h:8443/a?…"),
            ("https://a@b@h/x", "https://h/x"), ("https://h/a@b", "https://h/a@b"), ("https://h?x=@", "https://h?…"),
            ("https://h#frag?x", "https://h"), ("packs/a.pack", "packs/a.pack"),
            ("packs/a.pack?sig=secret", "packs/a.pack?…"), ("/a?token=secret&next=https://h/x", "/a?…"),
            ("/a#x://y", "/a"), ("", ""), ("://", "://"),
            ("http://h/\u{1B}[2J\u{202E}x", "http://h/\\u{1b}[2J\\u{202e}x"),
            // Marks that combine with what stands before them hide nothing.
            ("https://h/a?\u{301}token=x", "https://h/a?…"), ("https://h/a#\u{301}x", "https://h/a"),
            ("https://user:secret@\u{301}h/", "https://\u{301}h/"), ("https://\u{301}user:secret@h/", "https://h/"),
        ])
    func redacts(_ url: String, _ shown: String) { #expect(redacted(url: url) == shown) }

    @Test(
        "Text from outside cannot drive a terminal or turn a line round [V63, V56]",
        arguments: [
            ("plain é 日本 😀", "plain é 日本 😀"), ("a\nb\tc\r", "a\\u{a}b\\u{9}c\\u{d}"),
            ("\u{1B}]52;c;x\u{7}", "\\u{1b}]52;c;x\\u{7}"),
            ("\u{0}\u{7F}\u{80}\u{9F}\u{A0}", "\\u{0}\\u{7f}\\u{80}\\u{9f}\u{A0}"),
            ("\u{61C}\u{200E}\u{200F}", "\\u{61c}\\u{200e}\\u{200f}"),
            ("\u{202A}\u{202E}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
            ("\u{200D}\u{2029}\u{2065}\u{206A}", "\u{200D}\u{2029}\u{2065}\u{206A}"), ("\r\n", "\\u{d}\\u{a}"),
        ])
    func escapes(_ text: String, _ shown: String) { #expect(escaped(text) == shown) }

    @Test(
        "Milliseconds since 1970 become a date and time of RFC 3339",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (1_078_012_799_999, "2004-02-28T23:59:59.999Z"),
            (1_795_140_000_123, "2026-11-20T02:00:00.123Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"), (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ] as [(Int64, String)])
    func times(_ milliseconds: Int64, _ text: String) { #expect(timestamp(milliseconds: milliseconds) == text) }

    @Test(
        "Times that four digits of a year do not reach are the first and the last, and do not trap [V65]",
        arguments: [
            (.min, "0000-01-01T00:00:00.000Z"), (-62_167_219_200_001, "0000-01-01T00:00:00.000Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.999Z"), (.max, "9999-12-31T23:59:59.999Z"),
        ] as [(Int64, String)])
    func farTimes(_ milliseconds: Int64, _ text: String) { #expect(timestamp(milliseconds: milliseconds) == text) }

    @Test(
        "A time is read as it is written; a day or an hour that there is not is none",
        arguments: [
            ("2026-11-20T02:00:00.123Z", 1_795_140_000_123), ("2026-11-20T02:00:00Z", 1_795_140_000_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000), ("2026-02-29T00:00:00Z", nil), ("2026-04-31T00:00:00Z", nil),
            ("2026-13-01T00:00:00Z", nil), ("2026-00-01T00:00:00Z", nil), ("2026-11-20T24:00:00Z", nil),
            ("2026-11-20T02:60:00Z", nil), ("2026-11-20 02:00:00Z", nil), ("2026-11-2 T02:00:00Z", nil),
            ("2026-11-20T02:00:00", nil), ("2026-11-20T02:00:00,123Z", nil), ("", nil),
        ] as [(String, Int64?)])
    func reading(_ text: String, _ milliseconds: Int64?) {
        #expect(parseTimestamp(utc: text) == milliseconds)
        #expect(parseTimestamp(text) == milliseconds)
    }

    @Test("Another offset is brought to UTC, and a fraction is rounded")
    func offsets() {
        #expect(parseTimestamp("2026-11-20T03:30:00.1235+01:30") == 1_795_140_000_124)
        #expect(parseTimestamp("2026-11-19T21:00:00-0500") == 1_795_140_000_000)
        #expect(parseTimestamp("2026-11-20T02:00:00+24:00") == nil)
    }
}
