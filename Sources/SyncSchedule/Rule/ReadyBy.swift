import SyncModel

/// The start time with which everything is in place at a given time: no earlier than needed, and early enough judging
/// by earlier nights.
package struct ReadyBy: Sendable, Equatable {
    /// **Milliseconds** since 1970.
    package let start: Int64
    /// The forecast behind it; `nil` on the first night, which starts with its window.
    package let forecast: Forecast?

    package struct Forecast: Sendable, Equatable {
        /// Number of nights behind it.
        package let nights: Int
        /// **Bytes** expected: more than nine nights in ten brought.
        package let bytes: UInt64
        /// The smallest and the largest number of **bytes** in those nights.
        package let range: ClosedRange<UInt64>
        /// **Bytes** a second that eight nights in ten have reached; `nil` if all of them brought next to nothing.
        package let rate: Double?
        /// **Milliseconds** set aside.
        package let needed: Int64
    }

    /// Number of recent nights that count.
    package static let nights = 14
    /// Factor on the expected bytes: the next night may bring more than earlier ones.
    static let headroom = 1.2
    /// Factor on the expected time: the next night may be slower.
    package static let margin = 1.5
    /// **Milliseconds** for the manifest, verification and hooks.
    static let overhead: Int64 = 120_000
    /// Fewest **bytes** of a night from which a rate is derived.
    static let telling: UInt64 = 1 << 20

    /// Plans the start.
    ///
    /// - Parameters:
    ///   - night: The occurrence; its own delay is kept, so that not all machines start at once.
    ///   - ready: **Milliseconds** since 1970.
    ///   - history: Ended runs, newest first: body **bytes** received, and **milliseconds** from start to end.
    /// - Returns: A start in `night.fire...ready`.
    package static func plan(_ night: Occurrence, ready: Int64, history: [(received: UInt64, elapsed: Int64)])
        -> ReadyBy
    {
        guard let forecast = forecast(history, longest: (night.end ?? ready) - night.begin) else {
            return ReadyBy(start: night.fire, forecast: nil)
        }
        let delay = night.fire - night.begin
        let start = max(night.fire, ready - forecast.needed - delay)
        // Seconds are the unit of people and timers.
        return ReadyBy(start: min(floorDivision(start, 1_000).quotient * 1_000, ready), forecast: forecast)
    }

    /// - Parameter longest: A run that took more **milliseconds** waited for another night; it yields no rate.
    static func forecast(_ history: [(received: UInt64, elapsed: Int64)], longest: Int64) -> Forecast? {
        let known = history.prefix(nights)
        let sizes = known.map(\.received).sorted()
        guard let least = sizes.first, let most = sizes.last else { return nil }
        let bytes = UInt64(clampedFrom: Double(percentile(sizes, 90) ?? most) * headroom)
        let within = known.filter { $0.elapsed > 0 && $0.elapsed <= longest }
        let rates = within.filter { $0.received >= telling }.map { Double($0.received) / Double($0.elapsed) * 1_000 }
            .sorted()
        let rate = percentile(rates, 20)
        // Bytes are expected, but no rate is known: as on the first night.
        if rate == nil, bytes >= telling { return nil }
        let transfer = rate.map { Double(bytes) / $0 * 1_000 } ?? 0
        // Verification and hooks take their time even if few bytes come.
        let usual = Double(percentile(within.map(\.elapsed).sorted(), 90) ?? 0)
        let needed = max(transfer, usual) * margin
        return Forecast(
            nights: known.count, bytes: bytes, range: least...most, rate: rate,
            // More than a week counts as a week: the run starts with the window.
            needed: Int64(min(needed, 604_800_000)) + overhead)
    }

    /// Nearest rank: the smallest value that so many per cent of all do not exceed.
    static func percentile<Value>(_ sorted: [Value], _ percent: Int) -> Value? {
        guard !sorted.isEmpty else { return nil }
        let rank = (sorted.count * percent + 99) / 100
        return sorted[min(max(rank, 1), sorted.count) - 1]
    }
}

extension ReadyBy: CustomStringConvertible {
    /// `12.0 GiB expected (3.1 to 10.0 GiB in 5 nights), 30.0 MiB/s measured, 1.5x margin`.
    package var description: String {
        guard let forecast else { return "no earlier nights are known: starts when the window opens" }
        let nights = forecast.nights == 1 ? "1 night" : "\(forecast.nights) nights"
        let (low, high) = (ByteCount(forecast.range.lowerBound), ByteCount(forecast.range.upperBound))
        let range = low == high ? "\(low)" : "\(low) to \(high)"
        var text = "\(ByteCount(forecast.bytes)) expected (\(range) in \(nights)), "
        if let rate = forecast.rate { text += "\(ByteCount(UInt64(clampedFrom: rate)))/s measured, " }
        let minutes = (forecast.needed + 59_999) / 60_000
        return text + "\(Self.margin)x margin: \(Figures.period(minutes * 60_000)) set aside"
    }
}

extension UInt64 {
    /// The value truncated to a whole number and clamped to the range.
    init(clampedFrom value: Double) {
        self = value >= 0x1p64 ? .max : value > 0 ? UInt64(value.rounded(.towardZero)) : 0
    }
}
