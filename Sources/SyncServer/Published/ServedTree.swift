import SyncModel
import SyncSystem

/// The directory that is served, and the only way to a file in it.
///
/// Each name of a path is opened relative to the directory before it, and none may be a symbolic link: nothing
/// outside the tree can be reached, whatever is renamed meanwhile. openat(2), ``OpenFlags/noFollow``.
final class ServedTree: Sendable {
    /// Why a file cannot be served.
    enum Failure: Error, Equatable {
        /// There is no such file, or it is something other than a file.
        case notFound
        /// The file's permissions keep this process out.
        case forbidden
        /// Out of descriptors or memory; later it may work.
        case unavailable(Errno)
    }

    private let root: SharedDescriptor

    /// Opens the directory at `path`, which may itself be a link.
    init(path: String) throws(ServerError) {
        guard let opened = openDirectory(path) else { throw .cannotOpen(directory: path, reason: errnoText) }
        root = SharedDescriptor(opened)
    }

    /// Whether a file can be served at `path`.
    func contains(_ path: String) -> Bool {
        // A path that is refused is not there, nor is one that cannot be opened.
        guard let names = try? RequestPath(path) else { return false }
        return (try? file(at: names)) != nil
    }

    /// Opens the regular file at `path` for reading.
    func file(at path: RequestPath) throws(Failure) -> ServedFile {
        var directory = root
        for name in path.names.dropLast() {
            directory = SharedDescriptor(try Self.open(name, in: directory, .realDirectory))
        }
        guard let name = path.names.last else { throw .notFound }
        // Asked first, since opening a device or a FIFO can have effects of its own.
        try Self.requireRegularFile(name, in: directory)
        guard let file = ServedFile(try Self.open(name, in: directory, .unwaitingNoFollow)) else { throw .notFound }
        return file
    }

    private static func open(_ name: [UInt8], in directory: SharedDescriptor, _ flags: OpenFlags) throws(Failure)
        -> Descriptor
    {
        guard let opened = Descriptor(opening: name.map(CChar.init(bitPattern:)) + [0], in: directory.raw, flags) else {
            throw failure(.last)
        }
        return opened
    }

    private static func requireRegularFile(_ name: [UInt8], in directory: SharedDescriptor) throws(Failure) {
        switch status(directory.raw, name.map(CChar.init(bitPattern:)) + [0]) {
        case .success(let found): guard found?.kind == .file else { throw .notFound }
        case .failure(let code): throw failure(code)
        }
    }

    private static func failure(_ code: Errno) -> Failure {
        switch code {
        case .permissionDenied, .notPermitted: .forbidden
        case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory: .unavailable(code)
        default: .notFound
        }
    }
}

/// An open regular file, and which version of it was opened.
struct ServedFile: Sendable {
    let version: FileVersion
    let content: OpenFile

    /// Takes the descriptor over; `nil`, with the descriptor closed, when it is no regular file.
    init?(_ descriptor: consuming Descriptor) {
        let status = SyncSystem.status(descriptor.raw)
        content = OpenFile(owning: descriptor.release())
        guard let status, status.kind == .file else { return nil }
        version = FileVersion(status)
    }
}

extension FileVersion {
    /// A file's version by its inode, size and times: git's stat cache trusts the same fields.
    fileprivate init(_ status: FileStatus) {
        let times = [status.modified, status.changed].map(UInt64.init(bitPattern:))
        size = status.size
        modified = HTTPDate(seconds: status.modified / 1_000_000_000)
        entityTag =
            "\"" + ([status.inode, status.size] + times).map { String($0, radix: 36) }.joined(separator: "-") + "\""
    }
}
