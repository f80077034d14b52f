import CPosix
import SyncModel

import struct Synchronization.Atomic

/// The conditions that a file must meet before a byte of it is read or written. A name proves nothing: anybody who can
/// write to the directory can place a link, a FIFO, a huge sparse file or somebody else's file there.
///
/// Every file of our own, and every file that configures us, is opened by ``openFile(_:in:_:mode:trust:shown:)`` with
/// one of these.
package struct FileTrust: Sendable {
    /// The permitted owners.
    package enum Owner: Sendable { case user, userOrRoot, anyone }

    package let owner: Owner
    /// Permission bits that must not be set, as in chmod(2).
    package let forbidden: FileMode
    /// Whether the last component may be a symbolic link.
    package let followsLinks: Bool
    /// Whether it must have no other name, because a write would change the file there, too.
    package let hasOneName: Bool

    package init(owner: Owner, forbidden: FileMode, followsLinks: Bool, hasOneName: Bool = false) {
        (self.owner, self.forbidden, self.followsLinks) = (owner, forbidden, followsLinks)
        self.hasOneName = hasOneName
    }

    /// State of this program, in `.syncagent` and in the state directory.
    package static let state = FileTrust(owner: .user, forbidden: 0o022, followsLinks: false)
    /// The same, written in place. Copies of a tree with `cp -al` have more names.
    package static let ownState = FileTrust(owner: .user, forbidden: 0o022, followsLinks: false, hasOneName: true)
    /// Unfinished content: its mode is that of the future file.
    package static let staged = FileTrust(owner: .user, forbidden: 0, followsLinks: false, hasOneName: true)
    /// Settings, which are often links.
    package static let settings = FileTrust(owner: .userOrRoot, forbidden: 0o022, followsLinks: true)
    /// Credentials and keys.
    package static let secret = FileTrust(owner: .userOrRoot, forbidden: 0o077, followsLinks: true)
    /// Data that is verified by its content, such as a manifest beside its packs.
    package static let input = FileTrust(owner: .anyone, forbidden: 0, followsLinks: true)

    /// Why a file or directory is refused; `nil` if it may be used.
    ///
    /// - Parameter shown: Its path, for the remedy.
    func objection(to status: stat, shown: String) -> String? {
        let user = geteuid()
        let isOurs =
            switch owner {
            case .user: status.st_uid == user
            case .userOrRoot: status.st_uid == user || status.st_uid == 0
            case .anyone: true
            }
        guard isOurs else {
            return "it belongs to another user (uid \(status.st_uid)); it must be yours"
                + (owner == .userOrRoot ? " or root's" : "")
        }
        guard FileMode(status.st_mode) & forbidden == 0 else {
            return forbidden & 0o044 != 0
                ? "others may read it; run: chmod 600 \(shown)" : "others may write to it; run: chmod go-w \(shown)"
        }
        if hasOneName, status.st_nlink > 1 {
            return "it has a second name (a hard link), and writing to it would change that one, too; "
                + "remove the other name"
        }
        return nil
    }
}

/// Whether an open file has no other name. fstat(2).
package func hasOneName(_ descriptor: Int32) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_nlink <= 1
}

/// Opens a regular file that meets `trust`. Never blocks: a FIFO is refused, not opened.
///
/// - Parameters:
///   - path: Relative to `directory`, or absolute.
///   - flags: As for open(2). ``OpenFlags/truncate`` is ignored, since it would change a file before it is checked:
///     truncate it afterwards, or use ``createFile(_:in:_:mode:shown:)``.
///   - mode: The mode of a file that ``OpenFlags/create`` creates.
///   - shown: Its path, for messages, if `path` is relative to a directory.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if the file does not exist, with a remark if it is
///   refused.
package func openFile(
    _ path: String, in directory: Int32 = currentDirectory, _ flags: OpenFlags = .readOnly, mode: FileMode = 0o600,
    trust: FileTrust, shown: String? = nil
) throws(FileError) -> Descriptor {
    let shown = shown ?? path
    let careful = flags.subtracting(.truncate).union(trust.followsLinks ? .unwaiting : .unwaitingNoFollow)
    guard let file = Descriptor(opening: path, in: directory, careful, mode: mode) else {
        let code = Errno.last
        if let reason = objection(to: path, in: directory, code, trust) { throw refusal(shown, reason) }
        throw FileError(step: "open", path: shown, code: code)
    }
    var status = stat()
    guard fstat(file.raw, &status) == 0 else { throw .last("look at", ofOpen: shown) }
    try check(shown, status, trust)
    return file
}

/// Why a file that could not be opened is refused; `nil` if it may be acceptable, and the system failed to open it.
private func objection(to path: String, in directory: Int32, _ code: Errno, _ trust: FileTrust) -> String? {
    guard case .success(let found?) = status(directory, path) else { return nil }
    let isLink = found.kind == .link
    return switch code {
    // FIFOs without a reader, sockets and devices without a driver: open(2).
    case .noSuchAddressOrDevice, .operationNotSupportedByDevice:
        found.kind == .other || isLink && trust.followsLinks ? "it is not a regular file" : nil
    case .tooManySymbolicLinkLevels: isLink && !trust.followsLinks ? "it is a symbolic link; remove it" : nil
    default: nil
    }
}

/// Checks a file as ``openFile(_:in:_:mode:trust:shown:)`` does, without opening it: for files that a library opens by
/// name.
///
/// Closing any descriptor of a file releases all fcntl(2) locks that this process has on it, so a database must not be
/// opened here while a library has it open.
///
/// - Parameter limit: Largest permitted size, in **bytes**.
/// - Returns: Its size in **bytes**; `nil` if it does not exist.
/// - Throws: ``FileError`` with a remark if it is refused.
package func checkFile(_ path: String, in directory: Int32 = currentDirectory, trust: FileTrust, limit: UInt64 = .max)
    throws(FileError) -> UInt64?
{
    var status = stat()
    guard fstatat(directory, path, &status, trust.followsLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 else {
        let error = FileError.last("look at", path)
        if error.isMissing { return nil }
        throw error
    }
    try check(path, status, trust)
    let size = UInt64(clamping: status.st_size)
    guard size <= limit else { throw tooLarge(path, size, limit) }
    return size
}

private func check(_ path: String, _ status: stat, _ trust: FileTrust) throws(FileError) {
    switch withUnsafePointer(to: status, { sa_file_kind($0) }) {
    case 0: break
    case 2: throw refusal(path, "it is a symbolic link; remove it")
    default: throw refusal(path, "it is not a regular file")
    }
    if let objection = trust.objection(to: status, shown: escaped(path)) { throw refusal(path, objection) }
}

/// As ``createFile(_:in:_:mode:shown:)``, without a path for messages.
///
/// - Returns: `nil` if it cannot be created; ``Errno/last`` says why.
package func makeFile(
    _ name: UnsafePointer<CChar>, in directory: Int32, _ flags: OpenFlags = .readWrite, mode: FileMode
) -> Descriptor? {
    let flags = flags.union(.newFile)
    if let file = Descriptor(opening: name, in: directory, flags, mode: mode) { return file }
    guard Errno.last == .fileExists else { return nil }
    let code = removeFile(name, in: directory)
    guard code == nil || code == .noSuchFileOrDirectory else { return nil }
    return Descriptor(opening: name, in: directory, flags, mode: mode)
}

/// Creates a file with a name of ours. An existing one is removed, not written to: it may be a link to a file
/// elsewhere.
///
/// - Throws: ``FileError``.
package func createFile(
    _ path: String, in directory: Int32 = currentDirectory, _ flags: OpenFlags = .readWrite, mode: FileMode = 0o600,
    shown: String? = nil
) throws(FileError) -> Descriptor {
    guard let file = makeFile(path, in: directory, flags, mode: mode) else { throw .last("create", shown ?? path) }
    return file
}

/// The bytes of a whole file.
///
/// - Parameters:
///   - limit: Largest permitted size, in **bytes**.
///   - shown: Its path, for messages, if `path` is relative to a directory.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it does not exist, with ``Errno/fileTooLarge`` if
///   it is larger.
package func readFile(
    _ path: String, in directory: Int32 = currentDirectory, trust: FileTrust, limit: Int, shown: String? = nil
) throws(FileError) -> [UInt8] {
    let shown = shown ?? path
    let file = try openFile(path, in: directory, trust: trust, shown: shown)
    return try readFile(file.raw, limit: limit, shown: shown)
}

/// The bytes of a whole open file, from its start.
///
/// - Throws: ``FileError``; with ``Errno/fileTooLarge`` if it is larger.
package func readFile(_ file: Int32, limit: Int, shown: String) throws(FileError) -> [UInt8] {
    guard let size = status(file)?.size else { throw .last("look at", ofOpen: shown) }
    guard let count = Int(exactly: size), count <= limit else { throw tooLarge(shown, size, UInt64(limit)) }
    var read = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
        read = readFully(file, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
        used = max(0, read)
    }
    guard read >= 0 else { throw .last("read", ofOpen: shown) }
    guard read == count else { throw refusal(shown, "it shrank while it was being read") }
    return bytes
}

/// A text that only its owner may read, in a directory where nobody else can replace it.
///
/// - Parameter limit: Largest permitted size, in **bytes**.
/// - Throws: ``FileError``; with ``Errno/noSuchFileOrDirectory`` if it does not exist.
package func readSecret(_ path: String, limit: Int) throws(FileError) -> String {
    let bytes = try readFile(path, trust: .secret, limit: limit)
    try checkDirectory(of: path)
    guard let text = String(validating: bytes, as: UTF8.self) else { throw refusal(path, "it is not UTF-8") }
    return text
}

/// The first line of a small file of the system. Files of the kernel, in sysfs(5) and proc(5), report no meaningful
/// size.
///
/// - Returns: At most 4,095 **bytes**; `nil` if it cannot be read, and ``Errno/last`` says why.
package func systemLine(_ path: String) -> Substring? {
    guard let file = try? openFile(path, trust: .input) else { return nil }
    // One read returns all of such a file.
    let text = String(unsafeUninitializedCapacity: 4_095) { buffer in
        max(0, retryingOnInterrupt { pread(file.raw, buffer.baseAddress, buffer.count, 0) })
    }
    return text.prefix { $0 != "\n" }
}

/// Replaces a file atomically: writes a new one beside it, then rename(2). A symbolic link is replaced, not followed:
/// paths that a user gives have been resolved before, and our own directories contain no links.
///
/// - Parameters:
///   - mode: Its final mode, whatever the umask.
///   - isDurable: Whether to fsync(2) it before the rename …
///   - isNameDurable: … and its directory afterwards: otherwise a power failure may restore the former file.
/// - Throws: ``FileError``; the former file is then unchanged, unless syncing the directory failed. With
///   ``FileError/Trouble/unwritten``, the new file could be created. A device, FIFO or socket is never replaced.
package func replaceFile(
    _ path: String, with bytes: [UInt8], mode: FileMode = 0o600, isDurable: Bool = true, isNameDurable: Bool = true
) throws(FileError) {
    // A device or a pipe would be removed, although the intention is to write into it.
    if case .success(let found?) = status(currentDirectory, path), found.kind == .other {
        throw FileError(step: "replace", path: path, remark: "it is not a regular file", trouble: .inTheWay)
    }
    // systemd, cron and our own readers ignore names that begin with a dot.
    let slash = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
    // Other threads may be replacing it as well.
    let number = replacements.wrappingAdd(1, ordering: .relaxed).newValue
    let temporary = "\(path[..<slash]).\(path[slash...]).\(CurrentProcess.identifier).\(number).new"
    let file = try createFile(temporary, .writeOnly, mode: mode)
    var step = "write"
    var code = bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
    if code == nil, mode != 0o600 { (step, code) = ("set the mode of", setMode(file.raw, mode)) }
    if code == nil, isDurable { (step, code) = ("sync", synchronize(file.raw)) }
    let closed = file.close()
    // An interrupted close(2) has still closed the file.
    if code == nil, let closed, closed != .interrupted { (step, code) = ("write", closed) }
    let isWritten = code == nil
    if isWritten { (step, code) = ("replace", renameEntry(temporary, to: path)) }
    guard let code else {
        guard isDurable, isNameDurable, let folder = openDirectory(parent(of: path)) else { return }
        try FileError.check(synchronizeDirectory(folder.raw), "sync", path)
        return
    }
    removeFile(temporary)
    throw FileError(step: step, path: path, code: code, trouble: isWritten ? nil : .unwritten)
}

/// Number of files that this process has replaced.
private let replacements = Atomic<UInt64>(0)

private func tooLarge(_ path: String, _ size: UInt64, _ limit: UInt64) -> FileError {
    FileError(
        step: "use", path: path, code: .fileTooLarge,
        remark: "it has \(ByteCount(size)), above the limit of \(ByteCount(limit))")
}

func refusal(_ path: String, _ remark: String) -> FileError {
    FileError(step: "use", path: path, code: .notPermitted, remark: remark)
}

/// The user of the peer of a connected Unix socket, as reported by the kernel: `SO_PEERCRED` of unix(7), or
/// getpeereid(3).
///
/// For a client, that is the user who called listen(2): the name of a socket proves nothing.
///
/// - Returns: `nil` if the kernel does not report it.
package func peerUser(of socket: Int32) -> UInt32? {
    var user = uid_t.max
    return sa_peer_user(socket, &user) == 0 ? user : nil
}
