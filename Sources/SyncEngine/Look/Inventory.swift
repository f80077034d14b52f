import CPosix
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What of a manifest is here already, and what is not.
struct Inventory: Sendable {
    /// Why a row's place cannot be used.
    struct Obstruction: Sendable {
        var row: Int
        var error: FileError
    }

    /// What is known of files that are here and right; nothing of rows that are wanted.
    var records = RecordColumn()
    /// Rows that are not here, or differ.
    var wanted: [Int] = []
    /// Rows whose place is taken by something that must not be replaced.
    var obstructed: [Obstruction] = []
    /// Directories below the destination which take names for one that differ only in case (``foldsCase(_:)``), in
    /// ``PathOrder``, without those below another; an empty path is the destination.
    var folding: [[UInt8]] = []
    /// Files that had to be opened and hashed, because no trusted record spoke for them.
    var hashedFiles = 0
    /// **Bytes** hashed.
    var hashedBytes: UInt64 = 0
}

/// Looks at one place: lstat(2) against the index, nothing is opened.
struct PlaceCheck {
    enum Verdict {
        /// What the index knows of it is still true.
        case unchanged
        case absent
        case differs
        /// Right kind and size, nothing known about the content.
        case unknown
        case obstructed(FileError)
    }

    let index: StatIndex
    let files: FileTable

    /// - Parameters:
    ///   - known: The index's record for the same path, where it has one.
    func verdict(row: Int, known: IndexRecord?, directories: Directories) -> Verdict {
        files.withPath(row) { path in
            let name = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
            let parent = UnsafeBufferPointer(rebasing: path[..<max(0, name - 1)])
            do throws(FileError) {
                guard let directory = try directories.descriptor(parent, create: false) else {
                    return .absent
                }
                guard let base = path.baseAddress else { return .absent }
                // The arena keeps a NUL behind each path.
                let found = (base + name).withMemoryRebound(to: CChar.self, capacity: path.count - name + 1) {
                    status(directory, $0)
                }
                switch found {
                case .failure(let code):
                    return .obstructed(FileError(step: "look at", path: files.path(row), code: code.errno))
                case .success(nil): return .absent
                case .success(let status?): return judge(row, status, known)
                }
            } catch {
                // A file or a link where a directory must be: the commit finds out whether it is ours.
                return error.code == ENOTDIR || error.code == ELOOP ? .absent : .obstructed(error)
            }
        }
    }

    private func judge(_ row: Int, _ status: FileStatus, _ known: IndexRecord?) -> Verdict {
        switch status.kind {
        case .directory, .other:
            let what = status.kind == .directory ? "a directory" : "a device, socket or pipe"
            return .obstructed(
                FileError(
                    step: "replace",
                    path: files.path(row),
                    code: 0,
                    remark: "\(what) is in the way; move it away"
                )
            )
        case .link: guard files.kind(row) == .link else { return .differs }
        case .file:
            guard files.kind(row) != .link, status.size == files.size(row) else { return .differs }
        }
        if let known, known.matches(status), known.kind == files.indexKind(row), index.trusts(known) {
            return known.digest == files.contentDigest(row) ? .unchanged : .differs
        }
        return .unknown
    }
}
