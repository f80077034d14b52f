import CPosix
import SyncModel

/// Opens a directory of ours: this user owns it, and nobody else may write to it. What stands in it is then our own word.
///
/// - Parameters:
///   - path: Absolute, or relative to the working directory. Links on the way are followed, one at the end is refused.
///   - create: Whether to make it, and what is missing above it, with mode 0700, so that a power cut leaves it there.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` when it is missing and not to be made.
package func openPrivateDirectory(_ path: String, create: Bool) throws(FileError) -> Descriptor {
    try openPrivateDirectory(path, create: create, .noFollow)
}

/// The same for the state directory, and for the socket's, which may be links: who owns what is above it must not be
/// somebody else either, who could put another one there.
///
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` when it is missing and not to be made.
package func openStateDirectory(_ path: String, create: Bool) throws(FileError) -> Descriptor {
    try checkParent(of: path)
    return try openPrivateDirectory(path, create: create, .readOnly)
}

private func openPrivateDirectory(_ path: String, create: Bool, _ flags: OpenFlags) throws(FileError) -> Descriptor {
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
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` when it is missing and not to be made.
package func openPrivateDirectory(_ name: String, in parent: Int32, create: Bool, shown: String) throws(FileError)
    -> Descriptor
{
    if create { try makeMissingDirectory(name, in: parent, mode: 0o700, shown: shown) }
    guard let directory = openDirectory(name, in: parent, .noFollow) else { throw .last("open", shown) }
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
    guard fstat(directory, &status) == 0 else { throw .last("look at", ofOpen: shown) }
    if let objection = FileTrust.state.objection(to: status, shown: escaped(shown)) { throw refusal(shown, objection) }
}

/// Checks that nobody but this user and root can put another file in the place of `path`: the directory that it is in,
/// and the one that its file is in where it is a link.
///
/// A directory that others may write to is fine with the sticky bit: there they can only add files of their own.
///
/// - Throws: ``FileError`` that says what to do.
package func checkDirectory(of path: String) throws(FileError) {
    try checkOneDirectory(of: path)
    if let real = realPath(path) { try checkOneDirectory(of: real) }
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
    while !exists(directory), Errno.last == .noSuchFileOrDirectory, directory != parent(of: directory) {
        directory = parent(of: directory)
    }
    if let objection = try objection(toDirectory: directory, forbidden: 0o002) {
        throw refusal(path, "\(escaped(directory)), above it: \(objection)")
    }
}

/// Checks that nobody but this user and root decides what a program is, or a file that says whom to trust: the file, its
/// directory, and what leads there. The groups of directories on the way may write to them: whoever puts another directory
/// there owns that.
///
/// - Throws: ``FileError`` that says what to do; with ``Errno/noSuchFileOrDirectory`` when there is no such file.
package func checkUnchangeable(_ walk: PathWalk) throws(FileError) {
    let path = walk.path
    var status = stat()
    guard lstat(path, &status) == 0 else { throw .last("open", path) }
    if let objection = systemTrust(of: status, forbidden: 0o022).objection(to: status, shown: escaped(path)) {
        throw refusal(path, objection)
    }
    try checkOneDirectory(of: path)
    for directory in walk.directories.sorted() {
        if let objection = try objection(toDirectory: directory, forbidden: 0o002) {
            throw refusal(path, "\(escaped(directory)), which leads to it: \(objection)")
        }
    }
}

/// The same of a path, for files that a library reads by name.
///
/// - Throws: ``FileError`` about `path`, as it was given.
package func checkUnchangeable(_ path: String) throws(FileError) {
    do throws(FileError) { try checkUnchangeable(PathWalk(path)) } catch {
        throw FileError(step: error.step, path: path, code: error.code, remark: error.remark)
    }
}

/// The bytes of a file that says whom to trust, which nobody but this user and root can change.
///
/// - Parameter limit: Most **bytes** it may have.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` when there is no such file, with ``FileError/isRefusal`` when it
///   is not to be trusted.
package func readUnchangeable(_ path: String, limit: Int) throws(FileError) -> [UInt8] {
    try checkUnchangeable(path)
    return try readFile(path, trust: .input, limit: limit)
}

/// Why others could put something else into a directory; `nil` when they cannot, or when it is not there.
private func objection(toDirectory path: String, forbidden: FileMode) throws(FileError) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else {
        let error = FileError.last("look at", path)
        if error.isMissing { return nil }
        throw error
    }
    let isSticky = status.st_mode & 0o1000 != 0  // S_ISVTX, inode(7).
    return systemTrust(of: status, forbidden: isSticky ? 0 : forbidden).objection(to: status, shown: escaped(path))
}

/// What must hold of a part of the system. In a user namespace that does not know root, user_namespaces(7), as of a
/// service of systemd's user manager, root is whoever has the root directory.
private func systemTrust(of status: stat, forbidden: FileMode) -> FileTrust {
    var root = stat()
    let isRoots = stat("/", &root) == 0 && root.st_uid == status.st_uid
    return FileTrust(owner: isRoots ? .anyone : .userOrRoot, forbidden: forbidden, followsLinks: true)
}

/// The directory that a path is in, as text.
package func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}

/// A path against the working directory.
///
/// - Throws: ``FileError`` for a relative one where the working directory has been removed, or has a path that is no text:
///   taken for one below `/`, or below what its path is repaired to, it would mean something else.
package func absolutePath(_ path: String) throws(FileError) -> String {
    if path.hasPrefix("/") { return path }
    guard let directory = CurrentProcess.workingDirectory else {
        throw FileError(step: "find", path: path, code: .noSuchFileOrDirectory, remark: noWorkingDirectory)
    }
    // As people name what is here; it is shown without.
    let name = path.hasPrefix("./") ? path.dropFirst(2) : path[...]
    return directory == "/" ? "/\(name)" : "\(directory)/\(name)"
}

/// What keeps a relative path from meaning anything, and what to do.
package var noWorkingDirectory: String {
    CurrentProcess.hasNamelessDirectory
        ? "the path of the working directory is not UTF-8: change into one whose path is, or give an absolute path"
        : "the working directory is gone: change into one that exists, or give an absolute path"
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
