import SyncPlugins
import SyncSystem

/// Collects a small body in memory, up to a limit (S15): manifests, never assets.
final class MemorySink: TransferSink {
    private struct State {
        var bytes: [UInt8] = []
        var overflowed = false
    }
    private let state = Mutex(State())
    private let limit: Int

    /// - Parameter limit: Most **bytes**.
    init(limit: Int) { self.limit = limit }

    /// What has come so far.
    var bytes: [UInt8] { state.withLock(\.bytes) }

    /// Whether the body was longer than the limit.
    var overflowed: Bool { state.withLock(\.overflowed) }

    func begin(_ response: ResponseHead) -> UInt64 {
        state.withLock { $0.bytes = [] }
        return 0
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.withLock { state in
            guard state.bytes.count + bytes.count <= limit else {
                state.overflowed = true
                return .stop
            }
            state.bytes.append(contentsOf: bytes)
            return .taken
        }
    }
}
