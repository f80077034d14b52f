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

    private let client: PluginClient
    private let inbox = Inbox<TransferPump.Command>()
    private let counts = Monitor(TransferTotals())
    private let retries: Retries
    private let events: @Sendable (TransferEvent) -> Void

    /// Fetches by the plugin of this client, which was made for ``PluginPoint/transport``.
    ///
    /// - Parameters:
    ///   - client: Closed by ``shutdown()``.
    ///   - retries: When a transfer is tried again.
    ///   - events: Told of retries and mirrors, on the pump's thread.
    package init(
        _ client: PluginClient, retries: Retries = Retries(),
        events: @escaping @Sendable (TransferEvent) -> Void = { _ in }
    ) {
        (self.client, self.retries, self.events) = (client, retries, events)
    }

    deinit { inbox.post(.stop) }

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        func refuse(_ code: TransferError.Code, _ detail: String) {
            completion(.failure(TransferError(code: code, url: request.urls.first ?? "", detail: detail)))
        }
        do throws(ThreadError) {
            let isTaken = try inbox.start(
                with: .start(request, sink, completion), client.configuration, "pump-\(client.name)"
            ) { [client, inbox, counts, retries, events] in
                TransferPump(client, inbox, counts, retries, events).run()
            }
            if !isTaken { refuse(.cancelled, "the transport was shut down") }
        } catch { refuse(.misuse, error.description) }
    }

    package func resume(_ id: TransferID) { inbox.post(.resume(id)) }

    package func cancel(_ id: TransferID) { inbox.post(.cancel(id)) }

    package func blame(url: String, reason: String) { inbox.post(.blame(url)) }

    package var totals: TransferTotals { counts.withLock { $0 } }

    package func shutdown() {
        inbox.close(.stop)
        client.close()
    }
}
