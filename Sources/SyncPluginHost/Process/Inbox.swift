import SyncSystem

/// Commands from other threads for a thread that waits in poll(2). The thread starts with the first command and ends
/// with ``close(_:)``.
final class Inbox<Command: Sendable>: Sendable {
    let pipe = WakePipe()
    private let state = Mutex((commands: [Command](), isStarted: false, isClosed: false))
    private let isRunning = Monitor(false)

    /// Posts a command, and starts the thread if necessary.
    ///
    /// - Parameters:
    ///   - configuration: Starts the thread.
    ///   - body: The thread's work.
    /// - Returns: Whether the command was accepted: not after ``close(_:)``.
    /// - Throws: `ThreadError`; the command is then not accepted.
    func start(
        with command: Command, _ configuration: PluginConfiguration, _ name: String,
        _ body: @escaping @Sendable () -> Void
    ) throws(ThreadError) -> Bool {
        let isTaken = try state.withLock { state throws(ThreadError) -> Bool in
            guard !state.isClosed else { return false }
            if !state.isStarted {
                isRunning.change { $0 = true }
                do throws(ThreadError) {
                    _ = try configuration.startThread(name) { [isRunning] in
                        CurrentProcess.blockPipeSignal()
                        body()
                        isRunning.change { $0 = false }
                    }
                } catch {
                    isRunning.change { $0 = false }
                    throw error
                }
                state.isStarted = true
            }
            state.commands.append(command)
            return true
        }
        if isTaken { pipe.wake() }
        return isTaken
    }

    /// Posts a command; it is dropped after ``close(_:)``.
    func post(_ command: Command) {
        state.withLock { if !$0.isClosed { $0.commands.append(command) } }
        pipe.wake()
    }

    /// Posts the last command, and waits for the thread to end. Idempotent.
    func close(_ command: Command) {
        state.withLock { state in
            if !state.isClosed { state.commands.append(command) }
            state.isClosed = true
        }
        pipe.wake()
        isRunning.wait { $0 ? nil : () }
    }

    func takeAll() -> [Command] {
        state.withLock { state in
            defer { state.commands = [] }
            return state.commands
        }
    }
}
