import Synchronization

/// What the windows of decoders may take together: a window can be as long as the raw bytes of its frame, and as many
/// frames are decoded at a time as there are connections.
package final class WindowBudget: Sendable {
    /// **Bytes** of all windows.
    package let capacity: Int
    private let used = Mutex(0)

    package init(capacity: Int) { self.capacity = capacity }

    /// Takes **bytes**; `false` when they are not there now.
    package func take(_ count: Int) -> Bool {
        used.withLock { used in
            guard count <= capacity - used else { return false }
            used += count
            return true
        }
    }

    /// Gives **bytes** back.
    package func give(_ count: Int) { used.withLock { $0 -= count } }
}
