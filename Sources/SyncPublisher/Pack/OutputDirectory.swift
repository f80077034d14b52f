import SyncContent
import SyncFiles
import SyncManifest
package import SyncModel
import SyncSystem

/// The output directory: one publisher at a time, temporary names, manifest last.
///
/// Every file is written under a temporary name, made durable, and renamed. A failed run removes its temporary files;
/// after a killed run, the next run removes them.
///
/// Others may be able to write to it. So everything in it is reached through open directories, never through a symbolic
/// link, and nothing is believed because of its name.
///
/// It can also stand for a store behind a network. Then only files on their way are on this machine, and a file that is
/// put in place here is put into the store at once, in the same order.
final class OutputDirectory {
    /// A folder of the published directory.
    enum Folder: String, CaseIterable {
        case top = "."
        case packs, manifests, channels, trust
        /// The files that shards leave for the join; no part of the set.
        case shards = ".publish-shards"

        /// A file's path from the published directory.
        func path(_ name: String) -> String { self == .top ? name : "\(rawValue)/\(name)" }
    }

    /// The folders that are open.
    private var folders: [Folder: SharedDescriptor] = [:]
    let path: String
    let isReadOnly: Bool
    /// The store that this directory stands for; `nil` for a directory that is published itself.
    let home: Home?
    private let lock: OutputLock?
    /// Whether a set is published in place: it may have directories of its own that are called as folders are, so only
    /// ``Folder/top`` is looked for.
    private(set) var isInPlace = false
    /// The lock of the shard that writes here; `nil` without one.
    private let shardLock: OutputLock?
    /// The shard that writes here, beside others; `nil` for a publish that is alone.
    private let shard: Shard?
    /// The number of the last temporary file. Each shard has a range of its own.
    private var temporaries: Int
    /// Packs that this run has placed; removed again if it fails.
    private var placed: [String] = []

    private static let prefix = ".publish-"
    private static let suffix = ".tmp"
    private static let trust = FileTrust(owner: .anyone, forbidden: 0, followsLinks: false)

    /// Opens the directory. For publishing it is created if missing, locked, and cleared of leftovers; for reading
    /// nothing is changed, and a missing one has no files. The path itself may be a link: the user named it.
    ///
    /// - Parameter shard: The shard that writes; others may write meanwhile.
    init(_ path: String, isReadOnly: Bool = false, shard: Shard? = nil) throws(PublishError) {
        (self.path, self.isReadOnly, home, self.shard) = (path, isReadOnly, nil, shard)
        temporaries = shard.map { Self.temporaries(of: $0).lowerBound } ?? 0
        guard !isReadOnly else {
            lock = nil
            shardLock = nil
            guard let top = SharedDescriptor(openDirectory(path)) else {
                let code = Errno.last
                // A directory that cannot be opened may have any files.
                guard code == .noSuchFileOrDirectory || code == .notDirectory else {
                    throw .cannotRead("cannot open \(shown(path)): \(code)", "check its permissions")
                }
                return
            }
            folders[.top] = top
            return
        }
        try Self.makeDirectories(path)
        guard let top = SharedDescriptor(openDirectory(path)) else {
            throw .cannotCreate(
                "cannot open the output directory \(shown(path)): \(errnoText)",
                "name a directory that this user may write to")
        }
        folders[.top] = top
        lock = try OutputLock(top, path: path, isShared: shard != nil)
        if let shard {
            shardLock = try Self.lock(shard, in: top, path)
        } else {
            shardLock = nil
        }
        for folder in Folder.allCases {
            let raw = descriptor(folder)
            if raw >= 0 { removeTemporaries(raw) }
        }
    }

    /// Whether other publishers are locked out. A store has no lock: an object is replaced there only if it is as it
    /// was seen.
    var isLocked: Bool { home == nil }

    /// Stands for a store.
    init(_ home: Home) {
        (path, isReadOnly, self.home) = (home.shown, home.isReadOnly, home)
        lock = nil
        shardLock = nil
        (shard, temporaries) = (nil, 0)
    }

    /// The numbers of a shard's temporary files.
    private static func temporaries(of shard: Shard) -> Range<Int> {
        let first = (shard.count * (Shard.most + 1) + shard.number + 1) * 1_000_000_000
        return first..<(first + 1_000_000_000)
    }

    private static func lock(_ shard: Shard, in top: SharedDescriptor, _ path: String) throws(PublishError)
        -> OutputLock
    {
        let name = Folder.shards.rawValue
        _ = makeDirectory(name, in: top.raw)
        guard let folder = SharedDescriptor(openDirectory(name, in: top.raw, .noFollow)) else {
            throw .cannotCreate(
                "cannot open \(shown(path))/\(name): \(Errno.last)",
                "it has to be a directory that this user may write to; remove anything else of that name")
        }
        do throws(PublishError) {
            return try OutputLock(folder, path: "\(path)/\(name)", name: "\(shard.name).lock")
        } catch {
            guard error.exitStatus == .busy else { throw error }
            throw .busy(
                "another process is publishing shard \(shard.text) to \(shown(path))",
                "wait for it; it does the same work")
        }
    }

    /// Refuses folders that are links: their files would be somewhere else.
    func checkFolders() throws(PublishError) { for folder in Folder.allCases { _ = try found(folder) } }

    /// Looks for nothing but ``Folder/top`` from now on, since a set is published in place.
    ///
    /// - Throws: ``PublishError`` where releases are kept for channels: their revisions would be used again.
    func beginInPlace() throws(PublishError) {
        // A folder that cannot be used is none, and may be a link of the set.
        let revisions = (try? keptRevisions()) ?? []
        let isKept = revisions.reversed().contains { revision in
            (try? manifestText(.channels, "\(revision).json.zst")).map(Self.isManifest) == true
        }
        guard !isKept else {
            throw .usage(
                "\(shown(path)) has channels, and none could point at a set that is published in place",
                "name another output directory")
        }
        isInPlace = true
    }

    /// Opens a folder; `nil` if it does not exist.
    private func found(_ folder: Folder) throws(PublishError) -> SharedDescriptor? {
        guard folder == .top || !isInPlace else { return nil }
        if let open = folders[folder] { return open }
        guard let top = folders[.top] else { return nil }
        if let opened = SharedDescriptor(openDirectory(folder.rawValue, in: top.raw, .noFollow)) {
            folders[folder] = opened
            return opened
        }
        let code = Errno.last
        try refuseLink(.top, folder.rawValue)
        guard code == .noSuchFileOrDirectory || code == .notDirectory else {
            throw .cannotRead(
                "cannot open \(shown(display(folder))): \(code)",
                "check its permissions; the published set is unchanged")
        }
        return nil
    }

    /// Refuses an entry that is a symbolic link: it is no part of the set.
    func refuseLink(_ folder: Folder, _ name: String) throws(PublishError) {
        guard case .success(let found?) = status(descriptor(folder), name), found.kind == .link else { return }
        throw .refused(
            "\(shown(display(folder, name))) is a symbolic link, which may lead anywhere",
            "put what it leads to in its place, or mount a directory there with mount --bind")
    }

    /// The folder to look for a file in; `nil` if it is missing, or a link, below which nothing is part of the set.
    private func usable(_ folder: Folder) throws(PublishError) -> SharedDescriptor? {
        do throws(PublishError) { return try found(folder) } catch {
            guard error.exitStatus == .refused else { throw error }
            return nil
        }
    }

    /// -1, which every call refuses, for a folder that is missing or cannot be used.
    private func descriptor(_ folder: Folder) -> Int32 { (try? found(folder))?.raw ?? -1 }

    /// Opens a folder, and creates it if it is missing.
    private func made(_ folder: Folder) throws(PublishError) -> Int32 {
        if let code = makeDirectory(folder.rawValue, in: descriptor(.top)), code != .fileExists {
            throw .cannotCreate(
                "cannot create \(shown(display(folder))): \(code)", "make the output directory writable")
        }
        guard let found = try found(folder) else {
            throw .cannotCreate(
                "\(shown(display(folder))) is not a directory", "remove it, or name another output directory")
        }
        return found.raw
    }

    /// Creates folders, if they are missing.
    func make(_ folders: Folder...) throws(PublishError) {
        guard !isReadOnly, home == nil else { return }
        for folder in folders { _ = try made(folder) }
    }

    // MARK: Signatures

    /// Gives a file a second name, as ``adopt(_:asPack:)`` does.
    ///
    /// - Parameter isReplaced: Whether an existing file of the name is replaced, atomically; otherwise it stays.
    func give(
        _ source: String, from: Folder = .top, _ name: String, in folder: Folder, replacing isReplaced: Bool = true
    ) throws(PublishError) {
        if let home {
            let limit = ManifestLimits.standard.manifestBytes
            if !isReplaced, home.object(folder, name) != nil { return }
            let bytes: [UInt8]
            do throws(FileError) { bytes = try contents(from, source, limit: limit) } catch {
                try home.rethrow()
                throw .writing(display(folder, name), "write", code: error.code)
            }
            return try home.put(bytes, folder, name, replacing: isReplaced)
        }
        let directory = try made(folder)
        if !isReplaced, try object(folder, name) != nil { return }
        do throws(FileError) {
            let file = try openFile(source, in: descriptor(from), trust: Self.trust)
            let temporary = "\(Self.prefix)0\(Self.suffix)"
            removeFile(temporary, in: directory)
            if isOurs(file.raw), addName(temporary, in: directory, toOpen: file.raw) == nil {
                if let code = Self.rename(file.raw, temporary, to: name, in: directory) {
                    throw FileError(step: "rename to", path: name, code: code)
                }
                // If both are names of one file, rename(2) does nothing.
                removeFile(temporary, in: directory)
            } else {
                try replace(name, with: try readFile(file.raw, limit: .max, shown: source), in: directory)
            }
        } catch { throw .writing(display(folder, name), "write", code: error.code) }
        if let code = synchronizeDirectory(directory) { throw .writing(display(folder), "sync", code: code) }
    }

    /// Whether a file may get a second name: this user owns it, and it is not world-writable.
    private func isOurs(_ file: Int32) -> Bool {
        status(file).map { $0.user == CurrentProcess.user && $0.permissions & 0o002 == 0 } == true
    }

    /// Puts a small file into a folder, unless it is there with the same bytes.
    ///
    /// - Parameter isOwn: Whether the file is for ``readOwn(_:_:limit:)``; it is written in any case then, and other
    ///   shards may be at work.
    func put(_ bytes: [UInt8], _ name: String, in folder: Folder, isOwn: Bool = false) throws(PublishError) {
        // A file of another length is not the same, and is not read. A file that cannot be read is replaced, too.
        if !isOwn, try size(folder, name) == UInt64(bytes.count),
            (try? read(folder, name, limit: bytes.count)) == bytes
        {
            return
        }
        if let home { return try home.put(bytes, folder, name) }
        let directory = try made(folder)
        do throws(FileError) { try replace(name, with: bytes, in: directory, isOwn: isOwn) } catch {
            throw .writing(display(folder, name), error.step, code: error.code)
        }
        if let code = synchronizeDirectory(directory) { throw .writing(display(folder), "sync", code: code) }
    }

    /// Writes a file under a temporary name, which the next publish removes if left behind, and renames it.
    private func replace(_ name: String, with bytes: [UInt8], in directory: Int32, isOwn: Bool = false)
        throws(FileError)
    {
        let mode: FileMode = isOwn ? 0o600 : 0o644
        let temporary = "\(Self.prefix)\(isOwn ? temporaries : 0)\(Self.suffix)"
        let file = try createFile(temporary, in: directory, .writeOnly, mode: mode)
        if let code = bytes.withUnsafeBytes({ writeAll($0, to: file.raw, at: 0) }) {
            throw FileError(step: "write", path: name, code: code)
        }
        if let code = setMode(file.raw, mode) ?? synchronize(file.raw) {
            throw FileError(step: "sync", path: name, code: code)
        }
        if let code = Self.rename(file.raw, temporary, to: name, in: directory) {
            throw FileError(step: "replace", path: name, code: code)
        }
    }

    /// Removes a file from a folder, if it exists.
    func remove(_ name: String, from folder: Folder) throws(PublishError) { try remove([name], from: folder) }

    func remove(_ names: [String], from folder: Folder) throws(PublishError) {
        if let home { return try home.remove(names, from: folder) }
        guard let directory = try found(folder) else { return }
        for name in names {
            if let code = removeFile(name, in: directory.raw), code != .noSuchFileOrDirectory {
                throw .writing(display(folder, name), "remove", code: code)
            }
        }
        try syncNames(folder)
    }

    /// A whole file.
    ///
    /// - Parameter limit: Most **bytes** it may have.
    func contents(_ folder: Folder, _ name: String, limit: Int) throws(FileError) -> [UInt8] {
        if let home {
            let bytes: [UInt8]?
            do throws(PublishError) { bytes = try home.contents(folder, name, limit: limit) } catch {
                throw FileError(step: "read", path: display(folder, name), code: .ioError)
            }
            guard let bytes else {
                throw FileError(step: "read", path: display(folder, name), code: .noSuchFileOrDirectory)
            }
            return bytes
        }
        return try readFile(
            name, in: descriptor(folder), trust: Self.trust, limit: limit, shown: display(folder, name))
    }

    /// The names in `trust/`.
    func statementNames() throws(PublishError) -> [String] { try names(in: .trust) ?? [] }

    /// The names in a folder; `nil` if there is no such folder.
    func names(in folder: Folder) throws(PublishError) -> [String]? {
        if let home {
            let names = Array(try home.files(folder).keys)
            return names.isEmpty ? nil : names
        }
        guard let directory = try found(folder) else { return nil }
        do throws(Errno) { return try directoryEntries(directory.raw) } catch {
            throw .cannotRead(
                "cannot read \(shown(display(folder))): \(error)",
                "check its permissions; the published set is unchanged")
        }
    }

    // MARK: Channels

    /// Whether releases are kept.
    func hasChannels() throws(PublishError) -> Bool { try names(in: .channels) != nil }

    func keptRevisions() throws(PublishError) -> [UInt64] {
        try (names(in: .channels) ?? []).compactMap { name in
            name.hasSuffix(".json.zst") ? UInt64(name.dropLast(9)) : nil
        }.sorted()
    }

    /// Puts both forms of the newest manifest in place.
    func putManifest(_ text: [UInt8], frame: [UInt8]) throws(PublishError) {
        if let home { return try home.putManifest(text, frame: frame) }
        do throws(PublishError) {
            // Both are written before either has its name: a full disk changes neither.
            let files = [
                (try makeTemporary(.top), frame, "manifest.json.zst"), (try makeTemporary(.top), text, "manifest.json"),
            ]
            for (file, bytes, name) in files {
                if let code = bytes.withUnsafeBytes({ writeAll($0, to: file.descriptor.raw, at: 0) })
                    ?? setMode(file.descriptor.raw, 0o644)
                {
                    throw .writing(display(.top, name), "write", code: code)
                }
                try sync(file)
            }
            for (file, _, name) in files { try rename(file, to: name) }
        } catch {
            removeTemporaries(descriptor(.top))
            throw error
        }
        try syncNames(.top)
    }

    // MARK: Files

    /// A folder's path, or a file's, for people.
    func display(_ folder: Folder, _ name: String? = nil) -> String {
        name.map { "\(path)/\(folder.path($0))" } ?? (folder == .top ? path : "\(path)/\(folder.rawValue)")
    }

    /// A new file under a temporary name.
    func makeTemporary(_ folder: Folder) throws(PublishError) -> TemporaryFile {
        temporaries += 1
        let name = "\(Self.prefix)\(temporaries)\(Self.suffix)"
        let flags = OpenFlags.newFile.union(.readWrite)
        if let home {
            return TemporaryFile(descriptor: try home.temporaryFile(), folder: folder, name: "", shown: display(folder))
        }
        let file = Descriptor(opening: name, in: descriptor(folder), flags, mode: 0o666)
        guard let file = SharedDescriptor(file) else { throw .writing(display(folder, name), "create", code: .last) }
        return TemporaryFile(descriptor: file, folder: folder, name: name, shown: display(folder, name))
    }

    /// Makes a temporary file durable and renames it to a pack's name. fsync(2), rename(2).
    func placePack(_ file: TemporaryFile, as digest: SHA256Digest) throws(PublishError) {
        let name = digest.packName
        if let home {
            guard let size = status(file.descriptor.raw)?.size else {
                throw .writing(file.shown, "look at", code: .last)
            }
            return try home.send(digest, size, file.descriptor)
        }
        try sync(file)
        let isNew = try size(.packs, name) == nil
        try rename(file, to: name)
        if isNew { notePlaced(name) }
    }

    /// Notes a pack that is removed if the run fails. A shard's packs stay: another shard may have found one by now,
    /// and the next attempt needs them again.
    private func notePlaced(_ name: String) { if shard == nil { placed.append(name) } }

    /// A whole file of this user, to which nobody else may write; `nil` if there is none, or it is longer than it may
    /// be. In a store everybody who may write to it is trusted alike.
    ///
    /// - Parameter limit: Most **bytes** it may have.
    /// - Throws: ``PublishError`` for somebody else's, and where it may be there, and cannot be read.
    func readOwn(_ folder: Folder, _ name: String, limit: Int) throws(PublishError) -> [UInt8]? {
        guard home == nil else { return try read(folder, name, limit: limit) }
        guard let directory = try found(folder) else { return nil }
        let path = display(folder, name)
        let file: Descriptor
        do throws(FileError) { file = try openFile(name, in: directory.raw, trust: .state, shown: path) } catch {
            guard !error.isMissing else { return nil }
            throw .refused(
                "\(shown(path)) cannot be used: \(error.reason)",
                "let one user publish all shards, and join them")
        }
        do throws(FileError) { return try readFile(file.raw, limit: limit, shown: path) } catch {
            guard error.code == .fileTooLarge || error.isRefusal else { throw unread(folder, name, error) }
            return nil
        }
    }

    /// Makes both forms of a manifest durable and puts them in place, the plain one last.
    ///
    /// From the first rename on the new packs stay even if the run fails: a manifest names them.
    ///
    /// - Parameters:
    ///   - revision: The number under which the manifest is kept, too; `nil` where releases are not kept.
    ///   - isNewest: Whether the manifest becomes `manifest.json`.
    func placeManifest(_ text: TemporaryFile, compressed: TemporaryFile, keeping revision: UInt64?, isNewest: Bool)
        throws(PublishError)
    {
        if let home {
            return try placeManifest(text, compressed: compressed, keeping: revision, isNewest: isNewest, at: home)
        }
        try sync(text)
        try sync(compressed)
        if let revision {
            // This comes first, since it reserves the revision.
            try give(compressed.name, "\(revision).json.zst", in: .channels)
            placed = []
        }
        if isNewest {
            try rename(compressed, to: "manifest.json.zst")
            placed = []
            try rename(text, to: "manifest.json")
        } else {
            discard(compressed)
            discard(text)
        }
        try syncNames(.top)
    }

    /// Puts a manifest in place at a store. The name by its digest comes first, so that the manifest is kept even if a
    /// later step fails.
    private func placeManifest(
        _ text: TemporaryFile, compressed: TemporaryFile, keeping revision: UInt64?, isNewest: Bool, at home: Home
    ) throws(PublishError) {
        let limit = ManifestLimits.standard.manifestBytes
        let plain: [UInt8]
        let frame: [UInt8]
        do throws(FileError) {
            plain = try readFile(text.descriptor.raw, limit: limit, shown: text.shown)
            frame = try readFile(compressed.descriptor.raw, limit: limit, shown: compressed.shown)
        } catch { throw .writing(text.shown, "read back", code: error.code) }
        let digest = try calling { try sha256(plain) }
        try ReleaseMarks.take(home.endangered, at: home, self, now: home.now())
        try home.put(frame, .manifests, "\(digest).json.zst", replacing: false)
        if let revision { try home.put(frame, .channels, "\(revision).json.zst", replacing: false) }
        if isNewest { try home.putManifest(plain, frame: frame) }
    }

    private func sync(_ file: TemporaryFile) throws(PublishError) {
        if let code = synchronize(file.descriptor.raw) { throw .writing(file.shown, "sync", code: code) }
    }

    private func rename(_ file: TemporaryFile, to name: String) throws(PublishError) {
        let directory = descriptor(file.folder)
        if let code = Self.rename(file.descriptor.raw, file.name, to: name, in: directory) {
            throw .writing(display(file.folder, name), "rename to", code: code)
        }
    }

    /// Renames an open file. An error does not always mean that nothing was done: over NFS, the answer to a request that
    /// succeeded can be lost.
    ///
    /// - Returns: Why it does not have the new name.
    private static func rename(_ file: Int32, _ former: String, to name: String, in directory: Int32) -> Errno? {
        guard let code = renameEntry(former, in: directory, to: name, in: directory) else { return nil }
        guard case .success(let found?) = status(directory, name), let own = status(file),
            (found.device, found.inode) == (own.device, own.inode)
        else { return code }
        return nil
    }

    func discard(_ file: TemporaryFile) {
        guard home == nil else { return }
        removeFile(file.name, in: descriptor(file.folder))
    }

    /// Makes the names in a folder durable.
    func syncNames(_ folder: Folder) throws(PublishError) {
        guard home == nil else { return }
        guard let directory = try found(folder) else { return }
        if let code = synchronizeDirectory(directory.raw) { throw .writing(display(folder), "sync", code: code) }
    }

    /// Removes all temporary files and new packs after a failure.
    func clear() {
        guard !isReadOnly, home == nil else { return }
        removeTemporaries(descriptor(.top))
        removeTemporaries(descriptor(.packs))
        for name in placed { removeFile(name, in: descriptor(.packs)) }
        placed = []
    }

    /// Length of a regular file in **bytes**; `nil` if there is none.
    func size(_ folder: Folder, _ name: String) throws(PublishError) -> UInt64? { try object(folder, name)?.size }

    /// The size and tag of a file; `nil` if there is none. Two names of one file have one tag, as may two files with
    /// the same contents.
    ///
    /// - Throws: ``PublishError`` if that is unknown: if the file counted as missing, the publish would start a new set
    ///   and lose the published one.
    func object(_ folder: Folder, _ name: String) throws(PublishError) -> StoredObject? {
        if let home { return try home.files(folder)[name] }
        guard let directory = try found(folder) else { return nil }
        switch status(directory.raw, name) {
        case .success(let found):
            guard let found, found.kind == .file else { return nil }
            return StoredObject(size: found.size, tag: "\(found.device):\(found.inode)")
        case .failure(let code):
            throw .cannotRead(
                "cannot look at \(shown(display(folder, name))): \(code)",
                "check its permissions; the published set is unchanged")
        }
    }

    /// Whether a pack is on this machine, as far as is known.
    func hasHere(pack: SHA256Digest) -> Bool { home == nil && (try? size(.packs, pack.packName)) != nil }

    /// Opens a whole pack, which is fetched if it is in a store; `nil` if there is none, or its content is not what its
    /// name says.
    func openWhole(pack: SHA256Digest) throws(PublishError) -> SharedDescriptor? {
        let name = pack.packName
        guard let home else {
            guard let file = try open(.packs, name) else { return nil }
            let digest = try Self.digest(file.raw, shown: display(.packs, name))
            return digest == pack ? SharedDescriptor(file) : nil
        }
        guard home.object(.packs, name) != nil else { return nil }
        let copy = try makeTemporary(.packs)
        var failure: Errno?
        let digest = try home.digest(.packs, name) { piece, offset in
            failure = writeAll(piece, to: copy.descriptor.raw, at: offset)
            return failure == nil
        }
        if let failure { throw .writing(copy.shown, "write", code: failure) }
        return digest == pack ? copy.descriptor : nil
    }

    /// Opens a file for reading; `nil` if there is none, if the name belongs to something else, or if this user may not
    /// read a pack, which is as good as none.
    ///
    /// - Throws: ``PublishError`` where the file may exist, and the system cannot open it.
    func open(_ folder: Folder, _ name: String) throws(PublishError) -> Descriptor? {
        guard let directory = try usable(folder) else { return nil }
        do throws(FileError) { return try openFile(name, in: directory.raw, trust: Self.trust) } catch {
            let isClosed = folder == .packs && error.code == .permissionDenied
            guard error.isMissing || error.isRefusal || isClosed else { throw unread(folder, name, error) }
            return nil
        }
    }

    /// A whole file; `nil` if there is none, if the name belongs to something else, or if the file is longer than
    /// `limit` **bytes**.
    ///
    /// - Throws: ``PublishError`` where the file may exist, and cannot be read.
    func read(_ folder: Folder, _ name: String, limit: Int) throws(PublishError) -> [UInt8]? {
        if let home {
            do throws(PublishError) { return try home.contents(folder, name, limit: limit) } catch {
                // The file is of no use, or there is none.
                guard error.exitStatus == .dataInvalid || error.exitStatus == .noInput else { throw error }
                return nil
            }
        }
        guard let file = try open(folder, name) else { return nil }
        do throws(FileError) { return try readFile(file.raw, limit: limit, shown: display(folder, name)) } catch {
            guard error.code == .fileTooLarge || error.isRefusal else { throw unread(folder, name, error) }
            return nil
        }
    }

    private func unread(_ folder: Folder, _ name: String, _ error: FileError) -> PublishError {
        .unread(display(folder, name), error.step, code: error.code)
    }

    /// SHA-256 of a file; `nil` if there is none, or if it is no pack and longer than a manifest may be.
    func digest(_ folder: Folder, _ name: String) throws(PublishError) -> SHA256Digest? {
        if let home { return try home.digest(folder, name) }
        guard let file = try open(folder, name) else { return nil }
        let path = display(folder, name)
        guard let size = status(file.raw)?.size else { throw .unread(path, "look at", code: .last) }
        guard folder == .packs || size <= UInt64(ManifestLimits.standard.manifestBytes) else { return nil }
        return try Self.digest(file.raw, shown: path)
    }

    /// SHA-256 of an open file; `nil` if it has become shorter meanwhile, or if `taking`, which gets each piece,
    /// returns `false`.
    ///
    /// - Throws: ``PublishError`` where the file cannot be read, which says nothing about its content.
    static func digest(
        _ file: Int32, shown path: String, taking: (UnsafeRawBufferPointer, UInt64) -> Bool = { _, _ in true }
    ) throws(PublishError) -> SHA256Digest? {
        guard let size = status(file)?.size else { throw .unread(path, "look at", code: .last) }
        var hasher = try calling { try SHA256Hasher() }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { piece.deallocate() }
        var failure: Errno?
        let digest = sha256(of: file, 0..<size, with: &hasher, through: piece, taking: taking, failed: { failure = $0 })
        if let failure { throw .unread(path, "read", code: failure) }
        return digest
    }

    /// Takes over a pack from elsewhere, once its bytes are hashed: as a hard link to the open file, if this user owns
    /// it and it is on the same file system, else as a copy. The link is not made by name, which may lead to another
    /// file by now.
    ///
    /// - Returns: Whether the pack has this digest; it is in the output then, unless that is read-only.
    func adopt(_ file: Int32, asPack digest: SHA256Digest) throws(PublishError) -> Bool {
        let name = digest.packName
        let path = Folder.packs.path(name)
        guard !isReadOnly else { return try Self.digest(file, shown: path) == digest }
        let packs = home == nil ? try made(.packs) : -1
        if home == nil, isOurs(file), status(file)?.device == status(packs)?.device {
            guard try Self.digest(file, shown: path) == digest else { return false }
            if addName(name, in: packs, toOpen: file) == nil {
                notePlaced(name)
                return true
            }
        }
        let copy = try makeTemporary(.packs)
        var failure: Errno?
        let found = try Self.digest(file, shown: path) { piece, offset in
            failure = writeAll(piece, to: copy.descriptor.raw, at: offset)
            return failure == nil
        }
        if let failure { throw .writing(copy.shown, "write", code: failure) }
        guard found == digest else {
            discard(copy)
            return false
        }
        try placePack(copy, as: digest)
        return true
    }

    private func removeTemporaries(_ directory: Int32) {
        // Only exact matches: in a set published in place, other files may have similar names.
        for name in (try? directoryEntries(directory)) ?? []
        where name.hasPrefix(Self.prefix) && name.hasSuffix(Self.suffix)
            && isOwnTemporary(Int(name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)))
        { removeFile(name, in: directory) }
    }

    /// Whether a temporary file may be removed: a shard removes only its own, since other shards may be at work.
    private func isOwnTemporary(_ number: Int?) -> Bool {
        guard let number else { return false }
        return shard.map { Self.temporaries(of: $0).contains(number) } ?? true
    }

    private static func makeDirectories(_ path: String) throws(PublishError) {
        do throws(FileError) { try SyncSystem.makeDirectories(path) } catch {
            throw .cannotCreate(
                "cannot create \(shown(error.path)): \(error.reason)", "name a directory that this user may write to")
        }
    }
}

extension SHA256Digest {
    /// The file of the pack with this digest, in `packs/`.
    package var packName: String { hex + ".pack" }
}

/// A file without a final name.
struct TemporaryFile {
    let descriptor: SharedDescriptor
    let folder: OutputDirectory.Folder
    let name: String
    let shown: String
}
