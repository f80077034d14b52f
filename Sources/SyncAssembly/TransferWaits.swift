import SyncCurl
import SyncEngine
import SyncPlugins
import SyncSystem
import SyncTransfer

/// What transfers wait for, by what the transport tells; forgotten once bytes come again.
final class TransferWaits: Sendable {
    private let state = Mutex<(wait: TransferWait?, received: UInt64)>((nil, 0))
    private let attempts: Int

    /// - Parameter attempts: Of each transfer.
    init(attempts: Int) { self.attempts = attempts }

    /// Takes an event; `time` is in **milliseconds** since 1970.
    func note(_ event: TransferEvent, time: Int64) {
        var wait: TransferWait
        switch event {
        case .retrying(_, let url, _, let attempt, let after):
            wait = TransferWait(host: Self.host(url), until: time + after.milliseconds)
            (wait.attempt, wait.attempts) = (attempt, attempts)
        case .waitingForConnectivity(_, let url, _, let after, _):
            wait = TransferWait(host: Self.host(url), until: time + after.milliseconds)
        default: return
        }
        state.withLock { [wait] in $0.wait = wait }
    }

    /// What is waited for, when so many **bytes** have come.
    func current(received: UInt64) -> TransferWait? {
        state.withLock { state in
            if received > state.received { state = (nil, received) }
            return state.wait
        }
    }

    private static func host(_ url: String) -> String { (try? CurlURL(url))?.origin.host ?? url }
}
