import CPosix
import SyncFiles
import SyncModel
import SyncSystem

/// Whether source and output are apart: a set must not contain what is made of it.
enum OutputPlacement {
    /// - Throws: ``PublishError/Code/usage`` when the output is the source or in it, or the source in `packs/`.
    static func check(source: borrowing SourceRoot, output: String) throws(PublishError) {
        guard let root = status(source.raw) else { throw .reading(source.path, "look at", code: sa_errno()) }
        if let start = nearestDirectory(output), isInside(start.raw, root) {
            throw PublishError(
                .usage,
                "the output \(shown(output)) is inside the source \(shown(source.path))",
                remedy: "name an output directory outside of it"
            )
        }
        if let packs = openDirectory(output + "/packs"), let status = status(packs.raw),
            isInside(source.raw, status)
        {
            throw PublishError(
                .usage,
                "the source \(shown(source.path)) is inside the output's packs",
                remedy: "name another output directory"
            )
        }
    }

    /// The directory itself, or the nearest above it that exists.
    private static func nearestDirectory(_ path: String) -> Descriptor? {
        var path = path
        while true {
            if let found = openDirectory(path.isEmpty ? "." : path) { return found }
            while path.hasSuffix("/") { path.removeLast() }
            guard !path.isEmpty else { return nil }
            path = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        }
    }
}
