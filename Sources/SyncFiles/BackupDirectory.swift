import SyncModel
package import SyncSystem

/// Keeps removed and replaced files under the same relative path: `--backup-dir`, as in rclone.
///
/// The directory is on the destination's file system, neither inside it nor around it. Files from a file system mounted
/// below are copied. No backup is ever replaced: a second backup of a name is `NAME.~1~`, the next `NAME.~2~`, as with
/// mv(1) `--backup=numbered`. So is the backup of a directory whose name an earlier backup of a file has.
package final class BackupDirectory: Sendable {
    /// The path as the user gave it, absolute.
    package let path: String
    private let root: Descriptor
    private let umask: Umask

    /// Most backups per name.
    private static let limit = 9_999

    private init(path: String, root: consuming Descriptor, umask: Umask) {
        self.path = path
        self.root = root
        self.umask = umask
    }

    private static let step = "use --backup-dir"

    /// Opens the directory, creating it if missing.
    ///
    /// - Throws: As ``check(path:beside:)``; a refused directory has not been created.
    package static func open(path: String, beside destination: Destination) throws(FileError) -> BackupDirectory {
        try check(path: path, beside: destination)
        try makeDirectories(path, umask: destination.umask)
        guard let root = openDirectory(path) else { throw .last(step, path) }
        try requireBeside(root.raw, path, destination, isMade: true)
        return BackupDirectory(path: path, root: root, umask: destination.umask)
    }

    /// Checks that the directory is, or would be created, at a place where it can keep removed files. Creates nothing.
    ///
    /// - Throws: ``FileError``; with code ``Errno/improperLink`` on another file system, with ``Errno/invalidArgument``
    ///   if one of the two directories is in the other, or the directory in one of this program's own.
    package static func check(path: String, beside destination: Destination) throws(FileError) {
        let whole = try PathWalk(path).path
        var place = whole
        while place != "/", !exists(place) { place = parent(of: place) }
        guard let opened = openDirectory(place) else {
            let error = FileError.last(step, path)
            // A parent may be passable but not readable. The directory is checked again once it is created.
            if place != whole, error.code == .permissionDenied { return }
            throw error
        }
        try requireBeside(opened.raw, path, destination, isMade: place == whole)
        // What is kept there would be removed with another set's former revision.
        do throws(FileError) { try refuseOwnDirectory(path) } catch {
            throw FileError(step: step, path: path, code: .invalidArgument, remark: error.remark)
        }
    }

    /// - Parameters:
    ///   - directory: The directory, or the one that it would be created in, however deep.
    ///   - isMade: Whether `directory` is the backup directory itself.
    private static func requireBeside(_ directory: Int32, _ path: String, _ destination: Destination, isMade: Bool)
        throws(FileError)
    {
        guard let found = status(directory), let there = status(destination.root) else { throw .last(step, path) }
        let isWithin: Bool
        do throws(Errno) {
            isWithin = try isInside(directory, there) ? true : isMade ? isInside(destination.root, found) : false
        } catch { throw FileError(step: step, path: path, code: error) }
        if isWithin {
            throw FileError(
                step: step, path: path, code: .invalidArgument,
                remark: "neither it nor the destination may be inside the other; choose a directory beside it")
        }
        if found.device != there.device {
            throw FileError(
                step: step, path: path, code: .improperLink,
                remark: "it is on another file system than the destination; choose one beside it")
        }
    }

    /// The backup directories, for one thread.
    package func directories() -> Directories { Directories(below: root.raw, umask: umask) }

    /// Keeps the entry at a path, by a hard link if possible, so that the path is never empty; otherwise by moving
    /// it. Does nothing if there is no entry, or a directory.
    ///
    /// Keeping it twice is the same as once. To make sure that no power cut destroys both the entry and its backup,
    /// first keep it with `moves` false, sync, and keep it again right before it is replaced: only entries that cannot
    /// be linked are moved then.
    ///
    /// - Parameters:
    ///   - name: The name in `directory`.
    ///   - directory: The directory in the destination.
    ///   - path: The path relative to the destination.
    ///   - directories: This thread's ``directories()``.
    ///   - moves: Whether the entry may be moved or copied if it cannot be linked.
    /// - Throws: ``FileError``.
    package func keep(
        _ name: UnsafePointer<CChar>, in directory: Int32, path: UnsafeBufferPointer<UInt8>, _ directories: Directories,
        moves: Bool = true
    ) throws(FileError) {
        let shown = String(decoding: path, as: UTF8.self)
        let found: FileStatus
        switch status(directory, name) {
        case .success(nil): return
        case .success(let status?): found = status
        case .failure(let code): throw FileError(step: "back up", path: shown, code: code, trouble: .unkept)
        }
        guard found.kind != .directory else { return }
        let above: Int32
        do throws(FileError) {
            guard let opened = try descriptor(path.parentPath, directories) else { return }
            above = opened
        } catch {
            let place = "\(shown) below \(self.path)"
            throw FileError(step: "back up", path: place, code: error.code, remark: error.remark, trouble: .unkept)
        }
        let leaf = String(cString: name)
        for number in 0...Self.limit {
            let target = number == 0 ? leaf : "\(leaf).~\(number)~"
            switch keep(name, in: directory, found, as: target, in: above, moves: moves) {
            case nil: return
            case .fileExists: continue
            case let code: throw FileError(step: "back up", path: shown, code: code, trouble: .unkept)
            }
        }
        throw FileError(
            step: "back up", path: shown, code: .fileExists,
            remark: "\(self.path) has \(Self.limit) backups of it; remove old ones", trouble: .unkept)
    }

    /// The backup directory for a path, created if missing.
    private func descriptor(_ parent: UnsafeBufferPointer<UInt8>, _ directories: Directories) throws(FileError)
        -> Int32?
    {
        do throws(FileError) { return try directories.descriptor(parent, create: true) } catch {
            guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else { throw error }
        }
        // A path that is a directory now was a file when it was kept before.
        var place: [UInt8] = []
        for name in parent.split(separator: 0x2F) {
            if !place.isEmpty { place.append(0x2F) }
            place += name
            guard isTaken(place, directories) else { continue }
            let numbered = (1...Self.limit).lazy.map { [place] in place + Array(".~\($0)~".utf8) }
            place = numbered.first { !isTaken($0, directories) } ?? place
        }
        return try place.withUnsafeBufferPointer { path throws(FileError) in
            try directories.descriptor(path, create: true)
        }
    }

    /// Whether a path in the backup directory is taken by something other than a directory.
    private func isTaken(_ path: [UInt8], _ directories: Directories) -> Bool {
        directories.status(at: path).map { $0.kind != .directory } ?? false
    }

    /// - Returns: Why the entry is not kept; `nil` if it is, now or by an earlier run that was interrupted.
    private func keep(
        _ name: UnsafePointer<CChar>, in directory: Int32, _ found: FileStatus, as target: String, in above: Int32,
        moves: Bool
    ) -> Errno? {
        switch addName(target, in: above, to: name, in: directory) {
        case .fileExists:
            guard case .success(let there?) = status(above, target), there.isSameFile(as: found) else {
                return .fileExists
            }
            return nil
        case .notPermitted, .notSupported, .tooManyLinks, .noFunction:
            return moves ? renameEntry(name, in: directory, toFree: target, in: above) : nil
        case .improperLink: return moves ? copy(name, in: directory, found, as: target, in: above) : nil
        case let code: return code
        }
    }

    /// Copies a file or link to another file system, with its mode and time. The copy is durable before the original is
    /// replaced.
    ///
    /// - Returns: Why it failed, in which case no copy is left.
    private func copy(
        _ name: UnsafePointer<CChar>, in directory: Int32, _ found: FileStatus, as target: String, in above: Int32
    ) -> Errno? {
        if found.kind == .link {
            guard let text = readLink(directory, name) else { return .last }
            return withCString(text) { makeSymbolicLink(target, in: above, to: $0) }
        }
        guard let source = openToRead(directory, name) else { return .last }
        guard let copy = Descriptor(opening: target, in: above, [.newFile, .writeOnly], mode: 0o600) else {
            return .last
        }
        let code =
            copyBytes(of: source.raw, to: copy.raw) ?? setMode(copy.raw, FileMode(found.permissions & 0o777))
            ?? setModified(copy.raw, found.modified) ?? synchronize(copy.raw)
        if code != nil { removeFile(target, in: above) }
        return code
    }
}
