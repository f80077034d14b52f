package import SyncEngine

/// The progress of a command, as the engine reports it.
package struct ProgressSnapshot: Sendable, Equatable {
    /// The unit that a phase is counted in.
    package enum Unit: Sendable, Equatable {
        case files
        /// Only bytes: the number of files is not known yet.
        case bytes
        /// No counts: only the phase is shown.
        case nothing
    }

    /// The name of the phase: `Checking`, `Fetching`, `Packing`.
    package var phase: String
    package var unit = Unit.files
    package var filesDone = 0
    /// All files; `nil` before their number is known.
    package var filesTotal: Int?
    /// Finished **bytes**.
    package var bytesDone: UInt64 = 0
    /// All **bytes**; `nil` before their number is known.
    package var bytesTotal: UInt64?
    /// **Bytes** received from the network, if the phase uses it.
    package var received: UInt64?
    /// Whether bytes are expected to arrive now.
    package var isTransferring = false
    /// The reason for a wait.
    package var wait: TransferWait?

    /// Whether there is progress since an earlier snapshot.
    func hasMoved(since earlier: ProgressSnapshot) -> Bool {
        phase != earlier.phase || received != earlier.received || bytesDone != earlier.bytesDone
            || filesDone != earlier.filesDone
    }
}
