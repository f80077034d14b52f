package import SyncEngine

/// How far a command has come, as the engine tells it.
package struct ProgressSnapshot: Sendable, Equatable {
    /// What a phase is counted in.
    package enum Unit: Sendable, Equatable {
        case files
        /// Bytes alone: files are not known yet.
        case bytes
        /// It shows that something goes on, and not how far it is.
        case nothing
    }

    /// What goes on: `Checking`, `Fetching`, `Packing`.
    package var phase: String
    package var unit = Unit.files
    package var filesDone = 0
    /// Files there are; `nil` before that is known.
    package var filesTotal: Int?
    /// **Bytes** that are finished.
    package var bytesDone: UInt64 = 0
    /// **Bytes** there are; `nil` before that is known.
    package var bytesTotal: UInt64?
    /// **Bytes** off the network, where it has to do with one.
    package var received: UInt64?
    /// Whether bytes should come now.
    package var isTransferring = false
    /// What keeps it.
    package var wait: TransferWait?

    /// Whether something has moved from an earlier one to this.
    func hasMoved(since earlier: ProgressSnapshot) -> Bool {
        phase != earlier.phase || received != earlier.received || bytesDone != earlier.bytesDone
            || filesDone != earlier.filesDone
    }
}
