import Dispatch
import SyncModel
package import SyncPlugins
import SyncSystem

/// Brings bytes through a plugin: method `transport.fetch`.
///
/// The plugin brings one body from one URL through a pipe; mirrors, retries, resumption, limits and back-pressure are
/// here, in ``TransferPump``, on one thread that calls every sink. Nothing the plugin says about sizes is believed.
package final class PluginTransport: Transport {
    package struct Retries: Sendable {
        /// Attempts of one transfer that may fail.
        package var most = 5
        /// Before the first repetition; doubled for each.
        package var firstDelay = Duration.milliseconds(250)
        package var longestDelay = Duration.seconds(30)

        package init() {}
    }

    private struct State {
        var isStarted = false
        var isClosed = false
    }

    private let client: PluginClient
    private let inbox = PumpInbox()
    private let retries: Retries
    private let events: @Sendable (TransferEvent) -> Void
    private let state = Mutex(State())
    private let ended = DispatchGroup()

    /// Fetches by the plugin of this client, which was made for ``PluginPoint/transport``.
    ///
    /// - Parameters:
    ///   - client: Closed by ``shutdown()``.
    ///   - retries: When a transfer is tried again.
    ///   - events: Told of retries and mirrors, on the pump's thread.
    package init(
        _ client: PluginClient,
        retries: Retries = Retries(),
        events: @escaping @Sendable (TransferEvent) -> Void = { _ in }
    ) {
        self.client = client
        self.retries = retries
        self.events = events
    }

    deinit { inbox.post(.stop) }

    package func start(
        _ request: TransferRequest,
        sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        let refusal = state.withLock { state -> TransferError? in
            let url = request.urls.first ?? ""
            guard !state.isClosed else {
                return TransferError(code: .cancelled, url: url, detail: "the transport was shut down")
            }
            do throws(ThreadError) {
                if !state.isStarted {
                    try client.configuration.startThread("pump-\(client.name)", in: ended) {
                        [client, inbox, retries, events] in
                        TransferPump(client, inbox: inbox, retries: retries, events: events).run()
                    }
                }
            } catch {
                return TransferError(code: .misuse, url: url, detail: error.description)
            }
            state.isStarted = true
            inbox.post(.start(request, sink, completion))
            return nil
        }
        if let refusal { completion(.failure(refusal)) }
    }

    package func resume(_ id: TransferID) { post(.resume(id)) }

    package func cancel(_ id: TransferID) { post(.cancel(id)) }

    package func blame(url: String, reason: String) { post(.blame(url)) }

    /// Once it is closed nobody takes commands.
    private func post(_ command: PumpInbox.Command) {
        state.withLock { if !$0.isClosed { inbox.post(command) } }
    }

    package var totals: TransferTotals { inbox.totals.withLock { $0 } }

    package func shutdown() {
        state.withLock { state in
            state.isClosed = true
            inbox.post(.stop)
        }
        ended.wait()
        client.close()
    }
}

/// What other threads tell a ``TransferPump``.
final class PumpInbox: Sendable {
    enum Command: Sendable {
        case start(TransferRequest, any TransferSink, PluginTransfer.Completion)
        case resume(TransferID)
        case cancel(TransferID)
        case blame(String)
        case stop
        /// The plugin tells something about an attempt.
        case told(TransferID, attempt: Int, String, JSONValue)
        case answered(TransferID, attempt: Int, Result<RPCAnswer, PluginError>)
        /// How many transfers the plugin works on at a time.
        case concurrency(Int)
    }

    let pipe = WakePipe()
    let totals = Mutex(TransferTotals())
    private let commands = Mutex<[Command]>([])

    func post(_ command: Command) {
        commands.withLock { $0.append(command) }
        pipe.wake()
    }

    func takeAll() -> [Command] {
        commands.withLock { commands in
            defer { commands = [] }
            return commands
        }
    }
}
