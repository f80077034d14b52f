import Dispatch

/// Work done one after another on a thread of the system's pool.
final class DispatchLane: Sendable {
    private let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func add(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    /// Waits until everything added has run.
    func drain() { queue.sync {} }
}
