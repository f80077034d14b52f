import SyncModel
import SyncPlugins
import SyncSystem

/// A row that could not be brought, and why.
struct RowFailure: Sendable {
    let row: Int
    /// For people.
    private(set) var reason: String
    private(set) var cause: FailureCause
    /// Whether no server could be reached, or none answered.
    private(set) var isUnreachable = false
    /// Whether bytes came and were not the right ones: another source may have those.
    private(set) var isWrongBytes = false
    /// The window that found no room, in **bytes**: the row can be fetched when others are done.
    var window: Int?

    init(row: Int, reason: String, cause: FailureCause) {
        self.row = row
        self.reason = reason
        self.cause = cause
    }

    /// A row whose bytes were wrong.
    init(row: Int, wrongBytes reason: String) {
        self.init(row: row, reason: reason, cause: .wrongBytes)
        isWrongBytes = true
    }

    /// A row that the disk did not take.
    init(row: Int, disk error: FileError) { self.init(row: row, reason: error.reasonForFile, cause: error.cause) }

    /// A row that cannot be decoded.
    init(row: Int, dictionary failure: ManifestDictionary.Failure) {
        self.init(row: row, transfer: failure.transfer)
        reason = failure.reason
    }

    /// A row that a transfer failed to deliver.
    init(row: Int, transfer error: TransferError?) {
        self.init(row: row, reason: "the transfer ended early", cause: .unreachable)
        guard let error else { return }
        reason = "\(error)"
        cause = error.cause
        isUnreachable = error.code == .unreachable || error.code == .timedOut
    }
}
