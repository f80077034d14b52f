package import CPosix
import SyncModel

/// Opens a directory of ours: this user owns it, and nobody else may write to it. What stands in it is then our own word.
///
/// - Parameters:
///   - path: Absolute, or relative to the working directory. Links on the way are followed, one at the end is refused.
///   - create: Whether to make it, and what is missing above it, with mode 0700.
/// - Throws: ``FileError``; with `ENOENT` when it is missing and not to be made.
package func openPrivateDirectory(_ path: String, create: Bool) throws(FileError) -> Descriptor {
    try openPrivateDirectory(path, create: create, O_NOFOLLOW)
}

/// The same for the state directory, and for the socket's, which may be links: who owns what is above it must not be
/// somebody else either, who could put another one there.
///
/// - Throws: ``FileError``; with `ENOENT` when it is missing and not to be made.
package func openStateDirectory(_ path: String, create: Bool) throws(FileError) -> Descriptor {
    try checkParent(of: path)
    return try openPrivateDirectory(path, create: create, 0)
}

private func openPrivateDirectory(_ path: String, create: Bool, _ flags: Int32) throws(FileError)
    -> Descriptor
{
    if create { try makeDirectories(path, mode: 0o700) }
    guard let directory = openDirectory(path, flags) else { throw .last("open", path) }
    try checkPrivate(directory.raw, shown: path)
    return directory
}

/// Opens a directory of ours below one that is open, never through a link.
///
/// - Parameters:
///   - create: Whether to make it, with mode 0700.
///   - shown: Its path, for messages.
/// - Throws: ``FileError``; with `ENOENT` when it is missing and not to be made.
package func openPrivateDirectory(
    _ name: String,
    in parent: Int32,
    create: Bool,
    shown: String
) throws(FileError) -> Descriptor {
    if create, mkdirat(parent, name, 0o700) != 0, sa_errno() != EEXIST { throw .last("create", shown) }
    guard let directory = openDirectory(name, in: parent, O_NOFOLLOW) else { throw .last("open", shown) }
    try checkPrivate(directory.raw, shown: shown)
    return directory
}

/// Checks that an open directory is this user's and that nobody else may write to it.
///
/// Root is no exception: in a directory of another user root would do what that user has put there.
///
/// - Throws: ``FileError`` that says what to do.
package func checkPrivate(_ directory: Int32, shown: String) throws(FileError) {
    var status = stat()
    guard fstat(directory, &status) == 0 else { throw .last("look at", shown) }
    if let objection = FileTrust.state.objection(to: status, shown: escaped(shown)) {
        throw refusal(shown, objection)
    }
}

/// Checks that nobody but this user and root can put another file in the place of `path`: the directory that it is in,
/// and the one that its file is in where it is a link.
///
/// A directory that others may write to is fine with the sticky bit: there they can only add files of their own.
///
/// - Throws: ``FileError`` that says what to do.
package func checkDirectory(of path: String) throws(FileError) {
    try checkOneDirectory(of: path)
    guard let real = realpath(path, nil) else { return }
    defer { free(real) }
    try checkOneDirectory(of: String(cString: real))
}

private func checkOneDirectory(of path: String) throws(FileError) {
    let directory = parent(of: path)
    if let objection = try objection(toDirectory: directory, forbidden: 0o022) {
        throw refusal(path, "its directory \(escaped(directory)): \(objection)")
    }
}

/// Checks that nobody but this user and root can put another directory in the place of `path`: the nearest one above it
/// that is there. Its group may write to it, as is usual where every user has a group of his own.
///
/// - Throws: ``FileError`` that says what to do.
package func checkParent(of path: String) throws(FileError) {
    var directory = parent(of: path)
    while access(directory, F_OK) != 0, sa_errno() == ENOENT, directory != parent(of: directory) {
        directory = parent(of: directory)
    }
    if let objection = try objection(toDirectory: directory, forbidden: 0o002) {
        throw refusal(path, "\(escaped(directory)), above it: \(objection)")
    }
}

/// Checks that nobody but this user and root decides what a program is: the file, its directory, and what leads there.
///
/// - Parameters:
///   - path: Absolute, without links.
///   - directories: Every directory that is walked through to get there, links followed. Their groups may write to them:
///     whoever puts another directory there owns that.
/// - Throws: ``FileError`` that says what to do.
package func checkProgram(_ path: String, through directories: Set<String>) throws(FileError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { throw .last("use", path) }
    if let objection = systemTrust(of: status, forbidden: 0o022).objection(to: status, shown: escaped(path)) {
        throw refusal(path, objection)
    }
    try checkOneDirectory(of: path)
    for directory in directories.sorted() {
        if let objection = try objection(toDirectory: directory, forbidden: 0o002) {
            throw refusal(path, "\(escaped(directory)), which leads to it: \(objection)")
        }
    }
}

/// Why others could put something else into a directory; `nil` when they cannot, or when it is not there.
private func objection(toDirectory path: String, forbidden: mode_t) throws(FileError) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else {
        let error = FileError.last("look at", path)
        if error.isMissing { return nil }
        throw error
    }
    let isSticky = status.st_mode & 0o1000 != 0  // S_ISVTX, inode(7).
    return systemTrust(of: status, forbidden: isSticky ? 0 : forbidden).objection(
        to: status,
        shown: escaped(path)
    )
}

/// What must hold of a part of the system. In a user namespace that does not know root, user_namespaces(7), as of a
/// service of systemd's user manager, root is whoever has the root directory.
private func systemTrust(of status: stat, forbidden: mode_t) -> FileTrust {
    var root = stat()
    let isRoots = stat("/", &root) == 0 && root.st_uid == status.st_uid
    return FileTrust(owner: isRoots ? .anyone : .userOrRoot, forbidden: forbidden, followsLinks: true)
}

private func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}

/// Makes every missing directory of `path`, as mkdir(1) `-p` does.
package func makeDirectories(_ path: String, mode: mode_t = 0o777) throws(FileError) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/") {
        prefix += prefix.isEmpty || prefix.hasSuffix("/") ? String(component) : "/" + component
        guard mkdir(prefix, mode) != 0, sa_errno() != EEXIST else { continue }
        let code = sa_errno()
        if access(prefix, F_OK) != 0 { throw FileError(step: "create", path: prefix, code: code) }
    }
}

/// Names in a directory, without `.` and `..`, in no order.
///
/// - Returns: `nil` when it cannot be read; errno(3) says why.
package func directoryEntries(_ path: String) -> [String]? {
    guard let directory = openDirectory(path) else { return nil }
    return directoryEntries(directory.raw)
}

/// Names in a directory, without `.` and `..`, in no order. readdir(3).
package func directoryEntries(_ directory: Int32) -> [String] {
    let copy = sa_openat(directory, ".", O_RDONLY | O_DIRECTORY, 0)
    guard copy >= 0, let stream = fdopendir(copy) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}

/// Removes whatever has this name, with everything below it; follows no link and leaves no filesystem.
///
/// - Parameter depth: Most directories below one another: what is deeper stays, and so does what it is in.
/// - Returns: Whether there is nothing of that name now.
@discardableResult
package func removeTree(_ name: String, in directory: Int32, depth: Int = 64) -> Bool {
    if unlinkat(directory, name, 0) == 0 || sa_errno() == ENOENT { return true }
    guard depth > 0, let opened = openDirectory(name, in: directory, O_NOFOLLOW),
        let above = status(directory), let own = status(opened.raw), above.device == own.device
    else {
        return false
    }
    for entry in directoryEntries(opened.raw) { removeTree(entry, in: opened.raw, depth: depth - 1) }
    return unlinkat(directory, name, AT_REMOVEDIR) == 0
}

/// A file's name that any text has, and no other: letters, digits, `-` and `_` as they are, every other byte as `%` and two
/// digits.
///
/// - Parameter keepsDots: Whether dots stay as they are, too, but for one that leads.
package func fileName(of text: some Sequence<UInt8>, keepsDots: Bool = false) -> String {
    text.enumerated().map { index, byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: String(UnicodeScalar(byte))
        case 0x2E where keepsDots && index > 0: "."
        default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }.joined()
}
