import CPosix
package import SyncSystem

/// Where what a run removes or replaces is kept, under the same relative path: `--backup-dir`, as rclone has it.
///
/// On the destination's file system, neither inside it nor around it. Nothing that is there is ever replaced: a second
/// backup of a name is `NAME.~1~`, the next `NAME.~2~`, as with mv(1) `--backup=numbered`.
package final class BackupDirectory: Sendable {
    /// As the user gave it, absolute.
    package let path: String
    private let root: Int32

    /// Most backups of one name.
    private static let limit = 9_999

    private init(path: String, root: Int32) {
        self.path = path
        self.root = root
    }

    deinit { close(root) }

    /// Opens the directory, making it when it is missing.
    ///
    /// - Throws: ``FileError``; with code `EXDEV` on another file system, with `EINVAL` where one of the two directories is
    ///   in the other.
    package static func open(path: String, beside destination: Destination) throws(FileError)
        -> BackupDirectory
    {
        let step = "use as --backup-dir"
        try makeDirectories(path)
        let root = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        guard root >= 0, let found = status(root), let there = status(destination.root) else {
            let error = FileError.last(step, path)
            if root >= 0 { close(root) }
            throw error
        }
        let result = BackupDirectory(path: path, root: root)
        if isInside(root, there) || isInside(destination.root, found) {
            throw FileError(
                step: step,
                path: path,
                code: EINVAL,
                remark: "it and the destination must not be inside one another; choose a directory beside it"
            )
        }
        if found.device != there.device {
            throw FileError(
                step: step,
                path: path,
                code: EXDEV,
                remark: "it is on another file system than the destination; choose one beside it"
            )
        }
        return result
    }

    /// Whether `directory` is `ancestor`, or below it.
    private static func isInside(_ directory: Int32, _ ancestor: FileStatus) -> Bool {
        var current = dup(directory)
        while current >= 0, let here = status(current) {
            let isSame = here.device == ancestor.device && here.inode == ancestor.inode
            let above = isSame ? -1 : sa_openat(current, "..", O_RDONLY | O_DIRECTORY, 0)
            close(current)
            if isSame { return true }
            // The root is its own parent.
            guard above >= 0, let next = status(above), (next.device, next.inode) != (here.device, here.inode)
            else {
                if above >= 0 { close(above) }
                return false
            }
            current = above
        }
        return false
    }

    /// Keeps files, for one thread.
    package final class Keeper {
        private let backup: BackupDirectory
        private let directories: Directories

        package init(_ backup: BackupDirectory) {
            self.backup = backup
            directories = Directories(below: backup.root)
        }

        /// Keeps what stands at a path, by a second link to it where the file system has such, so that the path is never
        /// empty; otherwise it is moved. Nothing there, or a directory: nothing happens.
        ///
        /// - Parameters:
        ///   - name: In `directory`.
        ///   - directory: Of the destination.
        ///   - path: Relative to the destination.
        /// - Throws: ``FileError``.
        package func keep(
            _ name: UnsafePointer<CChar>,
            in directory: Int32,
            path: UnsafeBufferPointer<UInt8>
        ) throws(FileError) {
            let shown = String(decoding: path, as: UTF8.self)
            let found: FileStatus
            switch status(directory, name) {
            case .success(nil): return
            case .success(let status?): found = status
            case .failure(let code): throw FileError(step: "back up", path: shown, code: code.errno)
            }
            guard found.kind != .directory else { return }
            let slash = path.lastIndex(of: 0x2F) ?? path.startIndex
            let parent = UnsafeBufferPointer(rebasing: path[..<slash])
            let above: Int32
            do throws(FileError) {
                guard let opened = try directories.descriptor(parent, create: true) else { return }
                above = opened
            } catch {
                let place = "\(shown) below \(backup.path)"
                throw FileError(step: "back up", path: place, code: error.code, remark: error.remark)
            }
            let leaf = String(cString: name)
            for number in 0...BackupDirectory.limit {
                let target = number == 0 ? leaf : "\(leaf).~\(number)~"
                switch keep(name, in: directory, found, as: target, in: above) {
                case 0: return
                case EEXIST: continue
                case let code: throw FileError(step: "back up", path: shown, code: code)
                }
            }
            throw FileError(
                step: "back up",
                path: shown,
                code: EEXIST,
                remark: "\(backup.path) has \(BackupDirectory.limit) backups of it; remove old ones"
            )
        }

        /// - Returns: An errno; 0 when it is kept, now or since an earlier run was cut off.
        private func keep(
            _ name: UnsafePointer<CChar>,
            in directory: Int32,
            _ found: FileStatus,
            as target: String,
            in above: Int32
        ) -> Int32 {
            // A link to a link, not to what it leads to. linkat(2)
            if linkat(directory, name, above, target, 0) == 0 { return 0 }
            switch sa_errno() {
            case EEXIST:
                guard case .success(let there?) = status(above, target), there.inode == found.inode,
                    there.device == found.device
                else { return EEXIST }
                return 0
            case EPERM, EOPNOTSUPP, EMLINK, ENOSYS:
                return sa_rename_to_free(directory, name, above, target) == 0 ? 0 : sa_errno()
            default: return sa_errno()
            }
        }
    }
}
