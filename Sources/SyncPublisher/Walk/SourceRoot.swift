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
        let raw = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        let code = sa_errno()
        guard raw >= 0 else {
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
        descriptor = Descriptor(owning: raw)
        self.path = path
    }

    var raw: Int32 { descriptor.raw }

    /// Opens what is at `path`, which a NUL must follow; empty for the root itself.
    ///
    /// - Returns: A descriptor, or -1 with errno set: `ELOOP` when a component has become a link.
    func open(_ path: UnsafeBufferPointer<UInt8>, flags: Int32) -> Int32 {
        guard let start = path.baseAddress, !path.isEmpty else { return sa_openat(raw, ".", flags, 0) }
        return start.withMemoryRebound(to: CChar.self, capacity: path.count + 1) { name in
            #if os(Linux)
                let opened = sa_openat_beneath(raw, name, flags | O_NOFOLLOW, 0)
                // Old kernels, and sandboxes that know no openat2(2).
                if opened >= 0 || (sa_errno() != ENOSYS && sa_errno() != EPERM) { return opened }
            #endif
            return openStepwise(path, flags: flags)
        }
    }

    private func openStepwise(_ path: UnsafeBufferPointer<UInt8>, flags: Int32) -> Int32 {
        var current = raw
        let components = path.split(separator: 0x2F)
        for (index, component) in components.enumerated() {
            let last = index == components.count - 1
            let step = (last ? flags : O_RDONLY | O_DIRECTORY) | O_NOFOLLOW
            let name = component.map { CChar(bitPattern: $0) } + [0]
            let next = sa_openat(current, name, step, 0)
            let code = sa_errno()
            if current != raw { close(current) }
            sa_set_errno(code)
            if next < 0 { return -1 }
            current = next
        }
        return current
    }
}
