import SyncCurl
import SyncPlugins
import SyncSystem

/// What other threads ask of the worker.
enum Command: Sendable {
    case start(TransferRequest, any TransferSink, TransferCompletion)
    case resume(TransferID)
    case cancel(TransferID)
    case blame(url: String, reason: String)
    case setRateLimit(UInt64?)
    case setWaiting(deadline: Duration, Patience?)
    case resolved(UInt64, [Resolution], [PluginError])
    case recorded(UInt64)
    case provided(Origin, UInt64, ProvidedCredential)
    case describe(limit: Int, @Sendable (CurlTransport.Statuses) -> Void)
}

/// Passes commands to the worker's thread and its results back: the one place where threads meet.
final class Inbox: Sendable {
    private struct State {
        var commands: [Command] = []
        /// Transfers that ``commands`` already resume.
        var resumed: Set<TransferID> = []
        var isOpen = true
        var sources: SourceRecords?
        var links: [LinkRecord]?
        /// `nil` once the worker has ended: nobody is to be woken then, and connections need not stay open.
        var multi: MultiHandle?
    }

    private let state: Mutex<State>

    init(multi: MultiHandle) { state = Mutex(State(multi: multi)) }

    /// Adds a command. `false` if the transport has ended; the command is then dropped.
    @discardableResult func post(_ command: Command) -> Bool {
        state.withLock { state in
            guard state.isOpen else { return false }
            if case .resume(let id) = command, !state.resumed.insert(id).inserted { return true }
            state.commands.append(command)
            if state.commands.count == 1 { state.multi?.wakeUp() }
            return true
        }
    }

    /// Takes no more commands; the worker ends after those already here.
    func close() {
        state.withLock { state in
            state.isOpen = false
            state.multi?.wakeUp()
        }
    }

    /// All commands since the last call, and whether more can follow. For the worker only.
    func takeAll() -> (commands: [Command], isOpen: Bool) {
        state.withLock { state in
            defer { (state.commands, state.resumed) = ([], []) }
            return (state.commands, state.isOpen)
        }
    }

    func publish(_ sources: SourceRecords) { state.withLock { $0.sources = sources } }

    /// What was published since the last call; `nil` if nothing.
    func takeSources() -> SourceRecords? { state.withLock { $0.sources.take() } }

    func publish(_ links: [LinkRecord]) { state.withLock { $0.links = links } }

    func takeLinks() -> [LinkRecord]? { state.withLock { $0.links.take() } }

    /// The worker has ended: the multi handle is let go.
    func end() { state.withLock { $0.multi = nil } }
}

/// Transfers cancelled before they were started. A cancel after the end looks the same, so only the latest are kept.
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

    /// - Returns: Whether it was cancelled.
    mutating func take(_ id: TransferID) -> Bool { ids.remove(id) != nil }
}

extension TransferError {
    /// Why a transfer is not started.
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
