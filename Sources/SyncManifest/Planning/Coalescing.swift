/// When neighbouring byte ranges of one object become one request.
package struct CoalescingRule: Sendable, Equatable {
    /// Most unwanted **bytes** to read between two wanted ranges.
    ///
    /// Reading a gap pays while it costs less than a round trip: first-byte time × rate of one connection,
    /// clamped to 16 KiB...2 MiB. 256 KiB until something is measured. Arrow's `CacheOptions` has the formula.
    package var maximumGap: UInt64
    /// **Bytes** of a gap that is always read, if it is no longer than ``maximumGap``: it costs less than a request of
    /// its own, whatever the line. A request's headers are about 1 KiB, and where requests are charged for, one costs
    /// as much as 4 KiB of traffic. The blobs of tiny files that have changed since a pack was made would otherwise
    /// each cost a request.
    package var freeGap: UInt64
    /// Length in **bytes** past which a span is cut, at a range boundary.
    package var spanLength: UInt64
    /// Most **bytes** of longer gaps per hundred wanted bytes of one object.
    package var wastePercent: UInt64

    package init(
        maximumGap: UInt64 = 256 << 10, freeGap: UInt64 = 4 << 10, spanLength: UInt64 = 16 << 20,
        wastePercent: UInt64 = 10
    ) {
        (self.maximumGap, self.freeGap) = (maximumGap, freeGap)
        (self.spanLength, self.wastePercent) = (spanLength, wastePercent)
    }
}

/// Merges the wanted ranges of one object into fewer, longer requests.
///
/// - Parameter ranges: Half-open, in **bytes**, by ascending start, none empty. A range that overlaps the
///   one before starts a span of its own, so that every span's ranges follow one another.
/// - Returns: Spans by ascending start, each fetched by one request: its range, the positions of its ranges in the
///   input, and its **bytes** that no range wants. Each input range is in exactly one.
/// - Complexity: O(*n* log *n*): the shortest gaps are bridged first until the waste limit is used up.
package func coalesce(_ ranges: [Range<UInt64>], rule: CoalescingRule) -> [(
    range: Range<UInt64>, members: Range<Int>, waste: UInt64
)] {
    guard !ranges.isEmpty else { return [] }
    let bridged = bridgedGaps(ranges, rule: rule)
    var spans: [(range: Range<UInt64>, members: Range<Int>, waste: UInt64)] = []
    var open = (range: ranges[0], members: 0..<1, waste: UInt64(0))
    for index in ranges.indices.dropFirst() {
        let next = ranges[index]
        let length = next.upperBound.subtractingReportingOverflow(open.range.lowerBound)
        if bridged[index], !length.overflow, length.partialValue <= max(rule.spanLength, next.length) {
            open.waste += next.lowerBound - open.range.upperBound
            open.range = open.range.lowerBound..<next.upperBound
            open.members = open.members.lowerBound..<(index + 1)
        } else {
            spans.append(open)
            open = (next, index..<(index + 1), 0)
        }
    }
    spans.append(open)
    return spans
}

/// For each range but the first, whether the gap before it may be read.
private func bridgedGaps(_ ranges: [Range<UInt64>], rule: CoalescingRule) -> [Bool] {
    var bridged = [Bool](repeating: false, count: ranges.count)
    var gaps: [(length: UInt64, index: Int)] = []
    var wanted: UInt64 = ranges[0].length
    for index in ranges.indices.dropFirst() {
        wanted = wanted.addingReportingOverflow(ranges[index].length).partialValue
        let before = ranges[index - 1].upperBound
        let start = ranges[index].lowerBound
        guard start >= before, start - before <= rule.maximumGap else { continue }
        if start - before <= rule.freeGap {
            bridged[index] = true
        } else {
            gaps.append((start - before, index))
        }
    }
    var allowance = wanted / 100 &* rule.wastePercent
    gaps.sort { ($0.length, $0.index) < ($1.length, $1.index) }
    for gap in gaps {
        guard gap.length <= allowance else { break }
        allowance -= gap.length
        bridged[gap.index] = true
    }
    return bridged
}

extension Range<UInt64> {
    /// Length in **bytes**.
    package var length: UInt64 { upperBound - lowerBound }
}
