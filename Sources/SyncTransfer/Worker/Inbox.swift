import SyncModel
import SyncPlugins
import SyncSystem

/// A command to the worker.
enum Command: Sendable {
    case start(TransferRequest, any TransferSink, TransferCompletion)
    case resume(TransferID)
    case cancel(TransferID)
    case reportFault(url: String, reason: String)
    case setRateLimit(UInt64?)
    case setWaiting(deadline: Duration, Patience?)
    case resolved(UInt64, [ResolverAnswer], [PluginError])
    case recorded(UInt64)
    case provided(Origin, UInt64, ProvidedCredential)
    case describe(limit: Int, at: WallTime, @Sendable (CurlTransport.Statuses) -> Void)
}

/// Passes commands to the worker's thread and its results back. Threads meet only here.
final class Inbox: Sendable {
    private struct State {
        var commands: [Command] = []
        /// Transfers that ``commands`` already resume.
        var resumed: Set<TransferID> = []
        var isOpen = true
        var sources: SourceRecords?
        var links: RedirectMemory?
        /// `nil` once the worker has ended: there is no thread to wake then, and connections need not stay open.
        var multi: MultiHandle?
    }

    private let state: Mutex<State>

    init(multi: MultiHandle) { state = Mutex(State(multi: multi)) }

    /// Adds a command. Returns `false`, and drops the command, if the transport has ended.
    @discardableResult func post(_ command: Command) -> Bool {
        state.withLock { state in
            guard state.isOpen else { return false }
            if case .resume(let id) = command, !state.resumed.insert(id).inserted { return true }
            state.commands.append(command)
            if state.commands.count == 1 { state.multi?.wakeUp() }
            return true
        }
    }

    /// Refuses further commands; the worker ends after those already here.
    func close() {
        state.withLock { state in
            state.isOpen = false
            state.multi?.wakeUp()
        }
    }

    /// Takes all commands since the last call; `isOpen` tells whether more can follow. For the worker only.
    func takeAll() -> (commands: [Command], isOpen: Bool) {
        state.withLock { state in
            defer { (state.commands, state.resumed) = ([], []) }
            return (state.commands, state.isOpen)
        }
    }

    func publish(_ sources: SourceRecords) { state.withLock { $0.sources = sources } }

    /// The records published since the last call; `nil` if there are none.
    func takeSources() -> SourceRecords? { state.withLock { $0.sources.take() } }

    func publish(_ links: RedirectMemory) { state.withLock { $0.links = links } }

    func takeLinks() -> RedirectMemory? { state.withLock { $0.links.take() } }

    /// Releases the multi handle after the worker has ended.
    func end() { state.withLock { $0.multi = nil } }
}

/// Transfers cancelled before their start. A cancel after the end looks the same, so only the latest are kept.
struct EarlyCancels: Sendable {
    private var ids: Set<TransferID> = []
    private var order: [TransferID] = []
    private var oldest = 0
    private static let capacity = 4096

    mutating func insert(_ id: TransferID) {
        guard ids.insert(id).inserted else { return }
        if order.count < Self.capacity {
            order.append(id)
        } else {
            ids.remove(order[oldest])
            order[oldest] = id
            oldest = (oldest + 1) % Self.capacity
        }
    }

    /// - Returns: Whether the transfer was cancelled.
    mutating func take(_ id: TransferID) -> Bool { ids.remove(id) != nil }
}

extension TransferError {
    /// The reason why a transfer is not started.
    init(_ code: Code, _ detail: String, of request: TransferRequest) {
        self.init(code: code, url: request.urls.first ?? "", detail: detail)
    }

    static func cancelledEarly(_ request: TransferRequest) -> TransferError {
        TransferError(.cancelled, "cancelled before its start", of: request)
    }

    static func duplicate(_ request: TransferRequest) -> TransferError {
        TransferError(.misuse, "transfer \(request.id) exists already", of: request)
    }

    static func ended(_ request: TransferRequest) -> TransferError {
        TransferError(.cancelled, "the transport has ended", of: request)
    }
}
