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
        if let there = try opened(output), status(there.raw)?.isSameFile(as: root) == true { return .same }
        if let start = try nearestDirectory(output), try isInside(start.raw, root, output, source.path) {
            throw .usage(
                "the output \(shown(output)) is inside the source \(shown(source.path))",
                "name an output directory outside it")
        }
        if let packs = try opened(output + "/packs") {
            guard let found = status(packs.raw) else { throw .unread(output + "/packs", "look at", code: .last) }
            if try isInside(source.raw, found, source.path, output + "/packs") {
                throw .usage(
                    "the source \(shown(source.path)) is inside the output's packs", "name another output directory")
            }
        }
        guard let from = try place(of: output), let to = try place(of: source.path), to.hasPrefix(from + "/") else {
            return .apart
        }
        return .below(String(to.dropFirst(from.count + 1)))
    }

    /// - Throws: ``PublishError`` where that is unknown: the set might contain its own output.
    private static func isInside(_ directory: Int32, _ ancestor: FileStatus, _ path: String, _ other: String)
        throws(PublishError) -> Bool
    {
        do throws(Errno) { return try SyncSystem.isInside(directory, ancestor) } catch {
            throw .cannotRead(
                "cannot tell whether \(shown(path)) is inside \(shown(other)): \(error)",
                "check the permissions of the directories above it; nothing was published")
        }
    }

    /// The prefix of files' paths relative to the manifest: empty, or with a final `/`.
    var ownPlace: String {
        guard case .below(let path) = self else { return "" }
        return percentEncoded(bytes: path.utf8) + "/"
    }

    /// The directory itself, or its nearest existing parent.
    private static func nearestDirectory(_ path: String) throws(PublishError) -> Descriptor? {
        var path = path
        while true {
            if let found = openDirectory(path.isEmpty ? "." : path) { return found }
            // If a directory may be entered but not read, its parent says enough.
            if Errno.last != .permissionDenied, let found = try opened(path.isEmpty ? "." : path) { return found }
            while path.hasSuffix("/") { path.removeLast() }
            guard !path.isEmpty else { return nil }
            path = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        }
    }

    /// Opens a directory; `nil` if there is none. One that cannot be opened is an error, since it may be anywhere.
    private static func opened(_ path: String) throws(PublishError) -> Descriptor? {
        if let found = openDirectory(path) { return found }
        let code = Errno.last
        guard code == .noSuchFileOrDirectory || code == .notDirectory else {
            throw .cannotCreate("cannot open \(shown(path)): \(code)", "name a directory that this user may write to")
        }
        return nil
    }

    /// The real path, without the `/` of the root; `nil` if nothing has this path.
    static func place(of path: String) throws(PublishError) -> String? {
        if let real = realPath(path) { return real == "/" ? "" : real }
        let code = Errno.last
        guard code == .noSuchFileOrDirectory || code == .notDirectory else {
            throw .cannotRead("cannot find \(shown(path)): \(code)", "check the path and its permissions")
        }
        return nil
    }
}
