import CPosix
import SyncFiles
import SyncModel
import SyncSystem

/// Whether source and output are apart: a set must not contain what is made of it.
enum OutputPlacement {
    /// - Throws: ``PublishError/Code/usage`` when the output is the source or in it, or the source in `packs/`.
    static func check(source: borrowing SourceRoot, output: String) throws(PublishError) {
        guard let root = Identity(source.raw) else {
            throw .reading(source.path, "look at", code: sa_errno())
        }
        if let start = nearestDirectory(output), leadsUp(from: start.raw, to: root) {
            throw PublishError(
                .usage,
                "the output \(shown(output)) is inside the source \(shown(source.path))",
                remedy: "name an output directory outside of it"
            )
        }
        let raw = sa_openat(AT_FDCWD, output + "/packs", O_RDONLY | O_DIRECTORY, 0)
        guard raw >= 0 else { return }
        let packs = Descriptor(owning: raw)
        if let identity = Identity(packs.raw), leadsUp(from: source.raw, to: identity) {
            throw PublishError(
                .usage,
                "the source \(shown(source.path)) is inside the output's packs",
                remedy: "name another output directory"
            )
        }
    }

    private struct Identity: Equatable {
        var device: UInt64
        var inode: UInt64

        init?(_ descriptor: Int32) {
            guard let status = status(descriptor) else { return nil }
            device = status.device
            inode = status.inode
        }
    }

    /// The directory itself, or the nearest above it that exists.
    private static func nearestDirectory(_ path: String) -> Descriptor? {
        var path = path
        while true {
            let raw = sa_openat(AT_FDCWD, path.isEmpty ? "." : path, O_RDONLY | O_DIRECTORY, 0)
            if raw >= 0 { return Descriptor(owning: raw) }
            while path.hasSuffix("/") { path.removeLast() }
            guard !path.isEmpty else { return nil }
            path = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            if path == "/" { return Descriptor(owning: sa_openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0)) }
        }
    }

    private static func leadsUp(from start: Int32, to wanted: Identity) -> Bool {
        var current = sa_openat(start, ".", O_RDONLY | O_DIRECTORY, 0)
        while current >= 0 {
            guard let identity = Identity(current) else { break }
            if identity == wanted {
                close(current)
                return true
            }
            let above = sa_openat(current, "..", O_RDONLY | O_DIRECTORY, 0)
            let isTop = above >= 0 && Identity(above) == identity
            close(current)
            if isTop {
                close(above)
                return false
            }
            current = above
        }
        if current >= 0 { close(current) }
        return false
    }
}
