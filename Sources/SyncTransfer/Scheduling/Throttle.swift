/// A token bucket over all transfers of one worker. A token is a **byte**.
final class Throttle {
    /// **Bytes** a second; `nil` for no limit.
    private(set) var rate: UInt64?
    private var tokens: Double = 0
    private var filledAt: Duration

    init(rate: UInt64?, now: Duration) {
        self.rate = rate
        filledAt = now
    }

    func setRate(_ rate: UInt64?, now: Duration) {
        fill(now: now)
        self.rate = rate.map { max(1, $0) }  // At 0 the wait would have no end.
        tokens = min(tokens, 0)
    }

    /// Takes tokens. One chunk may go into debt, so that a chunk larger than the bucket can pass. The debt is paid
    /// before the next chunk.
    ///
    /// - Returns: `false` if there are no tokens; then none were taken.
    func take(_ count: Int) -> Bool {
        guard rate != nil else { return true }
        guard tokens > 0 else { return false }
        tokens -= Double(count)
        return true
    }

    func giveBack(_ count: Int) { if rate != nil { tokens += Double(count) } }

    /// Adds tokens for the time since the last call, at most a tenth of a second's worth.
    func fill(now: Duration) {
        guard let rate else { return }
        tokens = min(tokens + Double(rate) * ((now - filledAt) / .seconds(1)), Double(rate) / 10)
        filledAt = now
    }

    /// Kernel receive buffer in **bytes** for a new socket: a quarter of a second's worth, so that the kernel does not
    /// receive far ahead of the limit; `nil` without a limit. `SO_RCVBUF`, socket(7).
    var socketBuffer: Int32? { rate.map { Int32(min(max($0 / 4, 4096), 4 << 20)) } }

    var hasTokens: Bool { rate == nil || tokens > 0 }

    /// The time until there are tokens again.
    var wait: Duration {
        guard let rate, tokens <= 0 else { return .zero }
        return .seconds((1 - tokens) / Double(rate))
    }
}
