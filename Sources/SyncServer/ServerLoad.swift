import SyncSystem

/// How many answers are under way: memory is given back when many have ended.
final class ServerLoad: Sendable {
    private struct State {
        var answers = 0
        /// Most answers at a time since memory was given back.
        var peak = 0
    }
    private let state = Mutex(State())
    private let idle: @Sendable () -> Void

    /// So many answers at a time leave memory behind that is worth giving back.
    private static let many = 32

    /// - Parameter idle: Called when nothing is answered any more after many answers at a time.
    init(idle: @escaping @Sendable () -> Void) { self.idle = idle }

    /// An answer begins.
    func begin() {
        state.withLock { state in
            state.answers += 1
            state.peak = max(state.peak, state.answers)
        }
    }

    /// An answer has ended.
    func end() {
        let isIdle = state.withLock { state in
            state.answers -= 1
            guard state.answers == 0, state.peak >= Self.many else { return false }
            state.peak = 0
            return true
        }
        if isIdle { idle() }
    }
}
