import SyncModel
package import SyncPlugins
import SyncSystem

/// Fetches through a plugin: method `transport.fetch`.
///
/// The plugin fetches one body from one URL into a pipe. ``TransferPump`` handles mirrors, retries, resumption, limits
/// and back-pressure, on one thread that calls every sink. Sizes that the plugin reports are never trusted.
package final class PluginTransport: Transport {
    package struct Retries: Sendable {
        /// Failed attempts after which a transfer fails.
        package var most = 5
        /// Delay before the first retry; doubled for each further one.
        package var firstDelay = Duration.milliseconds(250)
        package var longestDelay = Duration.seconds(30)

        package init() {}
    }

    private let client: PluginClient
    private let inbox = Inbox<TransferPump.Command>()
    private let counts = Monitor(TransferTotals())
    private let retries: Retries
    private let events: @Sendable (TransferEvent) -> Void

    /// Uses this client's plugin; the client must have been made for ``PluginPoint/transport``.
    ///
    /// - Parameters:
    ///   - client: Closed by ``shutdown()``.
    ///   - retries: When a transfer is retried.
    ///   - events: Receives retries and mirror changes, on the pump's thread.
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

    package func reportFault(url: String, reason: String) { inbox.post(.reportFault(url)) }

    package var totals: TransferTotals { counts.withLock { $0 } }

    package func shutdown() {
        inbox.close(.stop)
        client.close()
    }
}
