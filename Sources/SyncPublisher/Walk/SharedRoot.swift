import SyncFiles
import SyncSystem

/// The source directory, shared by threads; a descriptor may be used from any.
final class SharedRoot: Sendable {
    private let root: SourceRoot

    init(_ root: consuming SourceRoot) { self.root = root }

    /// Opens a file of the tree for reading.
    ///
    /// `O_NONBLOCK`: if a fifo has taken its place, opening it must not wait for a writer. open(2).
    func openFile(_ tree: SourceTree, _ index: Int) throws(PublishError) -> Descriptor {
        let raw = tree.withPath(index) { root.open($0, .unwaiting) }
        if let opened = Descriptor(opened: raw) { return opened }
        switch Errno.last {
        case .noSuchFileOrDirectory, .tooManySymbolicLinkLevels, .notDirectory, .noSuchAddressOrDevice:
            throw .changed(tree.path(index))
        case let code: throw .reading(tree.path(index), "open", code: code)
        }
    }

    /// Whether an open file is still what the walk saw. fstat(2).
    func isUnchanged(_ descriptor: Int32, _ entry: SourceTree.Entry) -> Bool {
        guard let status = status(descriptor), status.kind == .file else { return false }
        return SourceTree.FileStamp(status) == entry.stamp
    }
}

extension SourceTree.FileStamp {
    init(_ status: FileStatus) {
        size = status.size
        inode = status.inode
        modified = status.modified
        changed = status.changed
    }
}
