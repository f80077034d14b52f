import Synchronization

/// The memory that the windows of all decoders may use together. A window can be as long as the raw bytes of its frame,
/// and as many frames are decoded at a time as there are connections.
package final class WindowBudget: Sendable {
    /// Most **bytes** of all windows together.
    package let capacity: Int
    private let used = Mutex(0)

    package init(capacity: Int) { self.capacity = capacity }

    /// Reserves **bytes**; `false` if there are not enough at present.
    package func take(_ count: Int) -> Bool {
        used.withLock { used in
            guard count <= capacity - used else { return false }
            used += count
            return true
        }
    }

    /// Releases **bytes**.
    package func give(_ count: Int) { used.withLock { $0 -= count } }
}
