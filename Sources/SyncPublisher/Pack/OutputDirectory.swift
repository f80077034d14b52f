import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The output directory: one publisher at a time, temporary names, manifest last.
///
/// Every file is written under a temporary name, made durable, and renamed. A failed run removes its temporary files,
/// as does the run after one that was killed.
final class OutputDirectory {
    private let top: SharedDescriptor?
    private var packs: SharedDescriptor?
    let path: String
    private let access: Access
    private var temporaries = 0
    /// Packs that this run has placed; removed again if it fails.
    private var placed: [String] = []

    private static let prefix = ".publish-"
    private static let suffix = ".tmp"
    private static let trust = FileTrust(owner: .anyone, forbidden: 0, followsLinks: false)

    enum Access { case publishing, reading }

    /// Opens the directory. For publishing it is created if missing, locked, and cleared of leftovers; for reading
    /// nothing is changed, and a missing one has no files.
    init(_ path: String, for access: Access = .publishing) throws(PublishError) {
        self.path = path
        self.access = access
        guard access == .publishing else {
            top = SharedDescriptor(openDirectory(path))
            packs = SharedDescriptor(openDirectory(path + "/packs"))
            return
        }
        try Self.makeDirectories(path)
        let top = SharedDescriptor(try Self.open(path, path))
        self.top = top
        // Held until closed. flock(2): fcntl(2) cannot lock a directory. Where a file system has no locks we go on;
        // only another's lock stops us.
        guard lockWhole(top.raw) != .resourceTemporarilyUnavailable else {
            throw PublishError(
                .busy,
                "another publish is writing to \(shown(path))",
                "wait for it, or name another output directory"
            )
        }
        packs = SharedDescriptor(openDirectory("packs", in: top.raw))
        removeTemporaries(top.raw)
        if let packs { removeTemporaries(packs.raw) }
        for name in ["manifests", "channels", "trust"] {
            if let folder = openDirectory(name, in: top.raw) { removeTemporaries(folder.raw) }
        }
    }

    /// Unlocked explicitly: a program that is being started also has the descriptor, until execve(2).
    deinit {
        if access == .publishing, let top { unlockWhole(top.raw) }
    }

    /// Creates `packs/`, if it is missing.
    func makePacks() throws(PublishError) {
        guard packs == nil, access == .publishing else { return }
        let directory = descriptor(.top)
        if let code = makeDirectory("packs", in: directory), code != .fileExists {
            throw .cannotCreate(
                "cannot create \(shown(path))/packs: \(code)",
                "make the output directory writable"
            )
        }
        packs = SharedDescriptor(try Self.open("packs", in: directory, path + "/packs"))
    }

    /// Where a file stands.
    enum Folder { case top, packs }

    /// -1, which every call refuses, for a missing folder.
    private func descriptor(_ folder: Folder) -> Int32 { (folder == .top ? top : packs)?.raw ?? -1 }

    // MARK: Signatures

    /// Gives a file a second name: a hard link if possible, else a copy. linkat(2)
    ///
    /// - Parameter isReplaced: Whether what has the name gives way, from one moment to the next.
    func give(_ source: String, _ name: String, in folder: String, replacing isReplaced: Bool = true)
        throws(PublishError)
    {
        let directory = try subdirectory(folder)
        guard isReplaced || !exists(name, in: directory.raw) else { return }
        let temporary = "\(Self.prefix)0\(Self.suffix)"
        removeFile(temporary, in: directory.raw)
        if addName(temporary, in: directory.raw, to: source, in: descriptor(.top), followsLinks: false) == nil
        {
            if let code = renameEntry(temporary, in: directory.raw, to: name, in: directory.raw) {
                throw .writing("\(path)/\(folder)/\(name)", "rename to", code: code)
            }
            // If both are names of one file, rename(2) does nothing.
            removeFile(temporary, in: directory.raw)
        } else {
            // A file system without links.
            do throws(FileError) {
                let bytes = try readFile(source, in: descriptor(.top), trust: Self.trust, limit: .max)
                try replace(name, with: bytes, in: directory.raw)
            } catch {
                throw .writing("\(path)/\(folder)/\(name)", "write", code: error.code)
            }
        }
        if let code = synchronize(directory.raw) { throw .writing("\(path)/\(folder)", "sync", code: code) }
    }

    /// Puts a small file into a folder, if it is not there.
    func put(_ bytes: [UInt8], _ name: String, in folder: String) throws(PublishError) {
        guard read("\(folder)/\(name)", limit: bytes.count) != bytes else { return }
        let directory = try subdirectory(folder)
        do throws(FileError) {
            try replace(name, with: bytes, in: directory.raw)
        } catch {
            throw .writing("\(path)/\(folder)/\(name)", error.step, code: error.code)
        }
        if let code = synchronize(directory.raw) { throw .writing("\(path)/\(folder)", "sync", code: code) }
    }

    /// Writes a file under a temporary name, which the next publish removes if left behind, and renames it.
    private func replace(_ name: String, with bytes: [UInt8], in directory: Int32) throws(FileError) {
        let temporary = "\(Self.prefix)0\(Self.suffix)"
        let file = try createFile(temporary, in: directory, .writeOnly, mode: 0o644)
        if let code = bytes.withUnsafeBytes({ writeAll($0, to: file.raw, at: 0) }) {
            throw FileError(step: "write", path: name, code: code)
        }
        if let code = setMode(file.raw, 0o644) ?? synchronize(file.raw) {
            throw FileError(step: "sync", path: name, code: code)
        }
        if let code = renameEntry(temporary, in: directory, to: name, in: directory) {
            throw FileError(step: "replace", path: name, code: code)
        }
    }

    /// Removes a file from a folder, if it exists.
    func remove(_ name: String, from folder: String) throws(PublishError) {
        let directory = try subdirectory(folder)
        if let code = removeFile(name, in: directory.raw), code != .noSuchFileOrDirectory {
            throw .writing("\(path)/\(folder)/\(name)", "remove", code: code)
        }
        if let code = synchronize(directory.raw) { throw .writing("\(path)/\(folder)", "sync", code: code) }
    }

    /// A small file; `nil` if there is none that can be read.
    func read(_ name: String, limit: Int) -> [UInt8]? {
        try? readFile(name, in: descriptor(.top), trust: Self.trust, limit: limit)
    }

    /// What a zstd frame holds; `nil` if it cannot be read.
    func text(ofFrame name: String) -> [UInt8]? {
        let limit = ManifestLimits.standard.manifestBytes
        return read(name, limit: limit).flatMap { frame in
            frame.withUnsafeBytes { try? decodeZstd($0, limit: limit) }
        }
    }

    /// What is in `trust/`.
    func statementNames() throws(PublishError) -> [String] { try names(in: "trust") ?? [] }

    /// What is in a directory of the set; `nil` if there is none.
    private func names(in directory: String) throws(PublishError) -> [String]? {
        do throws(Errno) { return try directoryEntries("\(path)/\(directory)") } catch {
            throw .cannotRead(
                "cannot read \(shown(path))/\(directory): \(error)",
                "check its permissions; the published set is unchanged"
            )
        }
    }

    // MARK: Channels

    /// Whether releases are kept.
    func hasChannels() throws(PublishError) -> Bool { try names(in: "channels") != nil }

    func keptRevisions() throws(PublishError) -> [UInt64] {
        try (names(in: "channels") ?? []).compactMap { name in
            name.hasSuffix(".json.zst") ? UInt64(name.dropLast(9)) : nil
        }.sorted()
    }

    /// Replaces `manifest.json`, after its frame.
    func replaceManifest(with text: [UInt8], from frame: String) throws(PublishError) {
        let file = try makeTemporary(.top)
        if let code = text.withUnsafeBytes({ writeAll($0, to: file.descriptor.raw, at: 0) }) {
            throw .writing(file.shown, "write", code: code)
        }
        try sync(file)
        try give(frame, "manifest.json.zst", in: ".")
        try rename(file, to: "manifest.json")
        try syncNames(.top)
    }

    private func subdirectory(_ name: String) throws(PublishError) -> Descriptor {
        if let code = makeDirectory(name, in: descriptor(.top)), code != .fileExists {
            throw .writing("\(path)/\(name)", "create", code: code)
        }
        return try Self.open(name, in: descriptor(.top), "\(path)/\(name)")
    }

    // MARK: Files

    private func display(_ folder: Folder, _ name: String) -> String {
        folder == .top ? "\(path)/\(name)" : "\(path)/packs/\(name)"
    }

    /// A new file under a temporary name.
    func makeTemporary(_ folder: Folder) throws(PublishError) -> TemporaryFile {
        temporaries += 1
        let name = "\(Self.prefix)\(temporaries)\(Self.suffix)"
        let flags = OpenFlags.newFile.union(.readWrite)
        let file = Descriptor(opening: name, in: descriptor(folder), flags, mode: 0o666)
        guard let file = SharedDescriptor(file) else {
            throw .writing(display(folder, name), "create", code: .last)
        }
        return TemporaryFile(descriptor: file, folder: folder, name: name, shown: display(folder, name))
    }

    /// Makes a temporary file durable and renames it to a pack's name. fsync(2), rename(2).
    func placePack(_ file: TemporaryFile, as name: String) throws(PublishError) {
        try sync(file)
        let isNew = size(.packs, name) == nil
        try rename(file, to: name)
        if isNew { placed.append(name) }
    }

    /// Makes both forms of a manifest durable and puts them in place, the plain one last.
    ///
    /// From the first rename on the new packs stay, whatever happens: a manifest names them.
    ///
    /// - Parameters:
    ///   - revision: The number under which it is kept, too; `nil` where releases are not kept.
    ///   - isNewest: Whether it is `manifest.json` from now on.
    func placeManifest(
        _ text: TemporaryFile,
        compressed: TemporaryFile,
        keeping revision: UInt64?,
        isNewest: Bool
    ) throws(PublishError) {
        try sync(text)
        try sync(compressed)
        if let revision {
            // First, since it reserves the number.
            try give(compressed.name, "\(revision).json.zst", in: "channels")
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

    private func sync(_ file: TemporaryFile) throws(PublishError) {
        if let code = synchronize(file.descriptor.raw) { throw .writing(file.shown, "sync", code: code) }
    }

    private func rename(_ file: TemporaryFile, to name: String) throws(PublishError) {
        let directory = descriptor(file.folder)
        if let code = renameEntry(file.name, in: directory, to: name, in: directory) {
            throw .writing(display(file.folder, name), "rename to", code: code)
        }
    }

    func discard(_ file: TemporaryFile) {
        removeFile(file.name, in: descriptor(file.folder))
    }

    /// Makes the names in a folder durable.
    func syncNames(_ folder: Folder) throws(PublishError) {
        if folder == .packs, packs == nil { return }
        if let code = synchronize(descriptor(folder)) {
            throw .writing(folder == .top ? path : path + "/packs", "sync", code: code)
        }
    }

    /// After a failure: removes all temporary files and new packs.
    func clear() {
        guard access == .publishing else { return }
        removeTemporaries(descriptor(.top))
        if packs != nil { removeTemporaries(descriptor(.packs)) }
        for name in placed { removeFile(name, in: descriptor(.packs)) }
        placed = []
    }

    /// Length of a regular file in **bytes**; `nil` if there is none.
    func size(_ folder: Folder, _ name: String) -> UInt64? { Self.size(name, in: descriptor(folder)) }

    static func size(_ name: String, in directory: Int32 = currentDirectory) -> UInt64? {
        guard case .success(let found?) = status(directory, name), found.kind == .file else { return nil }
        return found.size
    }

    /// Opens a file for reading; `nil` if there is none, or something else with that name.
    func open(_ folder: Folder, _ name: String) -> Descriptor? {
        try? openFile(name, in: descriptor(folder), trust: Self.trust)
    }

    /// SHA-256 of a file; `nil` if it cannot be read.
    func digest(_ folder: Folder, _ name: String) throws(PublishError) -> SHA256Digest? {
        guard let file = open(folder, name) else { return nil }
        return try Self.digest(file.raw)
    }

    /// SHA-256 of an open file; `nil` if it cannot be read, or `taking`, which gets each piece, returns `false`.
    static func digest(
        _ file: Int32,
        taking: (UnsafeRawBufferPointer, UInt64) -> Bool = { _, _ in true }
    ) throws(PublishError) -> SHA256Digest? {
        guard let size = status(file)?.size else { return nil }
        var hasher = try calling { try SHA256Hasher() }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { piece.deallocate() }
        return sha256(of: file, 0..<size, with: &hasher, through: piece, taking: taking)
    }

    /// Takes over a pack from elsewhere: a hard link if possible, else a copy. linkat(2).
    ///
    /// - Returns: Whether it is here now, with the digest it should have.
    func adopt(_ source: String, asPack name: String, _ digest: SHA256Digest) throws(PublishError) -> Bool {
        try makePacks()
        if access == .publishing,
            addName(name, in: descriptor(.packs), to: source, in: currentDirectory, followsLinks: true) == nil
        {
            placed.append(name)
            if try self.digest(.packs, name) == digest { return true }
            removeFile(name, in: descriptor(.packs))
            return false
        }
        guard let original = try? openFile(source, trust: .input) else { return false }
        if access == .reading { return try Self.digest(original.raw) == digest }
        let copy = try makeTemporary(.packs)
        var failure: Errno?
        let found = try Self.digest(original.raw) { piece, offset in
            failure = writeAll(piece, to: copy.descriptor.raw, at: offset)
            return failure == nil
        }
        if let failure { throw .writing(copy.shown, "write", code: failure) }
        guard found == digest else {
            discard(copy)
            return false
        }
        try placePack(copy, as: name)
        return true
    }

    private func removeTemporaries(_ directory: Int32) {
        // Only exact matches: in a set published in place, other files may have similar names.
        for name in (try? directoryEntries(directory)) ?? []
        where name.hasPrefix(Self.prefix) && name.hasSuffix(Self.suffix)
            && Int(name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)) != nil
        {
            removeFile(name, in: directory)
        }
    }

    private static func open(
        _ name: String,
        in parent: Int32 = currentDirectory,
        _ shownPath: String
    ) throws(PublishError) -> Descriptor {
        if let directory = openDirectory(name, in: parent) { return directory }
        throw .cannotCreate(
            "cannot open the output directory \(shown(shownPath)): \(errnoText)",
            "name a directory that this user may write to"
        )
    }

    private static func makeDirectories(_ path: String) throws(PublishError) {
        do throws(FileError) {
            try SyncSystem.makeDirectories(path)
        } catch {
            throw .cannotCreate(
                "cannot create \(shown(error.path)): \(error.reason)",
                "name a directory that this user may write to"
            )
        }
    }
}

/// A file without a final name.
struct TemporaryFile {
    let descriptor: SharedDescriptor
    let folder: OutputDirectory.Folder
    let name: String
    let shown: String
}
