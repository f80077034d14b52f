import SyncManifest
import Testing

@Suite("Coalescing of byte ranges", .timeLimit(.minutes(10)))
struct CoalescingTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var ranges: [Range<UInt64>]
        var rule: CoalescingRule
        var spans: [Range<UInt64>]
        var testDescription: String { name }

        init(
            _ name: String, _ ranges: [Range<UInt64>], gap: UInt64 = 100, free: UInt64 = 0, span: UInt64 = 10_000,
            waste: UInt64 = 10, _ spans: [Range<UInt64>]
        ) {
            self.name = name
            self.ranges = ranges
            rule = CoalescingRule(maximumGap: gap, freeGap: free, spanLength: span, wastePercent: waste)
            self.spans = spans
        }
    }

    static let cases: [Case] = [
        Case("nothing", [], []), Case("one range", [5..<10], [5..<10]),
        Case("neighbours", [0..<10, 10..<20], [0..<20]),
        Case("neighbours need no allowance", [0..<10, 10..<20], waste: 0, [0..<20]),
        Case("a gap of the limit", [0..<1000, 1100..<2100], [0..<2100]),
        Case("a gap above the limit", [0..<1000, 1101..<2101], [0..<1000, 1101..<2101]),
        Case("waste used up", [0..<500, 600..<700, 701..<800], [0..<500, 600..<800]),
        Case("the cheapest gaps first", [0..<100, 110..<200, 205..<300], waste: 3, [0..<100, 110..<300]),
        Case("no waste allowed", [0..<1000, 1001..<2000], waste: 0, [0..<1000, 1001..<2000]),
        Case("less than a hundred bytes waste nothing", [0..<40, 41..<80], [0..<40, 41..<80]),
        Case("short gaps cost nothing", [0..<10, 20..<30, 40..<50, 61..<71], free: 10, [0..<50, 61..<71]),
        Case("and leave the allowance to longer ones", [0..<100, 104..<200, 220..<300], free: 4, [0..<300]),
        Case("but no gap above the limit is short", [0..<10, 20..<30], gap: 5, free: 10, [0..<10, 20..<30]),
        Case("cut at the span length", [0..<60, 60..<120, 120..<180], span: 120, [0..<120, 120..<180]),
        Case("one range longer than a span", [0..<500, 500..<600], span: 100, [0..<500, 500..<600]),
        Case("overlap starts anew", [0..<100, 50..<150], [0..<100, 50..<150]),
        Case("the same start", [0..<100, 0..<200], [0..<100, 0..<200]),
        Case(
            "the end of 64 bits", [0..<1000, (UInt64.max - 10)..<UInt64.max], gap: .max, span: .max, waste: 100,
            [0..<1000, (UInt64.max - 10)..<UInt64.max]),
    ]

    @Test("Ranges merge by gap, waste and length", arguments: cases)
    func merging(_ example: Case) {
        let spans = coalesce(example.ranges, rule: example.rule)
        #expect(spans.map(\.range) == example.spans)
    }

    @Test("A pack of tiny files of which every third has changed since is one request [S125]")
    func tinyFiles() {
        let ranges = (0..<UInt64(10_000)).filter { !$0.isMultiple(of: 3) }.map { ($0 * 400)..<($0 * 400 + 400) }
        #expect(coalesce(ranges, rule: CoalescingRule()).count == 1)
    }

    @Test("Every range is in exactly one span, in order, and waste is what nobody wants", arguments: 0..<200)
    func invariants(seed: UInt64) {
        var random = Numbers(seed: seed)
        let ranges = random.ranges(count: Int(random.next(40)) + 1, overlapping: seed.isMultiple(of: 3))
        let rule = CoalescingRule(
            maximumGap: random.next(60), freeGap: random.next(6), spanLength: random.next(400) + 1,
            wastePercent: random.next(60))
        let spans = coalesce(ranges, rule: rule)
        #expect(spans.flatMap { Array($0.members) } == Array(ranges.indices))
        for span in spans {
            let members = ranges[span.members]
            #expect(
                span.range == members[span.members.lowerBound]
                    .lowerBound..<members[span.members.upperBound - 1].upperBound)
            #expect(span.waste == span.range.length - members.reduce(0) { $0 + $1.length })
        }
        let wanted = ranges.reduce(UInt64(0)) { $0 + $1.length }
        let free = spans.reduce(UInt64(0)) { sum, span in
            let members = ranges[span.members]
            return zip(members, members.dropFirst()).reduce(sum) { sum, pair in
                let gap = pair.1.lowerBound - pair.0.upperBound
                return gap <= rule.freeGap ? sum + gap : sum
            }
        }
        #expect(spans.reduce(UInt64(0)) { $0 + $1.waste } - free <= wanted / 100 * rule.wastePercent)
    }

    @Test("No choice of gaps gives fewer requests within the waste limit [S125]", arguments: 0..<150)
    func optimal(seed: UInt64) {
        var random = Numbers(seed: seed &+ 1_000)
        let ranges = random.ranges(count: Int(random.next(10)) + 1, overlapping: false)
        let rule = CoalescingRule(
            maximumGap: random.next(40), freeGap: random.next(4), spanLength: .max, wastePercent: random.next(40))
        #expect(coalesce(ranges, rule: rule).count == fewest(ranges, rule))
    }

    /// Tries every set of gaps.
    private func fewest(_ ranges: [Range<UInt64>], _ rule: CoalescingRule) -> Int {
        let gaps = zip(ranges, ranges.dropFirst()).map { $1.lowerBound - $0.upperBound }
        let allowance = ranges.reduce(UInt64(0)) { $0 + $1.length } / 100 * rule.wastePercent
        var best = ranges.count
        for choice in 0..<(1 << gaps.count) {
            let chosen = gaps.indices.filter { choice >> $0 & 1 == 1 }
            guard chosen.allSatisfy({ gaps[$0] <= rule.maximumGap }),
                chosen.reduce(UInt64(0), { gaps[$1] <= rule.freeGap ? $0 : $0 + gaps[$1] }) <= allowance
            else { continue }
            best = min(best, ranges.count - chosen.count)
        }
        return best
    }
}

/// SplitMix64, so that every case can be repeated.
struct Numbers {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// 0..<`limit`; 0 for 0.
    mutating func next(_ limit: UInt64) -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return limit == 0 ? 0 : (word ^ (word >> 31)) % limit
    }

    mutating func ranges(count: Int, overlapping: Bool) -> [Range<UInt64>] {
        var ranges: [Range<UInt64>] = []
        var position: UInt64 = 0
        for _ in 0..<count {
            let start = position + next(3) * next(30)
            let end = start + next(100) + 1
            ranges.append(start..<end)
            position = overlapping ? start + next(end - start + 20) : end
        }
        return ranges
    }
}
