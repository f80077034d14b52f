import SyncSystem

/// A limit on the **bytes** a second that all connections together send.
final class SendingRate: Sendable {
    private let rate: UInt64
    /// When the next byte may be sent.
    private let next: Mutex<ContinuousClock.Instant>
    /// **Bytes** that are sent at a time.
    let piece: Int

    init(_ rate: UInt64) {
        self.rate = max(1, rate)
        next = Mutex(.now)
        piece = Int(min(max(self.rate / 8, 1), 64 << 10))
    }

    /// Waits until `count` **bytes** may be sent; returns `false` if the run was stopped.
    func take(_ count: Int, isStopped: () -> Bool) -> Bool {
        let time = Duration.seconds(Double(count) / Double(rate))
        let start = next.withLock { next in
            let start = max(next, .now)
            next = start + time
            return start
        }
        while true {
            if isStopped() { return false }
            let rest = start - .now
            guard rest > .zero else { return true }
            pauseThread(milliseconds: Int(min(rest, .milliseconds(200)).milliseconds) + 1)
        }
    }
}
