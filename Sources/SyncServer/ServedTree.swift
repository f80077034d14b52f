import CPosix
import SyncHTTPServer
import SyncModel
import SyncSystem

/// The directory that is served, and the only way to a file in it.
///
/// Each name of a path is opened relative to the directory before it, and none may be a symbolic link: nothing
/// outside the tree can be reached, whatever is renamed meanwhile. openat(2), O_NOFOLLOW.
final class ServedTree: Sendable {
    /// Why a file cannot be served.
    enum Failure: Error, Equatable {
        /// There is no such file, or it is something other than a file.
        case notFound
        /// The file's permissions keep this process out.
        case forbidden
        /// Out of descriptors or memory; later it may work. The errno value.
        case unavailable(Int32)
    }

    private let root: Int32

    /// Opens the directory at `path`, which may itself be a link.
    init(path: String) throws(ServerError) {
        root = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        guard root >= 0 else { throw .cannotOpen(directory: path, reason: errnoText) }
    }

    deinit { close(root) }

    /// Whether a file can be served at `path`.
    func contains(_ path: String) -> Bool {
        // A path that is refused is not there, nor is one that cannot be opened.
        guard let names = try? RequestPath(path) else { return false }
        return (try? file(at: names)) != nil
    }

    /// Opens the regular file at `path` for reading.
    func file(at path: RequestPath) throws(Failure) -> ServedFile {
        var directory = root
        defer { if directory != root { close(directory) } }
        for name in path.names.dropLast() {
            let next = Self.openName(name, in: directory, O_DIRECTORY)
            let code = sa_errno()
            if directory != root { close(directory) }
            directory = next
            guard next >= 0 else {
                directory = root
                throw Self.failure(code)
            }
        }
        guard let name = path.names.last else { throw .notFound }
        // Asked first, since opening a device or a FIFO can have effects of its own.
        try Self.requireRegularFile(name, in: directory)
        let descriptor = Self.openName(name, in: directory, O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Self.failure(sa_errno()) }
        guard let file = ServedFile(owning: descriptor) else { throw .notFound }
        return file
    }

    private static func openName(_ name: [UInt8], in directory: Int32, _ flags: Int32) -> Int32 {
        withCString(name) { sa_openat(directory, $0, O_RDONLY | O_NOFOLLOW | flags, 0) }
    }

    private static func requireRegularFile(_ name: [UInt8], in directory: Int32) throws(Failure) {
        var attributes = stat()
        let result = withCString(name) { fstatat(directory, $0, &attributes, AT_SYMLINK_NOFOLLOW) }
        guard result == 0 else { throw failure(sa_errno()) }
        guard sa_file_kind(&attributes) == 0 else { throw .notFound }
    }

    private static func withCString(_ name: [UInt8], _ body: (UnsafePointer<CChar>) -> Int32) -> Int32 {
        (name.map { CChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer { buffer in
            guard let start = buffer.baseAddress else { return -1 }
            return body(start)
        }
    }

    private static func failure(_ code: Int32) -> Failure {
        switch code {
        case EACCES, EPERM: .forbidden
        case EMFILE, ENFILE, ENOMEM: .unavailable(code)
        default: .notFound
        }
    }
}

/// An open regular file, and which version of it was opened.
struct ServedFile: Sendable {
    let version: FileVersion
    let content: OpenFile

    /// Takes the descriptor over; `nil`, with the descriptor closed, when it is no regular file.
    init?(owning descriptor: Int32) {
        content = OpenFile(owning: descriptor)
        guard let status = SyncSystem.status(descriptor), status.kind == .file else { return nil }
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
            "\"" + ([status.inode, status.size] + times).map { String($0, radix: 36) }.joined(separator: "-")
            + "\""
    }
}
