import SyncEngine
import SyncModel
import SyncSystem

/// Runs work of the engine, which blocks, on a thread of its own.
func onEngineThread<R: Sendable>(
    _ work: @escaping @Sendable () throws(EngineError) -> R
) async throws(EngineError) -> R {
    let result: Result<R, EngineError>
    do throws(ThreadError) {
        result = try await onThread("engine") {
            do throws(EngineError) { return .success(try work()) } catch { return .failure(error) }
        }
    } catch {
        throw EngineError(.ioError, "\(error)")
    }
    return try result.get()
}
