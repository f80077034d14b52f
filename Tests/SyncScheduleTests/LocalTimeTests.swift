import SyncModel
import Testing

@testable import SyncSchedule

@Suite("Times of the clock on the wall")
struct LocalTimeTests {
    private let berlin = Zone.named("Europe/Berlin") ?? Zone(name: nil) { _ in 0 }

    @Test(
        "A day, or a day and a time, is a moment; what summer time leaves out is the moment of the change [S46]",
        arguments: [
            ("2026-11-20", "2026-11-19T23:00:00Z"), ("2026-07-01 02:00", "2026-07-01T00:00:00Z"),
            ("2026-07-01T02:00:30", "2026-07-01T00:00:30Z"),
            // Put forward from 02:00 to 03:00, and back from 03:00 to 02:00.
            ("2026-03-29 01:59", "2026-03-29T00:59:00Z"), ("2026-03-29 02:30", "2026-03-29T01:00:00Z"),
            ("2026-03-29 03:00", "2026-03-29T01:00:00Z"), ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
            ("9999-12-31T23:59:59", "9999-12-31T22:59:59Z"),
        ])
    func moments(text: String, expected: String) throws {
        let wanted = try #require(parseTimestamp(expected))
        #expect(berlin.moment(text) == wanted)
    }

    @Test(
        "Anything else is none",
        arguments: [
            "", "2026-11-2", "2026-06-31", "2026-13-01 02:00", "2026-11-20 24:00", "2026-11-20 02:60",
            "2026-11-20 02:00:60", "2026-11-20  02:00", "2026-11-20T02:00:00Z", "2026-11-20 02", "20261120",
            "\u{0662}\u{0660}\u{0662}\u{0666}-1", "2026-11-20\u{0}02:00", "aaaa-bb-cc dd:ee",
        ])
    func refused(text: String) { #expect(berlin.moment(text) == nil) }

    @Test("The next time of day is today's or tomorrow's; the hour that comes twice counts once")
    func next() {
        func next(_ minute: Int, _ now: String) -> String {
            timestamp(milliseconds: berlin.next(minute: minute, after: parseTimestamp(now) ?? 0))
        }
        #expect(next(120, "2026-11-20T00:59:59Z") == "2026-11-20T01:00:00.000Z")
        #expect(next(120, "2026-11-20T01:00:00Z") == "2026-11-21T01:00:00.000Z")
        // 02:30 is left out: the moment of the change.
        #expect(next(150, "2026-03-28T23:30:00Z") == "2026-03-29T01:00:00.000Z")
        // 02:10 for the second time; 02:30 was before.
        #expect(next(150, "2026-10-25T01:10:00Z") == "2026-10-26T01:30:00.000Z")
    }
}
