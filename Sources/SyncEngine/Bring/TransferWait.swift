import SyncPlugins
import SyncSystem

extension Transport {
    /// Runs one transfer to its end; blocks the calling thread. A stop request cancels it.
    ///
    /// - Parameter end: When it is cancelled, too; `nil` for as long as the transport takes.
    func run(
        _ request: TransferRequest,
        sink: any TransferSink,
        stop: StopRequest,
        until end: SuspendingClock.Instant? = nil
    ) -> Result<TransferReport, TransferError> {
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        stop.onStop { cancel(request.id) }
        start(request, sink: sink) { result in outcome.change { $0 = result } }
        if let end {
            // Looked at as often as a person would notice.
            let isOver = outcome.wait(every: 200) { result -> Bool? in
                result != nil ? false : SuspendingClock.now >= end ? true : nil
            }
            if isOver { cancel(request.id) }
        }
        return outcome.wait { $0 }
    }
}
