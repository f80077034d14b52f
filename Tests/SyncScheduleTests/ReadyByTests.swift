import SyncModel
import SyncSchedule
import Testing

private let gigabyte: UInt64 = 1_000_000_000

/// A night from 02:00 to 08:00, UTC of 1970-01-02, that is to be ready at 07:00.
private func night(delay: Int = 0) throws -> Occurrence {
    var timing = ScheduleTiming(.daily(at: 120, on: []))
    timing.window = 360
    timing.readyBy = 7 * 60
    return try #require(
        timing.occurrences(on: CivilDay(number: 1), in: Zone.named("UTC") ?? .machine, delay: delay).first)
}

/// So many **bytes** in so many **seconds**.
private func record(_ received: UInt64, _ seconds: Int64) -> (received: UInt64, elapsed: Int64) {
    (received, seconds * 1_000)
}

private struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let history: [(received: UInt64, elapsed: Int64)]
    /// **Minutes** after midnight.
    let start: Double
    let bytes: UInt64?

    init(_ name: String, _ history: [(received: UInt64, elapsed: Int64)], start: Double, bytes: UInt64?) {
        testDescription = name
        self.history = history
        self.start = start
        self.bytes = bytes
    }
}

@Suite("Ready by", .timeLimit(.minutes(10)))
struct ReadyByTests {
    private static let rows = [
        Row("the first night starts with its window", [], start: 120, bytes: nil),
        // 1.2 × 30 GB at 10 MB/s are 3,600 s; one and a half times that, and two minutes: 92 minutes.
        Row(
            "the same every night", Array(repeating: record(30 * gigabyte, 3_000), count: 5), start: 328,
            bytes: 36 * gigabyte),
        // The slowest but one of five, 5 MB/s, counts: 7,200 s × 1.5 + 120 s.
        Row(
            "a slow night counts", [3_000, 3_000, 6_000, 6_000, 3_000].map { record(30 * gigabyte, $0) }, start: 238,
            bytes: 36 * gigabyte),
        Row(
            "of ten nights one may have been far larger",
            Array(repeating: record(30 * gigabyte, 3_000), count: 9) + [record(3_000 * gigabyte, 20_000)], start: 328,
            bytes: 36 * gigabyte),
        Row(
            "of five nights not",
            Array(repeating: record(30 * gigabyte, 3_000), count: 4) + [record(3_000 * gigabyte, 20_000)], start: 120,
            bytes: 3_600 * gigabyte),
        // Longest 60 s × 1.5 + 120 s.
        Row("next to nothing came", Array(repeating: record(1_000, 60), count: 14), start: 416.5, bytes: 1_200),
        Row("more than the window holds", [record(300 * gigabyte, 20_000)], start: 120, bytes: 360 * gigabyte),
        Row("a run over two nights tells no rate", [record(30 * gigabyte, 90_000)], start: 120, bytes: nil),
        Row(
            "older nights than a fortnight do not count",
            Array(repeating: record(30 * gigabyte, 3_000), count: 14)
                + Array(repeating: record(3_000 * gigabyte, 3_000), count: 50), start: 328, bytes: 36 * gigabyte),
    ]

    @Test("Late enough and early enough", arguments: rows) fileprivate func table(row: Row) throws {
        let night = try night()
        let plan = ReadyBy.plan(night, ready: try #require(night.readyBy), history: row.history)
        #expect(Double(plan.start - 86_400_000) / 60_000 == row.start, "\(plan)")
        #expect(plan.forecast?.bytes == row.bytes)
    }

    @Test("It says where the time comes from")
    func words() throws {
        let night = try night()
        let ready = try #require(night.readyBy)
        let plan = ReadyBy.plan(night, ready: ready, history: Array(repeating: record(10 << 30, 512), count: 5))
        #expect(
            plan.description
                == "12.0 GiB expected (10.0 GiB in 5 nights), 20.0 MiB/s measured, 1.5x margin: 18 min set aside")
        let first = ReadyBy.plan(night, ready: ready, history: [])
        #expect(first.description == "no earlier nights are known: starts when the window opens")
    }

    @Test("A machine's own delay spreads a fleet before the time, not after it [S136]")
    func delays() throws {
        let history = Array(repeating: record(30 * gigabyte, 3_000), count: 5)
        let plans = try [0, 1_800].map { delay in
            let night = try night(delay: delay)
            return ReadyBy.plan(night, ready: try #require(night.readyBy), history: history)
        }
        #expect(plans[0].start - plans[1].start == 1_800_000)
        let unknown = try night(delay: 1_800)
        #expect(ReadyBy.plan(unknown, ready: try #require(unknown.readyBy), history: []).start == unknown.fire)
    }

    @Test("Never before the night, never after the time, whatever the history")
    func bounds() throws {
        var random = Random(seed: 3)
        for _ in 0..<2_000 {
            let night = try night(delay: Int(random.next() % 3_600))
            let ready = try #require(night.readyBy)
            let history = (0..<(random.next() % 20)).map { _ in
                record(random.next() >> (random.next() % 64), Int64(random.next() % 100_000))
            }
            let plan = ReadyBy.plan(night, ready: ready, history: history)
            #expect((night.fire...ready).contains(plan.start))
        }
    }
}
