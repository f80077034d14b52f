import CPosix
import SyncModel

/// Opens a directory of ours: it belongs to this user, and nobody else may write to it. Its contents are then trusted.
///
/// - Parameters:
///   - path: Absolute, or relative to the working directory. Links on the way are followed; one at the end is refused.
///   - create: Whether to create it, and missing directories above it, durably and with mode 0700.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it is missing and not created.
package func openPrivateDirectory(_ path: String, create: Bool) throws(FileError) -> Descriptor {
    try openPrivateDirectory(path, create: create, .noFollow)
}

/// The same for the state directory and the socket's directory, which may be links: the directories above must not
/// belong to another user either, who could replace the link.
///
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it is missing and not created.
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

/// Opens a directory of ours below an open one, never through a link.
///
/// - Parameters:
///   - create: Whether to create it, with mode 0700.
///   - shown: Its path, for messages.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it is missing and not created.
package func openPrivateDirectory(_ name: String, in parent: Int32, create: Bool, shown: String) throws(FileError)
    -> Descriptor
{
    if create { try makeMissingDirectory(name, in: parent, mode: 0o700, shown: shown) }
    guard let directory = openDirectory(name, in: parent, .noFollow) else { throw .last("open", shown) }
    try checkPrivate(directory.raw, shown: shown)
    return directory
}

/// Checks that an open directory belongs to this user and that nobody else may write to it.
///
/// This includes root, who would otherwise trust files that another user has placed there.
///
/// - Throws: ``FileError`` that says what to do.
package func checkPrivate(_ directory: Int32, shown: String) throws(FileError) {
    var status = stat()
    guard fstat(directory, &status) == 0 else { throw .last("look at", ofOpen: shown) }
    if let objection = FileTrust.state.objection(to: status, shown: escaped(shown)) { throw refusal(shown, objection) }
}

/// Checks that nobody but this user and root can replace the file at `path`: checks its directory and, for a link, the
/// directory of the target.
///
/// A directory that others may write to is accepted if it has the sticky bit: they can only add their own files there.
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

/// Checks that nobody but this user and root can replace the directory at `path`: checks the nearest existing directory
/// above it. Its group may write to it, as is common where every user has a private group.
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

/// Checks that nobody but this user and root controls a program, or a file that says whom to trust: checks the file,
/// its directory, and the directories that lead there. Their groups may write to those: anybody who replaced a
/// directory would own the new one.
///
/// - Throws: ``FileError`` that says what to do; with ``Errno/noSuchFileOrDirectory`` if the file does not exist.
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

/// The same for a path, for files that a library reads by name.
///
/// - Throws: ``FileError`` about `path`, as given.
package func checkUnchangeable(_ path: String) throws(FileError) {
    do throws(FileError) { try checkUnchangeable(PathWalk(path)) } catch {
        throw FileError(step: error.step, path: path, code: error.code, remark: error.remark)
    }
}

/// The bytes of a file that says whom to trust, which only this user and root can change.
///
/// - Parameter limit: Largest permitted size, in **bytes**.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it does not exist, with ``FileError/isRefusal`` if
///   it is refused.
package func readUnchangeable(_ path: String, limit: Int) throws(FileError) -> [UInt8] {
    try checkUnchangeable(path)
    return try readFile(path, trust: .input, limit: limit)
}

/// Why others could place an entry in a directory; `nil` if they cannot, or if it does not exist.
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

/// The conditions for a part of the system. In a user namespace without root, user_namespaces(7), such as that of a
/// service of systemd's user manager, the owner of the root directory counts as root.
private func systemTrust(of status: stat, forbidden: FileMode) -> FileTrust {
    var root = stat()
    let isRoots = stat("/", &root) == 0 && root.st_uid == status.st_uid
    return FileTrust(owner: isRoots ? .anyone : .userOrRoot, forbidden: forbidden, followsLinks: true)
}

/// The parent directory of a path, computed from the text.
package func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}

/// Makes a path absolute.
///
/// - Throws: ``FileError`` for a relative path if the working directory has been removed, or its path is not UTF-8:
///   relative to `/`, or to a repaired path, it would refer to something else.
package func absolutePath(_ path: String) throws(FileError) -> String {
    if path.hasPrefix("/") { return path }
    guard let directory = CurrentProcess.workingDirectory else {
        throw FileError(step: "find", path: path, code: .noSuchFileOrDirectory, remark: noWorkingDirectory)
    }
    // People write `./` for a file here; it is shown without.
    let name = path.hasPrefix("./") ? path.dropFirst(2) : path[...]
    return directory == "/" ? "/\(name)" : "\(directory)/\(name)"
}

/// Why a relative path cannot be resolved, with a remedy.
package var noWorkingDirectory: String {
    CurrentProcess.hasNamelessDirectory
        ? "the path of the working directory is not UTF-8: change into one whose path is, or give an absolute path"
        : "the working directory is gone: change into one that exists, or give an absolute path"
}

/// A file name that encodes any text uniquely: letters, digits, `-` and `_` as they are, every other byte as `%` and
/// two digits.
///
/// - Parameter keepsDots: Whether dots are kept, too, except a leading one.
package func fileName(of text: some Sequence<UInt8>, keepsDots: Bool = false) -> String {
    text.enumerated().map { index, byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: String(UnicodeScalar(byte))
        case 0x2E where keepsDots && index > 0: "."
        default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }.joined()
}
