import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What of a manifest is already here, and what is not.
struct Inventory: Sendable {
    /// Why a row's place cannot be used.
    struct Obstruction: Sendable {
        var row: Int
        var error: FileError
    }

    /// Records of files that are here and right; none for wanted rows.
    var records = RecordColumn()
    /// Rows that are missing or differ.
    var wanted: [Int] = []
    /// Those of them in whose place is something that no pull has put there as it is: bringing them replaces it.
    var foreign: Set<Int> = []
    /// Rows whose place is taken by something that must not be replaced.
    var obstructed: [Obstruction] = []
    /// Directories below the destination that ignore case (``foldsCase(_:)``), in ``PathOrder``, without those below
    /// another; an empty path is the destination.
    var folding: [[UInt8]] = []
}

extension InventoryScan {
    /// What is at a place.
    enum Verdict {
        /// What the index knows of it is still true.
        case unchanged
        /// The content is as in the index; mode or time differ from what the manifest keeps.
        case worn
        case absent
        /// - Parameter isOurs: Whether it is as a pull has left it.
        case differs(isOurs: Bool)
        /// Right kind and size; the content is unknown.
        case unknown(isOurs: Bool)
        case obstructed(FileError)
    }

    /// Checks one place with lstat(2) against the index; nothing is opened.
    ///
    /// - Parameter known: The index's record for the same path, where it has one.
    func verdict(row: Int, known: IndexRecord?, directories: Directories) -> Verdict {
        let files = manifest.files
        return files.withPath(row) { path in
            do throws(FileError) {
                return try directories.withLeaf(of: path) { directory, leaf in
                    switch status(directory, leaf) {
                    case .failure(let code):
                        unseen(row, FileError(step: "look at", path: files.path(row), code: code), known)
                    case .success(nil): .absent
                    case .success(let status?): judge(row, status, known)
                    }
                } ?? .absent
            } catch {
                // A file or link where a directory must be: the commit finds out whether it is ours.
                return error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels
                    ? .absent : unseen(row, error, known)
            }
        }
    }

    /// What is to be thought of a place that cannot be looked at.
    private func unseen(_ row: Int, _ error: FileError, _ known: IndexRecord?) -> Verdict {
        let isClosed =
            error.code == .permissionDenied
            && manifest.files.withPath(row) { path in
                closed.contains { $0.withUnsafeBufferPointer { PathOrder.isDirectory($0, of: path) } }
            }
        guard isClosed else { return .obstructed(error) }
        return known.map { $0.digest == manifest.files.contentDigest(row) } == true ? .unchanged : .absent
    }

    private func judge(_ row: Int, _ status: FileStatus, _ known: IndexRecord?) -> Verdict {
        let files = manifest.files
        let isOurs = known.map { $0.installed && $0.matches(status) } ?? false
        switch status.kind {
        case .directory, .other:
            let what = status.kind == .directory ? "a directory" : "a device, socket or pipe"
            return .obstructed(
                FileError(
                    step: "replace", path: files.path(row), remark: "\(what) is in the way; move it away",
                    trouble: .inTheWay))
        case .link: guard files.kind(row) == .link else { return .differs(isOurs: isOurs) }
        case .file:
            guard files.kind(row) != .link, status.size == files.size(row) else { return .differs(isOurs: isOurs) }
        }
        if let known, known.matches(status), known.kind == files.indexKind(row), index.trusts(known) {
            guard known.digest == files.contentDigest(row) else { return .differs(isOurs: isOurs) }
            return files.traits(row).hold(of: status) ? .unchanged : .worn
        }
        return .unknown(isOurs: isOurs)
    }
}
