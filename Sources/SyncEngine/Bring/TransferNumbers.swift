import SyncPlugins
import SyncSystem

/// Numbers for transfers, unique in this process.
enum TransferNumbers {
    private static let last = Mutex<UInt64>(0)

    @Sendable
    static func next() -> TransferID { TransferID(rawValue: next(1).lowerBound) }

    /// So many in a row.
    static func next(_ count: Int) -> Range<UInt64> {
        last.withLock { last in
            let first = last &+ 1
            last = last &+ UInt64(max(0, count))
            return first..<first &+ UInt64(max(0, count))
        }
    }
}
