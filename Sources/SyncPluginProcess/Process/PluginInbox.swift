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

/// Wakes a thread that waits in poll(2).
final class WakePipe: Sendable {
    private let pipe = Pipe()
    /// For poll(2); -1 when there was no pipe to be had: then it is looked for commands after each ``tick``.
    var reader: Int32 { pipe?.reader.raw ?? -1 }
    static let tick = Duration.milliseconds(20)

    init() {
        if let pipe { _ = setBlocking(pipe.writer.raw, false) }
    }

    /// A full pipe wakes as well.
    func wake() {
        if let pipe { _ = withUnsafeBytes(of: UInt8(1)) { writeSome(pipe.writer.raw, $0) } }
    }

    func drain() {
        var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &bytes) { bytes in
            while case .bytes = readSome(reader, into: bytes) {}
        }
    }
}
