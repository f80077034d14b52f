import CPosix
package import SyncModel

// Names in directories. `in` takes an open directory; a name may be a path below it, or absolute.

/// Renames a file or directory atomically; an existing entry with the new name is replaced. renameat(2)
package func renameEntry(
    _ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory, to newName: UnsafePointer<CChar>,
    in newDirectory: Int32 = currentDirectory
) -> Errno? { failure(renameat(directory, name, newDirectory, newName)) }

/// The same, but nothing is replaced: ``Errno/fileExists`` if the new name is taken. renameat2(2); if the file system
/// does not support that, a check before the rename.
package func renameEntry(
    _ name: UnsafePointer<CChar>, in directory: Int32, toFree newName: UnsafePointer<CChar>, in newDirectory: Int32
) -> Errno? { failure(sa_rename_to_free(directory, name, newDirectory, newName)) }

/// Swaps two names atomically: at each name there is always an entry. renameat2(2), RENAME_EXCHANGE
package func exchangeEntries(
    _ name: UnsafePointer<CChar>, in directory: Int32, with other: UnsafePointer<CChar>, in otherDirectory: Int32
) -> Errno? { failure(sa_exchange(directory, name, otherDirectory, other)) }

/// Removes a name of a file or link. unlinkat(2)
@discardableResult package func removeFile(_ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory)
    -> Errno?
{ failure(unlinkat(directory, name, 0)) }

/// Removes an empty directory. unlinkat(2), AT_REMOVEDIR
@discardableResult package func removeDirectory(_ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory)
    -> Errno?
{ failure(unlinkat(directory, name, AT_REMOVEDIR)) }

/// Makes a directory. mkdirat(2)
///
/// - Parameter mode: Less the umask.
package func makeDirectory(_ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory, mode: FileMode = 0o777)
    -> Errno?
{ failure(mkdirat(directory, name, mode_t(mode))) }

/// Makes a directory unless the name exists.
///
/// - Parameters:
///   - mode: Less the umask.
///   - shown: Its path, for messages.
package func makeMissingDirectory(_ name: String, in directory: Int32, mode: FileMode, shown: String) throws(FileError)
{
    let code = makeDirectory(name, in: directory, mode: mode)
    if code != .fileExists { try FileError.check(code, "create", shown) }
}

/// Makes a directory with an unused name and mode 0700. mkdtemp(3)
///
/// - Parameter prefix: The beginning of its path.
/// - Returns: Its path; `nil` if it cannot be made, and ``Errno/last`` says why.
package func makeTemporaryDirectory(_ prefix: String) -> String? {
    var template = Array("\(prefix)XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { return nil }
    return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// Adds a name to a file. For a link, to the link itself, not its target. linkat(2)
package func addName(
    _ newName: UnsafePointer<CChar>, in newDirectory: Int32, to name: UnsafePointer<CChar>, in directory: Int32
) -> Errno? { failure(linkat(directory, name, newDirectory, newName, 0)) }

/// Adds a name to an open file, whatever its former names refer to now: as described in linkat(2) under
/// `AT_EMPTY_PATH`, through proc(5), which needs no privilege.
package func addName(_ newName: UnsafePointer<CChar>, in newDirectory: Int32, toOpen file: Int32) -> Errno? {
    failure(linkat(AT_FDCWD, "/proc/self/fd/\(file)", newDirectory, newName, AT_SYMLINK_FOLLOW))
}

/// Makes a symbolic link. symlinkat(2)
package func makeSymbolicLink(
    _ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory, to target: UnsafePointer<CChar>
) -> Errno? { failure(symlinkat(target, directory, name)) }

/// Makes a FIFO. mkfifo(3)
package func makeFIFO(_ path: UnsafePointer<CChar>, mode: FileMode) -> Errno? { failure(mkfifo(path, mode_t(mode))) }

/// The target of a symbolic link, as written. readlinkat(2); targets are shorter than `PATH_MAX`.
///
/// - Returns: `nil` if it cannot be read; ``Errno/last`` says why.
package func readLink(_ directory: Int32, _ name: UnsafePointer<CChar>) -> [UInt8]? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
        guard let start = buffer.baseAddress else { return nil }
        let count = readlinkat(directory, name, start, buffer.count)
        return count < 0 ? nil : buffer[..<count].map(UInt8.init(bitPattern:))
    }
}

/// The absolute path without links. realpath(3)
///
/// - Returns: `nil` if nothing exists at the path; ``Errno/last`` says why.
package func realPath(_ path: UnsafePointer<CChar>) -> String? {
    guard let real = realpath(path, nil) else { return nil }
    defer { free(real) }
    return String(cString: real)
}

/// A right to a file or directory. access(2)
package enum AccessRight: Sendable {
    case read, execute
    /// Creating and removing names in a directory, as the effective user. faccessat(2), AT_EACCESS
    case change

    fileprivate var mode: Int32 {
        switch self {
        case .read: R_OK
        case .execute: X_OK
        case .change: W_OK | X_OK
        }
    }
}

/// Whether the name exists; links are followed. access(2)
package func exists(_ path: UnsafePointer<CChar>, in directory: Int32 = currentDirectory) -> Bool {
    faccessat(directory, path, F_OK, 0) == 0
}

/// Whether the name exists, for decisions: if that cannot be determined, it is an error and not `false`. fstatat(2),
/// without following a link at the end
///
/// - Parameter shown: Its path, for messages.
package func isThere(_ name: String, in directory: Int32, shown: String) throws(FileError) -> Bool {
    switch status(directory, name) {
    case .success(let found): return found != nil
    // No entry can have such a name.
    case .failure(.fileNameTooLong): return false
    case .failure(let code): throw FileError(step: "look at", path: shown, code: code)
    }
}

/// Whether this process has a right to a file or directory. access(2)
///
/// - Returns: `false` if it does not, or if nothing exists at the path; ``Errno/last`` says which.
package func isPermitted(_ right: AccessRight, _ path: UnsafePointer<CChar>, in directory: Int32 = currentDirectory)
    -> Bool
{ faccessat(directory, path, right.mode, right == .change ? AT_EACCESS : 0) == 0 }

/// Names in a directory, without `.` and `..`, in no order.
///
/// - Returns: `nil` if there is no such directory.
/// - Throws: Why not all of them can be read.
package func directoryEntries(_ path: String) throws(Errno) -> [String]? {
    if let directory = openDirectory(path) { return try directoryEntries(directory.raw) }
    let code = Errno.last
    guard code == .noSuchFileOrDirectory || code == .notDirectory else { throw code }
    return nil
}

/// Names in a directory, without `.` and `..`, in no order.
///
/// - Throws: Why not all of them can be read.
package func directoryEntries(_ directory: Int32) throws(Errno) -> [String] {
    guard let copy = openDirectory(".", in: directory) else { throw .last }
    var names: [String] = []
    if let code = forEachName(in: copy, { name, _, _ in names.append(String(cString: name)) }) { throw code }
    return names
}

/// Calls `body` with every name in a directory, its length in **bytes** and whether it is a directory, without `.` and
/// `..`, in no order; then closes the directory. readdir(3)
///
/// - Parameter body: Its `isDirectory` is `nil` if the file system does not report it.
/// - Returns: Why not all of them could be read.
package func forEachName<Failure: Error>(
    in directory: consuming Descriptor,
    _ body: (_ name: UnsafePointer<CChar>, _ length: Int, _ isDirectory: Bool?) throws(Failure) -> Void
) throws(Failure) -> Errno? {
    let raw = directory.release()
    guard let stream = fdopendir(raw), let offset = MemoryLayout<dirent>.offset(of: \.d_name) else {
        let code = Errno.last
        close(raw)
        return code
    }
    defer { closedir(stream) }
    while true {
        sa_set_errno(0)
        guard let entry = readdir(stream) else { return sa_errno() == 0 ? nil : .last }
        let name = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
        let length = strlen(name)
        if name[0] == 0x2E, length == 1 || length == 2 && name[1] == 0x2E { continue }
        let kind = Int(entry.pointee.d_type)
        try body(name, length, kind == Int(DT_UNKNOWN) ? nil : kind == Int(DT_DIR))
    }
}

/// Makes every missing directory of `path`, as mkdir(1) `-p` does. Their names survive a power failure, because files
/// that are synced in a directory are lost with the directory's name.
///
/// - Parameter umask: Removed from their mode, in addition to the process's own.
package func makeDirectories(_ path: String, mode: FileMode = 0o777, umask: Umask = Umask(bits: 0)) throws(FileError) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/") {
        let above = prefix.isEmpty ? "." : prefix
        prefix += prefix.isEmpty || prefix.hasSuffix("/") ? String(component) : "/" + component
        var mask = umask
        if umask.bits != 0, let opened = openDirectory(above) { mask = umask.holding(in: opened.raw) }
        guard let code = makeDirectory(prefix, mode: mask.less(mode)) else {
            if let opened = openDirectory(above), let code = synchronizeDirectory(opened.raw) {
                throw FileError(step: "sync", path: above, code: code)
            }
            continue
        }
        guard code == .fileExists || exists(prefix) else { throw FileError(step: "create", path: prefix, code: code) }
        try refuseDangling(prefix)
    }
}

/// Refuses a symbolic link that leads nowhere: no directory can be created at its path.
package func refuseDangling(_ path: String) throws(FileError) {
    guard case .success(let there?) = status(currentDirectory, path), there.kind == .link,
        status(following: path) == nil, Errno.last == .noSuchFileOrDirectory
    else { return }
    throw FileError(
        step: "create", path: path, code: .fileExists,
        remark: "it is a symbolic link that leads nowhere; create what it leads to, or remove it")
}

/// Removes an entry with everything below it; does not follow links or leave the mount: what is bind-mounted below
/// belongs to another place, even on the same file system.
///
/// - Parameter depth: Most nested directories: deeper ones stay, with the directories above them.
/// - Returns: Whether the name no longer exists.
@discardableResult
package func removeTree(_ name: UnsafePointer<CChar>, in directory: Int32, depth: Int = 64) -> Bool {
    guard let code = removeFile(name, in: directory), code != .noSuchFileOrDirectory else { return true }
    guard depth > 0, let opened = openDirectory(name, in: directory, .noFollow),
        let above = MountIdentity(of: directory), above == MountIdentity(of: opened.raw)
    else { return false }
    // In whatever encoding, and all of them before one is removed.
    var entries: [[CChar]] = []
    if let copy = openDirectory(".", in: opened.raw) {
        _ = forEachName(in: copy) { entry, length, _ in
            entries.append(Array(UnsafeBufferPointer(start: entry, count: length + 1)))
        }
    }
    for entry in entries { removeTree(entry, in: opened.raw, depth: depth - 1) }
    return removeDirectory(name, in: directory) == nil
}
