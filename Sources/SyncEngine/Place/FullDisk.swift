import SyncFiles
import SyncModel
import SyncSystem

/// Whether this machine's disk takes no more. Then nothing more is fetched: what is placed stays, and every other file would
/// fail in the same way.
final class FullDisk: Sendable {
    private let request = StopRequest()

    var isFull: Bool { request.isStopped }

    /// Looks at why a file could not be written.
    func note(_ error: FileError) { if error.cause == .diskFull { request.stop(.policy) } }

    /// Runs `action` once it is full; at once when it is.
    func onFull(_ action: @escaping @Sendable () -> Void) { request.onStop(action) }

    /// Why the rest was not brought.
    static let reason = "the disk is full"
}

extension FileError {
    /// Why a file of the manifest could not be brought, without the names of files that nobody knows.
    var reasonForFile: String {
        if cause == .diskFull { return FullDisk.reason }
        let isOwn = path.contains("/\(Destination.stateName)/") || StagedName(parsing: path) != nil
        return isOwn ? "cannot be written: \(reason)" : "\(self)"
    }
}
