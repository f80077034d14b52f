import SyncFiles
import SyncModel
import SyncSystem

/// The source directory. Every file below it is opened through this type, never through a symbolic link. Any thread may
/// use it.
final class SourceRoot: Sendable {
    private let descriptor: SharedDescriptor
    /// As the user wrote it; for messages.
    let path: String

    /// Opens the directory. The path itself may be a link: the user named it.
    init(_ path: String) throws(PublishError) {
        guard let descriptor = SharedDescriptor(openDirectory(path)) else {
            let code = Errno.last
            guard code == .noSuchFileOrDirectory || code == .notDirectory else {
                throw .reading(path, "open the directory", code: code)
            }
            throw .notFound(
                code == .noSuchFileOrDirectory
                    ? "there is no directory \(shown(path))" : "\(shown(path)) is not a directory",
                "name the directory that holds the files")
        }
        self.descriptor = descriptor
        self.path = path
    }

    var raw: Int32 { descriptor.raw }

    /// Opens the file or directory at `path`, which a NUL must follow; empty for the root itself.
    ///
    /// - Returns: A descriptor, or -1; ``Errno/last`` is ``Errno/tooManySymbolicLinkLevels`` when a component has
    ///   become a link.
    func open(_ path: UnsafeBufferPointer<UInt8>, _ flags: OpenFlags) -> Int32 {
        guard let start = path.baseAddress, !path.isEmpty else {
            return Descriptor(opening: ".", in: raw, flags)?.release() ?? -1
        }
        let name = UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self)
        return openBeneath(raw, name, flags)?.release() ?? -1
    }

    /// Opens a file of the tree for reading.
    ///
    /// `O_NONBLOCK`: if a fifo has taken its place, opening it must not wait for a writer. open(2).
    func openFile(_ tree: SourceTree, _ index: Int) throws(PublishError) -> Descriptor {
        try Self.opened(tree.withPath(index) { open($0, .unwaiting) }, tree.path(index))
    }

    /// Takes the result of ``open(_:_:)``.
    ///
    /// - Throws: ``PublishError`` if the entry has changed since the walk, or cannot be opened.
    static func opened(_ raw: Int32, _ path: @autoclosure () -> String, _ attempt: String = "open")
        throws(PublishError) -> Descriptor
    {
        let code = Errno.last
        if let opened = Descriptor(opened: raw) { return opened }
        switch code {
        case .noSuchFileOrDirectory, .tooManySymbolicLinkLevels, .notDirectory, .noSuchAddressOrDevice:
            throw .changed(path())
        default: throw .reading(path(), attempt, code: code)
        }
    }

    /// Whether an open file ends where the walk saw its end; if the file system states no size, only a read can tell.
    func endsAsSeen(_ descriptor: Int32, _ entry: SourceTree.Entry) -> Bool {
        guard entry.hasUnstatedSize else { return true }
        var byte: UInt8 = 0
        return withUnsafeMutableBytes(of: &byte) { readFully(descriptor, into: $0, at: entry.stamp.size) } == 0
    }

    /// Whether an open file is still what the walk saw. fstat(2).
    func isUnchanged(_ descriptor: Int32, _ entry: SourceTree.Entry) -> Bool {
        guard let status = status(descriptor), status.kind == .file else { return false }
        // A file that is generated when it is read has neither size nor times of its own.
        if entry.hasUnstatedSize { return status.size == 0 }
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
