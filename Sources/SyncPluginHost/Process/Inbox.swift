import SyncSystem

/// What other threads want of a thread that waits in poll(2). The thread begins with the first command and ends with
/// ``close(_:)``.
final class Inbox<Command: Sendable>: Sendable {
    let pipe = WakePipe()
    private let state = Mutex((commands: [Command](), isStarted: false, isClosed: false))
    private let isRunning = Monitor(false)

    /// Posts a command that has the thread begin.
    ///
    /// - Parameters:
    ///   - configuration: Says how a thread is started.
    ///   - body: What the thread does.
    /// - Returns: Whether the command is taken: not once it is closed.
    /// - Throws: `ThreadError`; then the command is not taken.
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

    /// Posts a command. Once it is closed nobody takes commands.
    func post(_ command: Command) {
        state.withLock { if !$0.isClosed { $0.commands.append(command) } }
        pipe.wake()
    }

    /// Posts the last command, and waits for the thread's end. Harmless a second time.
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
