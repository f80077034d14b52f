import SyncCurl
import SyncPlugins
import SyncSystem

/// What other threads ask of the worker.
enum Command: Sendable {
    case start(TransferRequest, any TransferSink, @Sendable (Result<TransferReport, TransferError>) -> Void)
    case resume(TransferID)
    case cancel(TransferID)
    case blame(url: String, reason: String)
    case setRateLimit(UInt64?)
    case setWaiting(deadline: Duration, Patience?)
    case resolved(UInt64, [Resolved], [PluginError])
    case provided(Origin, UInt64, ProvidedCredential)
    case describe(limit: Int, @Sendable (CurlTransport.Statuses) -> Void)
}

/// The door to the worker's thread: the one place where threads meet.
final class Inbox: Sendable {
    private struct State {
        var commands: [Command] = []
        /// Transfers that ``commands`` resume: once is enough.
        var resumed: Set<TransferID> = []
        var isOpen = true
        var sources: SourceRecords?
        var links: LinkChanges?
        /// Set until the worker has ended, so that nobody wakes a multi handle that is gone.
        var multi: MultiHandle?
    }

    private let state: Mutex<State>

    init(multi: MultiHandle) { state = Mutex(State(multi: multi)) }

    /// Leaves a command. `false` when the transport has ended; then the command is dropped.
    @discardableResult
    func post(_ command: Command) -> Bool {
        state.withLock { state in
            guard state.isOpen else { return false }
            if case .resume(let id) = command, !state.resumed.insert(id).inserted { return true }
            state.commands.append(command)
            if state.commands.count == 1 { state.multi?.wakeUp() }
            return true
        }
    }

    /// Takes no more commands. The worker ends once it has taken those that are here.
    func close() {
        state.withLock { state in
            state.isOpen = false
            state.multi?.wakeUp()
        }
    }

    /// Everything left since the last call, and whether more can come. The worker alone calls this.
    func takeAll() -> (commands: [Command], isOpen: Bool) {
        state.withLock { state in
            defer { (state.commands, state.resumed) = ([], []) }
            return (state.commands, state.isOpen)
        }
    }

    /// Leaves what is known about sources.
    func publish(_ sources: SourceRecords) { state.withLock { $0.sources = sources } }

    /// Takes what was left since the last time; `nil` when there is nothing new.
    func takeSources() -> SourceRecords? {
        state.withLock { state in
            defer { state.sources = nil }
            return state.sources
        }
    }

    /// Leaves what redirects have taught.
    func publish(_ links: LinkChanges) { state.withLock { $0.links = links } }

    /// Takes what was left since the last time; `nil` when there is nothing new.
    func takeLinks() -> LinkChanges? {
        state.withLock { state in
            defer { state.links = nil }
            return state.links
        }
    }

    /// The multi handle is about to go.
    func end() { state.withLock { $0.multi = nil } }
}
