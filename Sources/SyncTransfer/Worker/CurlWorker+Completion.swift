import SyncModel
import SyncPlugins

extension CurlWorker {
    /// A piece has everything it wanted.
    func end(_ piece: Piece) {
        piece.leaveQueue()
        piece.state = .ended
        endScouting(piece)
        let transfer = piece.transfer
        transfer.openPieces -= 1
        guard transfer.openPieces == 0, !transfer.hasEnded else { return }
        close(transfer)
        transfer.pieces = []
        transfer.completion(
            .success(
                TransferReport(
                    response: transfer.lastHead,
                    sourceIndex: transfer.lastSource,
                    currentURL: transfer.lastURL,
                    requests: transfer.requests,
                    bytesReceived: transfer.bytesReceived,
                    isPublic: transfer.isFromPublic
                )
            )
        )
    }

    /// Ends a transfer with all its pieces, wherever they are.
    func abandon(
        _ transfer: Transfer,
        code: TransferError.Code,
        detail: String,
        cause: FailureCause? = nil
    ) {
        guard !transfer.hasEnded else { return }
        close(transfer)
        for piece in transfer.pieces {
            piece.leaveQueue()
            if case .running(let exchange) = piece.state { detach(piece, from: exchange) }
            piece.state = .ended
            endScouting(piece)
        }
        transfer.pieces = []
        var error = TransferError(
            code: code,
            url: transfer.lastURL,
            detail: detail,
            requests: transfer.requests
        )
        if let cause { error.cause = cause }
        transfer.completion(.failure(error))
    }

    private func close(_ transfer: Transfer) {
        transfer.hasEnded = true
        transfers.removeValue(forKey: transfer.id)
        wholeObjects.forget(transfer)
        for index in transfer.sources.indices { leaveAhead(&transfer.sources[index]) }
    }

    /// Takes a piece out of an exchange, which goes on if it serves others.
    private func detach(_ piece: Piece, from exchange: Exchange) {
        guard running[ObjectIdentifier(exchange)] != nil else { return }
        if exchange.lead === piece.transfer { account(exchange) }
        exchange.pieces.removeAll { $0 === piece }
        if let next = exchange.pieces.first {
            exchange.lead = next.transfer
            if exchange.isPaused {  // Perhaps it was this piece that asked for it.
                exchange.isPaused = false
                unpause(exchange)
            }
            return
        }
        release(exchange)
        endWholeObject(of: exchange)
        list(exchange.host)
    }
}
