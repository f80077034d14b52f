import Dispatch
import SyncSystem

/// Runs work that blocks on a thread of its own: the concurrency pool has one thread for each core. Where there is none
/// to be had, it waits until there is: an agent outlives a moment in which the machine is full.
func onThread<R: Sendable>(_ work: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
        start { continuation.resume(returning: work()) }
    }
}

private func start(_ work: @escaping @Sendable () -> Void) {
    do throws(ThreadError) {
        try detachThread("work", work)
    } catch {
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(100)) { start(work) }
    }
}
