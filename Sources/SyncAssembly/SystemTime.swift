import Foundation
package import SyncTransfer

/// What time the system says it is.
package enum SystemTime {
    /// **Milliseconds** since 1970.
    package static func milliseconds() -> Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded()) }

    /// For transports.
    package static var clock: TransportClock {
        let start = ContinuousClock.now
        return TransportClock(
            now: { ContinuousClock.now - start },
            unixTime: { Int64(Date().timeIntervalSince1970) }
        )
    }
}
