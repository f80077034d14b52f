import SyncSystem

/// What other threads want of a ``PluginWorker``.
final class PluginInbox: Sendable {
    enum Command: Sendable {
        case request(Int64, PluginRequest)
        /// May come when the request has ended.
        case cancel(Int64)
        case close
    }

    private struct State {
        var commands: [Command] = []
        var number: Int64 = 0
    }

    let pipe = WakePipe()
    private let state = Mutex(State())

    /// A number that no request of this plugin has had.
    func nextNumber() -> Int64 {
        state.withLock { state in
            state.number += 1
            return state.number
        }
    }

    func post(_ command: Command) {
        state.withLock { $0.commands.append(command) }
        pipe.wake()
    }

    func takeAll() -> [Command] {
        state.withLock { state in
            defer { state.commands = [] }
            return state.commands
        }
    }
}
