package import SyncModel
package import SyncPlugins
import SyncSystem

import struct Synchronization.Atomic

/// Fetches URLs with libcurl, including queueing, redirects, retries and resumption.
///
/// One thread owns the multi handle, every easy handle and all state (``CurlWorker``). Other threads put commands into
/// an inbox and wake it with `curl_multi_wakeup(3)`. No lock is held while libcurl or a sink runs.
package final class CurlTransport: Transport {
    private let inbox: Inbox
    private let counters: Counters
    private let thread: Mutex<WorkerThread?>

    /// Checks libcurl and the configuration, and starts the thread.
    ///
    /// - Throws: ``TransferError`` with the code `misuse`, if libcurl is too old or fails its check, a file named in
    ///   the configuration cannot be read, or a value is out of its bounds.
    package init(configuration: TransportConfiguration) throws(TransferError) {
        func misuse(_ detail: String) -> TransferError { TransferError(code: .misuse, url: "", detail: detail) }
        try configuration.validate()
        let multi: MultiHandle
        do {
            try Libcurl.check()
            multi = try MultiHandle()
        } catch { throw misuse(error.detail) }
        let inbox = Inbox(multi: multi)
        let counters = Counters()
        self.inbox = inbox
        self.counters = counters
        do throws(ThreadError) {
            let started = try WorkerThread(name: "curl") { CurlWorker(multi, configuration, inbox, counters).run() }
            thread = Mutex(started)
        } catch {
            thread = Mutex(nil)
            throw misuse("\(error)")
        }
    }

    deinit { shutdown() }

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        guard inbox.post(.start(request, sink, completion)) else { return completion(.failure(.ended(request))) }
    }

    package func resume(_ id: TransferID) { inbox.post(.resume(id)) }

    package func cancel(_ id: TransferID) { inbox.post(.cancel(id)) }

    package func reportFault(url: String, reason: String) { inbox.post(.reportFault(url: url, reason: reason)) }

    /// Changes the limit of all transfers together, in **bytes** a second; `nil` for none.
    package func setRateLimit(_ rate: UInt64?) { inbox.post(.setRateLimit(rate)) }

    /// Changes the deadline of transfers that start from now on, and the patience with silent servers.
    package func setWaiting(deadline: Duration, patience: Patience?) {
        inbox.post(.setWaiting(deadline: deadline, patience))
    }

    /// The changes in what is known about sources, for the next process: their scores, good numbers of connections,
    /// penalties; `nil` if nothing has changed since the last call.
    package func takeSources() -> SourceRecords? { inbox.takeSources() }

    /// The redirects remembered, for the next process; `nil` if nothing has changed since the last call.
    package func takeLinks() -> RedirectMemory? { inbox.takeLinks() }

    package var totals: TransferTotals { counters.totals }

    package func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        let answer = Monitor<Statuses?>(nil)
        guard inbox.post(.describe(limit: limit, at: now, { told in answer.change { $0 = told } })) else {
            return ([], 0)
        }
        var looks = 0
        let told = answer.wait(every: Self.patience) { told -> Statuses?? in
            looks += 1
            return told != nil || looks > 1 ? .some(told) : nil
        }
        return told
    }

    /// The answer to ``Command/describe(limit:at:_:)``.
    typealias Statuses = (transfers: [RequestStatus], more: Int)

    /// How long to wait for the worker's answer, in **milliseconds**.
    private static let patience = 250

    /// Ends every transfer, then the thread. If called on that thread, by a sink or a completion, it does not wait for
    /// the end.
    package func shutdown() {
        inbox.close()
        let ended = thread.withLock { $0.take() }
        if let ended, !ended.isCurrent { ended.join() }
    }
}

/// Sums that the worker writes and any thread may read.
final class Counters: Sendable {
    private let requests = Atomic<UInt64>(0)
    private let bytes = Atomic<UInt64>(0)
    private let discarded = Atomic<UInt64>(0)

    func addRequest() { requests.wrappingAdd(1, ordering: .relaxed) }
    func addBytes(_ count: Int) { bytes.wrappingAdd(UInt64(count), ordering: .relaxed) }
    func addDiscarded(_ count: Int) { discarded.wrappingAdd(UInt64(count), ordering: .relaxed) }

    var totals: TransferTotals {
        var totals = TransferTotals()
        totals.requests = requests.load(ordering: .relaxed)
        totals.bytesDiscarded = discarded.load(ordering: .relaxed)
        totals.bytesReceived = bytes.load(ordering: .relaxed)
        return totals
    }
}
