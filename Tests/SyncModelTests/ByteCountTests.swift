import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct ByteCountTests {
    @Test(
        "Sizes are read as people write them",
        arguments: [
            ("0", 0), ("65536", 65_536), ("64K", 65_536), ("64k", 65_536), ("64KiB", 65_536), ("64 KiB", 65_536),
            (" 10 M ", 10 << 20), ("64KB", 64_000), ("64kb", 64_000), ("1M", 1 << 20), ("1.5 GB", 1_500_000_000),
            ("1.5G", 3 << 29), ("2TiB", 2 << 40), ("2TB", 2_000_000_000_000), ("7b", 7), ("0.5K", 512),
            ("16777215T", 16_777_215 << 40), ("18446744073709551615", UInt64.max),
        ] as [(String, UInt64)])
    func parses(_ text: String, _ bytes: UInt64) { #expect(ByteCount(parsing: text)?.bytes == bytes) }

    @Test(
        "Anything else, and what 64 bits cannot hold, is refused [V47]",
        arguments: [
            "", " ", "K", "-1", "+1", "1X", "1KBps", "1..5G", ".", "1,5", "0x10", "1e3", "NaN", "inf", "१",
            "18446744073709551616", "16777216T", "99999999999999999999K", "1.5.5", "1K1",
            "999999999999999999999999999.5T", "1 0M", "1 .5G", "1. 5G", "10 M B", "1 2", "1\u{212A}",
        ])
    func refuses(_ text: String) { #expect(ByteCount(parsing: text) == nil) }

    @Test(
        "Sizes are printed with three significant digits",
        arguments: [
            (0, "0 B"), (1_023, "1023 B"), (1_024, "1.00 KiB"), (1_536 << 10, "1.50 MiB"), (20 << 30, "20.0 GiB"),
            (999 << 20, "999 MiB"), (10_230, "9.99 KiB"), (10_236, "10.0 KiB"), (102_395, "100 KiB"),
            (1_048_575, "1.00 MiB"), (UInt64.max, "16.0 EiB"),
        ] as [(UInt64, String)])
    func prints(_ bytes: UInt64, _ text: String) { #expect(ByteCount(bytes).description == text) }

    @Test("Counts are ordered by size")
    func order() {
        #expect(ByteCount(1) < ByteCount(2))
        #expect([ByteCount(3), ByteCount(1)].sorted() == [ByteCount(1), ByteCount(3)])
    }
}
