import SyncPlugins
import Synchronization

/// Numbers for transfers, unique in this process.
enum TransferNumbers {
    private static let last = Mutex<UInt64>(0)

    @Sendable
    static func next() -> TransferID {
        last.withLock { last in
            last &+= 1
            return TransferID(rawValue: last)
        }
    }
}
