import SyncModel
import SyncPlugins
import SyncSystem

/// Wraps a run's transport and counts what each server delivered, for the summary.
///
/// Requests and bytes of a transfer count for the server that delivered in the end, including redirects and retries.
/// Bytes received by a transfer that failed are unknown here: they are only in ``Transport/totals``.
final class OriginLedger: Transport {
    /// The sums of one server.
    struct Entry: Sendable, Equatable {
        var requests: UInt64 = 0
        /// Body **bytes**.
        var bytes: UInt64 = 0
        /// Transfers that the server delivered.
        var transfers = 0
        /// Transfers of packs and files that failed there, cancelled ones excluded. Those of manifests do not count,
        /// since a manifest is looked for in several places.
        var failed = 0
    }

    let transport: any Transport
    /// The totals of ``transport`` before this run.
    private let earlier: TransferTotals
    private let state = Mutex<[String: Entry]>([:])

    /// The most servers that are listed.
    private static let limit = 256

    init(_ transport: any Transport) {
        self.transport = transport
        earlier = transport.totals
    }

    /// The sums by origin, `https://host:port`. If there was just one server, all bytes count for it.
    var entries: (origins: [String: Entry], otherBytes: UInt64) {
        var entries = state.withLock { $0 }
        let known = entries.values.reduce(UInt64(0)) { $0 &+ $1.bytes }
        let all = totals.bytesReceived
        let rest = all > known ? all - known : 0
        if rest > 0, entries.count == 1, let only = entries.keys.first {
            entries[only]?.bytes = all
            return (entries, 0)
        }
        return (entries, rest)
    }

    private func note(_ result: Result<TransferReport, TransferError>, isObject: Bool) {
        let url: String
        var entry = Entry()
        switch result {
        case .success(let report):
            url = report.currentURL
            entry.requests = UInt64(max(0, report.requests))
            entry.bytes = report.bytesReceived
            entry.transfers = 1
        case .failure(let error):
            url = error.url
            entry.requests = UInt64(max(0, error.requests))
            let isStopped = error.code == .cancelled || error.code == .stoppedBySink
            entry.failed = isStopped || !isObject ? 0 : 1
        }
        // Thousands may be stopped before they are sent, which leaves nothing to count.
        guard entry != Entry(), let origin = urlOrigin(url).map(escaped) else { return }
        state.withLock { [entry] state in
            guard state.count < Self.limit || state[origin] != nil else { return }
            var sum = state[origin] ?? Entry()
            sum.requests &+= entry.requests
            sum.bytes &+= entry.bytes
            sum.transfers += entry.transfers
            sum.failed += entry.failed
            state[origin] = sum
        }
    }

    // MARK: The transport's own

    func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        transport.start(request, sink: sink) { [self] result in
            // The length of a manifest is not known beforehand.
            note(result, isObject: request.objectSize != nil)
            completion(result)
        }
    }

    func resume(_ id: TransferID) { transport.resume(id) }

    func cancel(_ id: TransferID) { transport.cancel(id) }

    func reportFault(url: String, reason: String) { transport.reportFault(url: url, reason: reason) }

    var totals: TransferTotals {
        var totals = transport.totals
        totals.requests -= min(earlier.requests, totals.requests)
        totals.bytesReceived -= min(earlier.bytesReceived, totals.bytesReceived)
        totals.bytesDiscarded -= min(earlier.bytesDiscarded, totals.bytesDiscarded)
        return totals
    }

    func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        transport.transferStatuses(limit: limit, at: now)
    }

    func shutdown() { transport.shutdown() }
}
