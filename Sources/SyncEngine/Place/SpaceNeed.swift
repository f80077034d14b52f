import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// **Bytes** that files need on a file system, with a little for each one's name.
///
/// - Parameter present: **Bytes** of the rows that an interrupted run has written already.
func spaceNeeded(for rows: [Int], of manifest: Manifest, present: UInt64 = 0) -> UInt64 {
    let all = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) &+ 512 }
    return all - min(all, present)
}

/// The error if files do not fit on a file system; `nil` if they do.
func shortage(
    of rows: [Int], in manifest: Manifest, present: UInt64 = 0, on free: FileSystemSpace, _ path: String
) -> EngineError? {
    let bytes = spaceNeeded(for: rows, of: manifest, present: present)
    let need: String
    if free.bytes <= bytes {
        need = "\(ByteCount(bytes)), but only \(ByteCount(free.bytes))"
    } else if let inodes = free.inodes, inodes < UInt64(rows.count) {
        need = "\(rows.count) inodes, but only \(inodes)"
    } else {
        return nil
    }
    let text = "\(escaped(path)): needs \(need) are free; nothing more was fetched"
    return EngineError(.ioError, text, cause: .diskFull)
}

extension Destination {
    /// The error if a fetch cannot fit, on any of the file systems that it goes to; `nil` if it can.
    ///
    /// - Parameter present: **Bytes** of some rows that an interrupted run has written already.
    func shortage(of rows: [Int], in manifest: Manifest, present: (_ rows: [Int]) -> UInt64) throws(EngineError)
        -> EngineError?
    {
        let mounts = self.mounts
        for number in 0...mounts.count {
            let own = mounts.isEmpty ? rows : rows.filter { manifest.files.withPath($0, fileSystem) == number }
            guard !own.isEmpty else { continue }
            let shown = number == 0 ? path : mounts[number - 1].shown
            let shortage = SyncEngine.shortage(
                of: own, in: manifest, present: present(own), on: try usable(freeSpace(number)), shown)
            if let shortage { return shortage }
        }
        return nil
    }
}

/// Whether this machine's disk accepts writes. Once it is full, or a syncfs has failed, nothing more is fetched: every
/// other file would fail in the same way.
final class DiskState: Sendable {
    private let failures = Mutex<(first: FileError?, ofSync: FileError?)>((nil, nil))
    private let request = StopRequest()

    var hasFailed: Bool { request.isStopped }

    /// Why the rest was not fetched.
    var failure: FileError? { failures.withLock { $0.first } }

    /// Why nothing that is written can be relied on.
    var syncFailure: FileError? { failures.withLock { $0.ofSync } }

    /// Checks why a file could not be written: a full disk is a failure of the disk.
    func note(_ error: FileError) { if error.cause == .diskFull { fail(error, isSync: false) } }

    /// Records that a syncfs has failed.
    func fail(syncing error: FileError) { fail(error, isSync: true) }

    private func fail(_ error: FileError, isSync: Bool) {
        failures.withLock { failures in
            failures.first = failures.first ?? error
            if isSync { failures.ofSync = error }
        }
        request.stop(.policy)
    }

    /// Runs `action` when the disk fails; at once if it has failed already.
    func onFailure(_ action: @escaping @Sendable () -> Void) { request.onStop(action) }
}

extension FileError {
    /// Why a file of the manifest could not be placed, without the names of internal files.
    var reasonForFile: String {
        if cause == .diskFull { return "the disk is full" }
        let isOwn =
            path.contains("/\(Destination.stateName)/") || path.contains("/\(TreeHome.prefix)")
            || Staging.File(lane: 0, parsing: path) != nil
        return isOwn ? "cannot be written: \(reason)" : "\(self)"
    }
}
