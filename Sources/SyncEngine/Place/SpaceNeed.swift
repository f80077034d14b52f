import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The space that a fetch needs on a file system.
struct SpaceNeed: Sendable, Equatable {
    /// **Bytes**, with a little for each file's name.
    let bytes: UInt64
    let files: Int

    /// - Parameter present: **Bytes** of the rows that an interrupted run has written already.
    init(_ rows: [Int], of manifest: Manifest, present: UInt64 = 0) {
        let all = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) &+ 512 }
        bytes = all - min(all, present)
        files = rows.count
    }

    /// The error if it does not fit; `nil` if it does.
    func shortage(_ free: FileSystemSpace, _ path: String) -> EngineError? {
        let need: String
        if free.bytes <= bytes {
            need = "\(ByteCount(bytes)), but only \(ByteCount(free.bytes))"
        } else if let inodes = free.inodes, inodes < UInt64(files) {
            need = "\(files) inodes, but only \(inodes)"
        } else {
            return nil
        }
        let text = "\(escaped(path)): needs \(need) are free; nothing was fetched"
        return EngineError(.ioError, text, cause: .diskFull)
    }
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
            let need = SpaceNeed(own, of: manifest, present: present(own))
            let shown = number == 0 ? path : mounts[number - 1].shown
            if let shortage = need.shortage(try usable(freeSpace(number)), shown) { return shortage }
        }
        return nil
    }
}

/// Whether this machine's disk takes what is written. Once it is full, or a syncfs has failed, nothing more is fetched:
/// every other file would fail in the same way.
final class DiskState: Sendable {
    private struct Failures: Sendable {
        var first: FileError?
        var ofSync: FileError?
    }

    private let failures = Mutex(Failures())
    private let request = StopRequest()

    var hasFailed: Bool { request.isStopped }

    /// Why the rest was not brought.
    var failure: FileError? { failures.withLock(\.first) }

    /// Why nothing that is written can be relied on.
    var syncFailure: FileError? { failures.withLock(\.ofSync) }

    /// Looks at why a file could not be written.
    func note(_ error: FileError) { if error.cause == .diskFull { fail(error, isSync: false) } }

    /// A syncfs has failed.
    func fail(syncing error: FileError) { fail(error, isSync: true) }

    private func fail(_ error: FileError, isSync: Bool) {
        failures.withLock { failures in
            failures.first = failures.first ?? error
            if isSync { failures.ofSync = error }
        }
        request.stop(.policy)
    }

    /// Runs `action` once it has failed; at once when it has.
    func onFailure(_ action: @escaping @Sendable () -> Void) { request.onStop(action) }
}

extension FileError {
    /// Why a file of the manifest could not be brought, without the names of files that nobody knows.
    var reasonForFile: String {
        if cause == .diskFull { return "the disk is full" }
        let isOwn = path.contains("/\(Destination.stateName)/") || StagedName(parsing: path) != nil
        return isOwn ? "cannot be written: \(reason)" : "\(self)"
    }
}
