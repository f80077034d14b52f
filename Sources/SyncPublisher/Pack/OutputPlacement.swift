import SyncFiles
import SyncModel
import SyncSystem

/// Where source and output are relative to each other: a set must not contain its own output.
enum OutputPlacement: Equatable {
    case apart
    /// One directory: only for loose files.
    case same
    /// The source is below the output; its path from there.
    case below(String)

    /// - Throws: ``PublishError`` when the output is in the source, or the source in `packs/`.
    static func find(source: SourceRoot, output: String) throws(PublishError) -> OutputPlacement {
        guard let root = status(source.raw) else { throw .reading(source.path, "look at", code: .last) }
        if let there = openDirectory(output), status(there.raw)?.isSameFile(as: root) == true { return .same }
        if let start = nearestDirectory(output), isInside(start.raw, root) {
            throw .usage(
                "the output \(shown(output)) is inside the source \(shown(source.path))",
                "name an output directory outside it")
        }
        if let packs = openDirectory(output + "/packs"), let status = status(packs.raw), isInside(source.raw, status) {
            throw .usage(
                "the source \(shown(source.path)) is inside the output's packs", "name another output directory")
        }
        guard let from = realPath(output), let to = realPath(source.path), to.hasPrefix(from + "/") else {
            return .apart
        }
        return .below(String(to.dropFirst(from.count + 1)))
    }

    /// The prefix of files' paths relative to the manifest: empty, or with a final `/`.
    var ownPlace: String {
        guard case .below(let path) = self else { return "" }
        return percentEncoded(bytes: path.utf8) + "/"
    }

    /// The directory itself, or its nearest existing parent.
    private static func nearestDirectory(_ path: String) -> Descriptor? {
        var path = path
        while true {
            if let found = openDirectory(path.isEmpty ? "." : path) { return found }
            while path.hasSuffix("/") { path.removeLast() }
            guard !path.isEmpty else { return nil }
            path = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        }
    }

    /// The real path, without the `/` of the root.
    static func realPath(_ path: String) -> String? { SyncSystem.realPath(path).map { $0 == "/" ? "" : $0 } }
}
