import SyncPlugins
import SyncUnpack

extension Transport {
    /// Runs one transfer to its end; blocks the calling thread.
    func run(_ request: TransferRequest, sink: any TransferSink) -> Result<TransferReport, TransferError> {
        let outcome = Monitor<Result<TransferReport, TransferError>?>(nil)
        start(request, sink: sink) { result in outcome.change { $0 = result } }
        return outcome.wait { $0 }
    }
}
