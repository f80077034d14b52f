import Foundation

/// Runs work that blocks on a thread of its own: the concurrency pool has one thread for each core.
func onThread<R: Sendable>(_ work: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: work()) }
    }
}
