import CPosix
import SyncFiles
import SyncSystem

/// The source directory, and the one way to open what is below it: never through a symbolic link.
struct SourceRoot: ~Copyable, Sendable {
    private let descriptor: Descriptor
    /// As the user wrote it; for messages.
    let path: String

    /// Opens the directory. The path itself may be a link: the user named it.
    init(_ path: String) throws(PublishError) {
        guard let descriptor = openDirectory(path) else {
            let code = sa_errno()
            guard code == ENOENT || code == ENOTDIR else {
                throw .reading(path, "open the directory", code: code)
            }
            throw PublishError(
                .notFound,
                code == ENOENT
                    ? "there is no directory \(shown(path))" : "\(shown(path)) is not a directory",
                remedy: "name the directory that holds the files"
            )
        }
        self.descriptor = descriptor
        self.path = path
    }

    var raw: Int32 { descriptor.raw }

    /// Opens what is at `path`, which a NUL must follow; empty for the root itself.
    ///
    /// - Returns: A descriptor, or -1 with errno set: `ELOOP` when a component has become a link.
    func open(_ path: UnsafeBufferPointer<UInt8>, flags: Int32) -> Int32 {
        guard let start = path.baseAddress, !path.isEmpty else { return sa_openat(raw, ".", flags, 0) }
        return openBeneath(raw, UnsafeRawPointer(start).assumingMemoryBound(to: CChar.self), flags)
    }
}
