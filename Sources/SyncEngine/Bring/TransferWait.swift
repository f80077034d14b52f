import SyncPlugins
import SyncSystem

extension Transport {
    /// Runs one transfer to its end; blocks the calling thread. A stop request cancels it.
    func run(
        _ request: TransferRequest,
        sink: any TransferSink,
        stop: StopRequest
    ) -> Result<TransferReport, TransferError> {
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        stop.onStop { cancel(request.id) }
        start(request, sink: sink) { result in outcome.change { $0 = result } }
        return outcome.wait { $0 }
    }
}
