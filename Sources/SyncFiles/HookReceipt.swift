import SyncContent
import SyncModel
package import SyncSystem

/// A hook's own confirmation that its work for one run is done: an empty file in `.syncagent/receipts`.
///
/// A hook that leaves one as its last step takes effect exactly once: after a crash it is not called again.
package struct HookReceipt: Sendable, Equatable {
    private let name: String

    /// - Parameters:
    ///   - run: The run's identifier.
    ///   - group: The group whose hook it is.
    ///   - hook: The hook's number, where the group has several.
    package init(run: String, group: String, hook: Int64? = nil) {
        name = "\(Self.fileName(run)).\(Self.fileName(group))" + (hook.map { ".\($0)" } ?? "")
    }

    /// A long name is cut, and its digest tells it from others with the same beginning.
    private static func fileName(_ text: String) -> String {
        let name = SyncSystem.fileName(of: text.utf8)
        guard name.utf8.count > 80, let digest = try? sha256(text) else { return name }
        return "\(name.prefix(60))~\(digest.hex.prefix(16))"
    }

    /// Whether it exists.
    ///
    /// - Throws: ``FileError`` if that cannot be found out; the hook must not be called again then.
    package func exists(in destination: Destination) throws(FileError) -> Bool {
        guard destination.state >= 0 else { return false }
        do throws(FileError) {
            let directory = try Self.open(in: destination)
            switch status(directory.raw, name) {
            case .success(let found): return found?.kind == .file
            case .failure(let code):
                throw FileError(step: "look at", path: "\(Self.path(in: destination))/\(name)", code: code)
            }
        } catch {
            // A directory of another user does not count, and no receipt can have too long a name.
            guard
                error.isMissing || error.isRefusal || error.code == .tooManySymbolicLinkLevels
                    || error.code == .fileNameTooLong
            else { throw error }
            return false
        }
    }

    /// Opens the directory of receipts.
    private static func open(in destination: Destination, create: Bool = false) throws(FileError) -> Descriptor {
        try openPrivateDirectory("receipts", in: destination.state, create: create, shown: path(in: destination))
    }

    private static func path(in destination: Destination) -> String {
        "\(destination.statePath)/receipts"
    }

    /// Creates the receipt, durably. ``OpenFlags/exclusive``: of two calls at the same time, one creates it.
    ///
    /// - Returns: Whether this call created it.
    /// - Throws: ``FileError``.
    package func leave(in destination: Destination) throws(FileError) -> Bool {
        let path = Self.path(in: destination)
        let directory = try Self.open(in: destination, create: true)
        guard Descriptor(opening: name, in: directory.raw, .newFile.union(.writeOnly), mode: 0o600) != nil else {
            if Errno.last == .fileExists { return false }
            throw .last("create", path + "/" + name)
        }
        try FileError.check(synchronize(directory.raw), "sync", path)
        return true
    }

    /// Removes receipts that are no longer needed.
    ///
    /// - Parameters:
    ///   - time: Receipts older than this are removed, **nanoseconds** since 1970.
    ///   - runs: Runs whose hooks may still be called; their receipts stay.
    ///   - isDryRun: Whether to count only.
    /// - Returns: How many were removed, or would be.
    package static func collect(
        in destination: Destination, before time: Int64, keeping runs: Set<String>, isDryRun: Bool = false
    ) -> Int {
        // No directory, no receipts.
        guard let directory = try? open(in: destination) else { return 0 }
        let kept = runs.map { fileName($0) + "." }
        return ((try? directoryEntries(directory.raw)) ?? []).count { name in
            guard case .success(let found?) = status(directory.raw, name), found.kind == .file, found.modified < time,
                !kept.contains(where: name.hasPrefix)
            else { return false }
            return isDryRun || removeFile(name, in: directory.raw) == nil
        }
    }
}
