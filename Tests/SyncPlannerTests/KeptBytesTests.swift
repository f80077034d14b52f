import SyncModel
import Testing

@testable import SyncManifest

@Suite("Plans behind an interruption", .timeLimit(.minutes(10)))
struct KeptBytesTests {
    /// Three slots of 100,000 **bytes** with a gap before the last, in one span at 50,000.
    private static func plan(_ source: Plan.Source = .pack(2)) -> Plan {
        var plan = Plan()
        plan.slots = [50_000..<150_000, 150_000..<250_000, 260_000..<360_000].map { range in
            Plan.Slot(range: range, rawLength: 100_000, codec: .identity, targets: 0..<0)
        }
        plan.spans = [Plan.Span(source: source, range: 50_000..<360_000, slots: 0..<3)]
        (plan.packBytes, plan.gapBytes) = (300_000, 10_000)
        return plan
    }

    private static func cut(_ kept: [UInt64: UInt64]) -> (plan: Plan, used: Set<Int>) {
        var plan = plan()
        let slots = plan.slots
        let used = plan.leaveOut { kept[slots[$0].range.lowerBound] ?? 0 }
        return (plan, used)
    }

    @Test("A span that begins with a partial blob begins behind what is here, however little [R1]")
    func first() {
        let (plan, used) = Self.cut([50_000: 1])
        #expect(plan.spans.map(\.range) == [50_001..<360_000])
        #expect(plan.spans.map(\.slots) == [0..<3])
        #expect(plan.packBytes == 299_999 && plan.gapBytes == 10_000)
        #expect(used == [0])
    }

    @Test("In the middle of a span it is worth a request only when it is long")
    func middle() {
        let (short, unused) = Self.cut([260_000: 1_000])
        #expect(short.spans == Self.plan().spans && unused.isEmpty)
        let (long, used) = Self.cut([260_000: 60_000])
        #expect(long.spans.map(\.range) == [50_000..<250_000, 320_000..<360_000])
        #expect(long.spans.map(\.slots) == [0..<2, 2..<3])
        #expect(long.packBytes == 240_000 && long.gapBytes == 0)
        #expect(used == [2])
    }

    @Test("Several partial blobs of a span cut it several times")
    func several() {
        let (plan, used) = Self.cut([50_000: 40_000, 150_000: 50_000, 260_000: 99_999])
        #expect(plan.spans.map(\.range) == [90_000..<150_000, 200_000..<250_000, 359_999..<360_000])
        #expect(plan.spans.map(\.slots) == [0..<1, 1..<2, 2..<3])
        #expect(used.count == 3)
    }

    @Test("A count that is no beginning of the blob is not believed", arguments: [100_000, UInt64.max])
    func nonsense(count: UInt64) {
        let (plan, used) = Self.cut([50_000: count])
        #expect(plan.spans == Self.plan().spans && used.isEmpty)
    }

    @Test("Spans of loose files are left alone")
    func loose() {
        var plan = Self.plan(.loose(row: 0))
        #expect(plan.leaveOut { _ in 5 }.isEmpty)
        #expect(plan.spans == Self.plan(.loose(row: 0)).spans)
    }
}
