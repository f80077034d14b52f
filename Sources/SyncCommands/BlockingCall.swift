import SyncModel
import SyncSystem
import Synchronization

/// Work that blocks, kept off the concurrency pool: the pool has one thread for each core, and may have one only.
enum BlockingCall {
    private final class Flag: Sendable {
        private let value = Atomic<Bool>(false)
        var isSet: Bool { value.load(ordering: .relaxed) }
        func set() { value.store(true, ordering: .relaxed) }
    }

    /// Runs `work` on a thread of its own; it is told when the task is cancelled, and its end is waited for.
    ///
    /// - Throws: What `work` throws; ``CommandFailure`` with status 74 where no thread is to be had.
    static func run<R: Sendable>(
        _ work: @escaping @Sendable (_ isCancelled: () -> Bool) -> Result<R, any Error>
    ) async throws -> R {
        let flag = Flag()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                do throws(ThreadError) {
                    try detachThread("call") { continuation.resume(with: work { flag.isSet }) }
                } catch {
                    continuation.resume(throwing: CommandFailure(.ioError, "\(error)"))
                }
            }
        } onCancel: {
            flag.set()
        }
    }
}
