package import SyncModel
package import SyncSystem

/// A session's destination directory, held by descriptor: nothing in it is reached through a path that leaves it.
///
/// The program's own files are inside, in `.syncagent/`, mode 0700, so that staging is on the same file system. If the
/// destination is switched as a whole, this is one of its trees, and the program's files are beside the trees:
/// ``TreeHome``.
package final class Destination: Sendable {
    /// The path as the user gave it, absolute.
    package let path: String
    /// The directory itself.
    package var root: Int32 { rootDirectory.raw }
    /// The directory `.syncagent`; -1 if it is not open.
    package let state: Int32
    /// The path of ``state``, for messages, and for programs that read staged files.
    package let statePath: String
    /// The place of the lock: in ``state``, except for trees, which are locked together.
    private let lockPlace: (directory: SharedDescriptor?, path: String)
    /// The directory that all trees of a destination share; ``state`` if it has no trees.
    var common: Int32 { lockPlace.directory?.raw ?? -1 }
    /// Whether files are shared with other trees, so that none may be changed in place; true for another user's trees,
    /// of which that cannot be told.
    package let sharesFiles: Bool
    private let found = Mutex<[MountedPlace]>([])
    /// The destination as a whole, if this is that of a shard.
    package let whole: Destination?
    /// The lock of ``whole`` as its shards hold it: several at once, but no run on the whole meanwhile. It is released
    /// with the last reference to this object.
    private let wholeLock = Mutex<FileLock?>(nil)
    private let rootDirectory: Descriptor
    private let stateDirectory: SharedDescriptor?
    /// The identity of the directory, whatever its name is later; for trees, that of their common directory.
    package let device: UInt64
    package let inode: UInt64
    /// The umask for files and directories of a set. The program's own files have fixed modes.
    package let umask: Umask

    package static let stateName = ".syncagent"

    /// - Parameters:
    ///   - path: The path that readers use.
    ///   - state: The state directory; each tree has its own.
    ///   - home: The common directory of trees, where they are locked together; `nil` for a destination without trees.
    ///   - whole: The destination that this is a shard of.
    ///   - identity: The status of the directory; for a tree, that of the common directory.
    init(
        path: String, root: consuming Descriptor, state: consuming Descriptor?, statePath: String,
        lockedIn home: (SharedDescriptor, path: String)? = nil, identity: FileStatus, sharesFiles: Bool = false,
        umask: Umask, whole: Destination? = nil
    ) {
        (self.path, self.statePath, self.sharesFiles, self.umask) = (path, statePath, sharesFiles, umask)
        self.whole = whole
        rootDirectory = root
        stateDirectory = SharedDescriptor(state)
        self.state = stateDirectory?.raw ?? -1
        lockPlace = (home?.0 ?? stateDirectory, home?.path ?? statePath)
        (device, inode) = (identity.device, identity.inode)
    }

    /// Opens a destination. Creates it and its state directory if `create` is set.
    ///
    /// - Parameters:
    ///   - create: Whether to create missing directories. If not, a missing state directory leaves ``state`` at -1.
    ///   - usesState: Whether to open the state directory. If not, ``state`` is -1, whoever owns the directory.
    ///   - umask: The umask for new files and directories. The process's own umask applies, too; a process that works
    ///     for several clears it.
    ///   - shard: The name of a shard, whose state is separate from that of the others; `nil` for the whole.
    /// - Throws: ``FileError``; callers exit with 73. A state directory of another user, or one that others may
    ///   write to, is refused, since its contents determine which files are written and removed.
    package static func open(
        path: String, create: Bool, usesState: Bool = true, umask: Umask = CurrentProcess.umask, shard: String? = nil
    ) throws(FileError) -> Destination {
        let home: TreeHome?
        var sharesFiles = false
        do throws(FileError) { home = try TreeHome.find(path) } catch {
            // What another user's trees show can be read like any directory, unless links lead there.
            let isTheirs = error.isRefusal || error.code == .permissionDenied
            guard !usesState, isTheirs, !exists("\(path)/\(stateName)/\(TopLinks.now)") else { throw error }
            home = nil
            sharesFiles = true
        }
        if let home {
            if let shown = try home.shown(usesState: usesState, umask: umask) { return shown }
            guard create else {
                throw FileError(step: "open the destination", path: path, code: .noSuchFileOrDirectory)
            }
            return try home.anchor(umask: umask)
        }
        if let shard { return try openShard(shard, path: path, create: create, umask: umask) }
        return try openInPlace(
            path: path, create: create, usesState: usesState, sharesFiles: sharesFiles, umask: umask)
    }

    /// As ``open(path:create:usesState:umask:shard:)``, for a destination without trees.
    static func openInPlace(
        path: String, create: Bool, usesState: Bool = true, sharesFiles: Bool = false, umask: Umask
    ) throws(FileError) -> Destination {
        if create { try makeDirectories(path, umask: umask) }
        guard let root = openDirectory(path), let status = SyncSystem.status(root.raw) else {
            throw .last("open the destination", path)
        }
        let statePath = "\(path == "/" ? "" : path)/\(stateName)"
        guard usesState, let state = try openState(below: root.raw, statePath, create: create) else {
            return Destination(
                path: path, root: root, state: nil, statePath: statePath, identity: status, sharesFiles: sharesFiles,
                umask: umask)
        }
        if create { try makeMissingDirectory("staging", in: state.raw, mode: 0o700, shown: "\(statePath)/staging") }
        return Destination(path: path, root: root, state: state, statePath: statePath, identity: status, umask: umask)
    }

    /// In `.syncagent/`: the directory with the states of shards that are pulled beside each other.
    package static let shardsName = "shards"

    /// Opens the destination of one shard.
    private static func openShard(_ name: String, path: String, create: Bool, umask: Umask) throws(FileError)
        -> Destination
    {
        let whole = try openInPlace(path: path, create: create, umask: umask)
        guard whole.state >= 0, let root = openDirectory(path), let status = SyncSystem.status(root.raw) else {
            throw .last("open the destination", path)
        }
        let shown = "\(whole.statePath)/\(shardsName)"
        let shards = try openPrivateDirectory(shardsName, in: whole.state, create: create, shown: shown)
        let statePath = "\(shown)/\(name)"
        let state = try openPrivateDirectory(name, in: shards.raw, create: create, shown: statePath)
        if create { try makeMissingDirectory("staging", in: state.raw, mode: 0o700, shown: "\(statePath)/staging") }
        return Destination(
            path: path, root: root, state: state, statePath: statePath, identity: status, umask: umask,
            whole: whole)
    }

    /// The names of shards that have left state.
    package var shards: [String] {
        guard state >= 0, let folder = openDirectory(Self.shardsName, in: state, .noFollow) else { return [] }
        return (try? directoryEntries(folder.raw)) ?? []
    }

    /// What makes another project's files of those that are here, for messages.
    package var howToForget: String {
        let (here, end) = (escaped(path), "files stay, and correct ones are not fetched again")
        guard common != state else { return "remove \(here)/\(Self.stateName): \(end)" }
        guard lockPlace.path.hasSuffix("/\(Self.stateName)") else {
            return "move \(escaped(lockPlace.path)) away: \(end), but former revisions are lost"
        }
        return "copy what \(here)/\(Self.stateName)/\(TopLinks.now) leads to into a new directory, and pull into that"
    }

    /// Removes the state of shards, once the whole has taken it over.
    package func forgetShards() { if state >= 0 { removeTree(Self.shardsName, in: state) } }

    private static func openState(below root: Int32, _ shown: String, create: Bool) throws(FileError) -> Descriptor? {
        do throws(FileError) {
            return try openPrivateDirectory(stateName, in: root, create: create, shown: shown)
        } catch {
            if error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels {
                throw FileError(
                    step: "use", path: shown,
                    remark: "it is not a directory, and syncagent needs one of that name there; move it away",
                    trouble: .inTheWay)
            }
            if create || error.code != .noSuchFileOrDirectory { throw error }
            return nil
        }
    }

    /// Whether the path still leads to this directory. A directory that somebody else has put there has none of the
    /// files.
    package var isInPlace: Bool {
        SyncSystem.status(following: path).map { ($0.device, $0.inode) == (device, inode) } ?? false
    }

    /// Locks the destination for this process.
    ///
    /// - Returns: The lock, or `nil` when another process has it.
    package func lock() throws(FileError) -> FileLock? {
        let shown = lockPlace.path + "/lock"
        let place = lockPlace.directory?.raw ?? -1
        if let whole {
            let shown = whole.statePath + "/lock"
            let file = try openFile("lock", in: whole.state, [.readWrite, .create], trust: .state, shown: shown)
            guard let taken = try FileLock.take(file, path: shown, isShared: true) else { return nil }
            wholeLock.withLock { $0 = taken }
        }
        let file = try openFile("lock", in: place, [.readWrite, .create], trust: .state, shown: shown)
        guard let lock = try FileLock.take(file, path: shown) else { return nil }
        lock.sign("\(CurrentProcess.identifier)")
        return lock
    }

    /// The process that last wrote its number into the lock; for messages only.
    package func lockHolder() -> Int32? {
        guard let place = lockPlace.directory?.raw,
            let bytes = try? readFile("lock", in: place, trust: .state, limit: 16)
        else { return nil }
        return Int32(String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    /// Makes everything written so far here durable, with one syncfs(2) for the destination and one for each file
    /// system mounted below.
    package func synchronize() throws(FileError) {
        for (place, shown) in [(root, path)] + mounts.map({ ($0.root, $0.shown) }) {
            try FileError.check(synchronizeFileSystem(place), "sync", shown)
        }
    }

    /// The file systems mounted below, as found by ``findMounts(on:)``, in ``PathOrder``: a nested one follows its
    /// parent.
    package var mounts: [MountedPlace] { found.withLock { $0 } }

    /// Finds file systems that are mounted below, on the way to given paths.
    ///
    /// - Parameter walk: Calls its argument with each path, in ``PathOrder``.
    package func findMounts(on walk: ((UnsafeBufferPointer<UInt8>) -> Void) -> Void) {
        let directories = Directories(self)
        var identities: [[UInt8]: MountIdentity?] = [[]: MountIdentity(of: root)]
        var places: [MountedPlace] = []
        var last: [UInt8] = []
        walk { path in
            let parent = path.parentPath
            guard !parent.elementsEqual(last) else { return }
            last = Array(parent)
            var above: [UInt8] = []
            for end in (parent.indices.filter { parent[$0] == 0x2F } + [parent.count]) where end > 0 {
                let prefix = Array(parent[..<end])
                defer { above = prefix }
                if let known = identities[prefix] {
                    if known == nil { return }
                    continue
                }
                // A missing directory will be created on the file system above it.
                let opened = prefix.withUnsafeBufferPointer { try? directories.descriptor($0, create: false) }
                guard let raw = opened ?? nil, let identity = MountIdentity(of: raw) else {
                    identities[prefix] = .some(nil)
                    return
                }
                identities[prefix] = identity
                if let upper = identities[above], upper != identity,
                    let place = MountedPlace(prefix, opened: raw, below: self.path)
                {
                    places.append(place)
                }
            }
        }
        places.sort { PathOrder.precedes($0.path, $1.path) }
        found.withLock { [places] in $0 = places }
    }

    /// Finds the file systems on the way to everything in an index, and opens their existing staging directories.
    package func findMounts(on index: StatIndex) {
        findMounts { look in for position in 0..<index.count { index.withPath(position, look) } }
        for mount in mounts { try? mount.openStaging(create: false) }
    }

    /// The number of a path's file system: 0, or 1 more than its index in ``mounts``.
    package func fileSystem(of path: UnsafeBufferPointer<UInt8>) -> Int {
        let place = mounts.lastIndex { mount in
            mount.path.withUnsafeBufferPointer { PathOrder.isDirectory($0, of: path) }
        }
        return place.map { $0 + 1 } ?? 0
    }

    /// Whether names that differ only in case are the same here. Tested with the name of the state directory.
    ///
    /// Names are compared, not inode numbers: FUSE, and CIFS without the server's numbers, number each spelling
    /// separately.
    package var foldsCase: Bool {
        guard state >= 0 else { return false }
        if let home = lockPlace.directory?.raw, home != state { return Self.foldsCase(home, TreeHome.treesName) }
        return Self.foldsCase(root)
    }

    /// The same for a directory that contains a state directory.
    static func foldsCase(_ directory: Int32, _ stateName: String = stateName) -> Bool {
        let other = stateName.uppercased()
        guard case .success(.some) = SyncSystem.status(directory, other), let names = try? directoryEntries(directory)
        else { return false }
        // It finds a name that no entry has.
        return names.contains(stateName) && !names.contains(other)
    }

    /// - Parameter number: A number of ``fileSystem(of:)``.
    package func freeSpace(_ number: Int = 0) throws(FileError) -> FileSystemSpace {
        let (place, shown) = number == 0 ? (root, path) : (mounts[number - 1].root, mounts[number - 1].shown)
        guard let space = FileSystemSpace(of: place) else { throw .last("determine the free space of", shown) }
        return space
    }

    /// The free space where a destination is, or would be created. Creates nothing.
    ///
    /// - Throws: ``FileError`` with the reason why ``open(path:create:usesState:umask:shard:)`` would fail to create
    ///   it, as far as this can be known without trying.
    package static func prospect(_ path: String) throws(FileError) -> FileSystemSpace {
        var (place, found) = (path, status(following: path))
        while found == nil {
            let code = Errno.last
            try refuseDangling(place)
            guard code == .noSuchFileOrDirectory, let slash = place.lastIndex(of: "/"), place != "/" else {
                throw FileError(step: "create", path: path, code: code)
            }
            place = slash == place.startIndex ? "/" : String(place[..<slash])
            found = status(following: place)
        }
        let step = place == path ? "open the destination" : "create"
        guard found?.kind == .directory else { throw FileError(step: step, path: path, code: .notDirectory) }
        // In an existing destination, the state directory will be written to.
        let state = "\(place)/\(stateName)"
        let isFilled = place == path && exists(state)
        guard isPermitted(.change, isFilled ? state : place) else { throw .last(step, path) }
        guard let space = FileSystemSpace(at: place) else { throw .last("determine the free space of", path) }
        // Nothing can be created in /proc or /sys: they have no blocks.
        guard space.keepsFiles || isFilled else {
            throw FileError(step: step, path: path, code: .readOnlyFileSystem, remark: "nothing can be written there")
        }
        return space
    }

    /// Whether another process has locked the destination.
    package var isTaken: Bool {
        // Without the file it is not locked.
        guard let place = lockPlace.directory?.raw,
            let file = try? openFile("lock", in: place, .readWrite, trust: .state)
        else { return false }
        return FileLock.isTaken(file)
    }

    /// **Bytes** that an interrupted pull has left in staging.
    package var leftoverBytes: UInt64 {
        guard state >= 0, let staging = openDirectory("staging", in: state, .noFollow) else { return 0 }
        var bytes: UInt64 = 0
        for lane in (try? directoryEntries(staging.raw)) ?? [] {
            guard let directory = openDirectory(lane, in: staging.raw, .noFollow) else { continue }
            for name in (try? directoryEntries(directory.raw)) ?? [] {
                if case .success(let found?) = SyncSystem.status(directory.raw, name) { bytes &+= found.size }
            }
        }
        return bytes
    }
}

/// A file system mounted below a destination. A file can only be moved into place within one file system, so the top of
/// this one has a `.syncagent/` of its own, for staging.
package final class MountedPlace: Sendable {
    /// The path relative to the destination.
    package let path: [UInt8]
    /// The path for messages.
    package let shown: String
    /// The top directory.
    package var root: Int32 { top.raw }
    private let top: Descriptor
    private let staging = Mutex<SharedDescriptor?>(nil)

    /// - Parameter opened: The top directory, which the caller closes.
    init?(_ path: [UInt8], opened: Int32, below destination: String) {
        guard let top = openDirectory(".", in: opened) else { return nil }
        self.path = path
        self.top = top
        shown = "\(destination == "/" ? "" : destination)/\(String(decoding: path, as: UTF8.self))"
    }

    /// The staging directory; `nil` unless ``openStaging(create:)`` has opened it.
    var staged: Int32? { staging.withLock { $0?.raw } }

    /// Opens the staging directory.
    ///
    /// - Parameter create: Whether to create it if missing.
    package func openStaging(create: Bool) throws(FileError) {
        let shown = "\(shown)/\(Destination.stateName)"
        let state = try openPrivateDirectory(Destination.stateName, in: root, create: create, shown: shown)
        let opened = SharedDescriptor(
            try openPrivateDirectory("staging", in: state.raw, create: create, shown: "\(shown)/staging"))
        dropInheritance(opened.raw)
        staging.withLock { $0 = opened }
    }

    /// Why nothing can be staged there; `nil` if it can, as far as this can be known without trying.
    package var objection: Errno? {
        if FileSystemSpace(of: root)?.isReadOnly == true { return .readOnlyFileSystem }
        return isPermitted(.change, ".", in: root) ? nil : .last
    }

    /// Whether names that differ only in case are the same there; see ``Destination/foldsCase``.
    package var foldsCase: Bool { Destination.foldsCase(root) }
}
