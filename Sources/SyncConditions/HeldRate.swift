package import SyncModel

/// The limit on the rate at a moment.
package struct HeldRate: Sendable, Equatable {
    /// Most body **bytes** a second; `nil` for no limit.
    package var limit: UInt64?
    /// When that may change, **milliseconds** since 1970; `nil` when never.
    package var until: Int64?
}

/// The limit that holds now: of the rates by time of day the first whose window is open, else the usual one.
///
/// - Parameters:
///   - now: **Milliseconds** since 1970.
///   - rates: By time of day; one in a time zone that is not known here never holds.
///   - usual: Most body **bytes** a second otherwise.
///   - clock: The calendar.
package func rate(at now: Int64, of rates: [RateWindow], usual: UInt64?, clock: WindowClock) -> HeldRate {
    let times = rates.map { clock($0.window, now) }
    let open = times.firstIndex { $0?.end != nil }
    // Windows behind the one that holds change nothing.
    let counting = open.map { times[...$0] } ?? times[...]
    return HeldRate(
        limit: open.map { rates[$0].limit } ?? usual,
        until: counting.compactMap { $0.map { $0.end ?? $0.nextBegin } }.min()
    )
}
