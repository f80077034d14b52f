import SyncModel
import SyncSystem

/// The right to change an output directory: a lock on a file in it that only its owner can open, so that nobody who may
/// merely read the directory can hold it.
///
/// The file is removed at the end; a file left by a killed run is taken over.
struct OutputLock: ~Copyable {
    static let name = ".publish.lock"
    /// The content of the file does not matter, and a user who can create it here can remove any other file as well.
    private static let trust = FileTrust(owner: .anyone, forbidden: 0, followsLinks: false)
    /// How often another run may end between two steps of this one.
    private static let mostTries = 16

    private let directory: SharedDescriptor
    /// The file's name.
    private let name: String
    private let isShared: Bool
    /// `nil` where the file system has no locks: there only the user knows that nobody else publishes.
    private let lock: FileLock?

    /// - Parameters:
    ///   - path: Of the directory, for messages.
    ///   - isShared: Whether the lock is shared by the shards of one set, each of which writes its own files.
    /// - Throws: ``PublishError`` if somebody else holds the lock.
    init(_ directory: SharedDescriptor, path: String, name: String = name, isShared: Bool = false) throws(PublishError)
    {
        (self.directory, self.name, self.isShared) = (directory, name, isShared)
        for _ in 0..<Self.mostTries {
            let file = try Self.open(directory.raw, path, name)
            let opened = status(file.raw)
            let lock = try Self.lock(file, path, isShared)
            // The former holder may have removed the file meanwhile.
            guard case .success(let named?) = status(directory.raw, name), let opened, named.isSameFile(as: opened)
            else { continue }
            self.lock = lock
            return
        }
        throw Self.busy(path)
    }

    /// Removes the file before the lock is released: nobody else holds the lock then. Of several holders, the last one
    /// removes it.
    deinit {
        if isShared, lock?.takeAlone() != true { return }
        removeFile(name, in: directory.raw)
    }

    /// - Returns: `nil` where the file system has no locks.
    private static func lock(_ file: consuming Descriptor, _ path: String, _ isShared: Bool) throws(PublishError)
        -> FileLock?
    {
        let lock: FileLock?
        do throws(FileError) { lock = try FileLock.take(file, path: path, isShared: isShared) } catch {
            // Any other failure says nothing about who holds the lock.
            // 524: ENOTSUPP of the kernel, which NFS lets through.
            let none: [Errno] = [.noLocks, .invalidArgument, .notSupported, .noFunction, Errno(rawValue: 524)]
            guard let code = error.code, none.contains(code) else { throw .writing(path, "lock", code: error.code) }
            return nil
        }
        guard lock != nil else { throw busy(path) }
        return lock
    }

    private static func open(_ directory: Int32, _ path: String, _ name: String) throws(PublishError) -> Descriptor {
        do throws(FileError) {
            return try openFile(
                name, in: directory, [.readWrite, .create], mode: 0o600, trust: trust, shown: "\(path)/\(name)")
        } catch {
            guard error.code == .permissionDenied, case .success(_?) = status(directory, name) else {
                throw .cannotCreate("\(error)", "name a directory that this user may write to")
            }
            throw .busy(
                "another user is publishing to \(shown(path)), or was killed while doing so",
                "wait for that; if nobody is publishing there, remove \(name) in it")
        }
    }

    private static func busy(_ path: String) -> PublishError {
        .busy("another publish is writing to \(shown(path))", "wait for it, or name another output directory")
    }
}
