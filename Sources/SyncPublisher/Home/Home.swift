import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// A store as one publisher sees it: the objects it has listed, and those it has put since.
///
/// An object is replaced only if it is still as it was seen, so that of two publishers one notices the other. Packs are
/// sent in the background, a few at a time; every other put waits for them.
final class Home {
    typealias Folder = OutputDirectory.Folder

    private let store: any ObjectStore
    private let temporaryDirectory: String
    /// **Milliseconds** since 1970.
    let now: @Sendable () -> Int64
    let isReadOnly: Bool
    /// Fetches ranges of the store's packs.
    let ranges: PackRanges
    /// Contents of files that were read or put, by path, as long as they fit.
    private var held: [String: [UInt8]] = [:]
    private var known: [Folder: [String: StoredObject]] = [:]
    /// The first failure of the store. A file that could not be read looks missing, so nothing is put after a failure.
    private var failure: PublishError?
    private let sending: PackSender
    /// Packs that were in the store already although perhaps no release there names them: a publish that ended early
    /// leaves such packs.
    private var found: Set<SHA256Digest> = []
    /// Packs of which the store has other bytes than their names say.
    private var wrong: Set<SHA256Digest> = []
    /// The packs that this publish has sent, and when it sent the first; **milliseconds** since 1970.
    private var sent: (packs: Set<SHA256Digest>, since: Int64?) = ([], nil)

    init(_ place: HomePlace, isReadOnly: Bool) {
        let store = place.store
        (self.store, temporaryDirectory, self.isReadOnly) = (store, place.temporaryDirectory, isReadOnly)
        now = place.now
        ranges = PackRanges(shown: store.shown) { pack, range in
            try store.read(Folder.packs.path(pack.sha256.packName), range)
        }
        sending = PackSender(store)
    }

    deinit { sending.close() }

    /// For people.
    var shown: String { store.shown }

    /// Whether a file is visible once it is put, and not only after ``commit()``.
    var namesAtOnce: Bool { store.namesAtOnce }

    /// Checks the store before anything is put; returns warnings for the user.
    func prepare() throws(PublishError) -> [String] { try store.prepare() }

    /// An open file on this machine without a name: nothing of it stays, however the run ends.
    func temporaryFile() throws(PublishError) -> SharedDescriptor {
        func failed(_ code: Errno) -> PublishError {
            .cannotCreate(
                "cannot create a file in \(SyncPublisher.shown(temporaryDirectory)): \(code)",
                "free space there, or name another directory for temporary files in TMPDIR")
        }
        guard let directory = makeTemporaryDirectory(temporaryDirectory + "/syncagent-") else { throw failed(.last) }
        defer { removeDirectory(directory) }
        let path = directory + "/pack"
        let file = Descriptor(opening: path, OpenFlags.newFile.union(.readWrite), mode: 0o600)
        guard let file = SharedDescriptor(file) else { throw failed(.last) }
        removeFile(path)
        return file
    }

    // MARK: Reading

    /// The files of a folder.
    func files(_ folder: Folder) throws(PublishError) -> [String: StoredObject] {
        if let files = known[folder] { return files }
        let prefix = folder == .top ? "manifest.json" : folder.rawValue + "/"
        let listed = try noting { () throws(PublishError) in try store.list(prefix) }
        var files: [String: StoredObject] = [:]
        for (name, object) in listed {
            let file = folder == .top ? name : String(name.dropFirst(prefix.count))
            if !file.isEmpty, !file.contains("/") { files[file] = object }
        }
        known[folder] = files
        return files
    }

    func object(_ folder: Folder, _ name: String) -> StoredObject? { (try? files(folder))?[name] }

    /// A whole file; `nil` if there is none.
    func contents(_ folder: Folder, _ name: String, limit: Int) throws(PublishError) -> [UInt8]? {
        guard object(folder, name) != nil else {
            try rethrow()
            return nil
        }
        let path = folder.path(name)
        if let bytes = held[path] { return bytes }
        // A store that refuses access, or cannot be reached, is not asked again for each file.
        try checkReach()
        if folder == .top, name == "manifest.json", let text = try textOfFrame(limit: limit) { return text }
        let read = try noting { () throws(PublishError) in try store.read(path, limit: limit) }
        // Later puts depend on this version of the file.
        known[folder]?[name] = read?.object
        if let read { hold(read.bytes, path) }
        return read?.bytes
    }

    /// The text of `manifest.json`, decoded from `manifest.json.zst`, which is shorter; `nil` unless their tags prove
    /// that it is the same.
    private func textOfFrame(limit: Int) throws(PublishError) -> [UInt8]? {
        guard let own = object(.top, "manifest.json"), own.size > Self.piece / 1_024,
            let frame = try contents(.top, "manifest.json.zst", limit: limit),
            let text = unframed(frame), UInt64(text.count) == own.size,
            store.tag(of: text) == own.tag
        else { return nil }
        hold(text, "manifest.json")
        return text
    }

    private func hold(_ bytes: [UInt8], _ path: String) {
        held[path] = nil
        if held.values.reduce(bytes.count, { $0 + $1.count }) > Self.mostHeld { held = [:] }
        if bytes.count <= Self.mostHeld { held[path] = bytes }
    }

    /// Most **bytes** of manifests and statements that are held.
    private static let mostHeld = 48 << 20

    /// The SHA-256 of a file; `nil` if there is none, if it ends early, or if `taking`, which gets each piece of a
    /// pack, returns `false`.
    func digest(
        _ folder: Folder, _ name: String, taking: (UnsafeRawBufferPointer, UInt64) -> Bool = { _, _ in true }
    ) throws(PublishError) -> SHA256Digest? {
        guard let size = try files(folder)[name]?.size else { return nil }
        if folder != .packs {
            let bytes = try contents(folder, name, limit: ManifestLimits.standard.manifestBytes)
            return try bytes.map { bytes throws(PublishError) in try calling { try sha256(bytes) } }
        }
        var hasher = try calling { try SHA256Hasher() }
        var offset: UInt64 = 0
        while offset < size {
            let end = min(size, offset + Self.piece)
            let bytes = try store.read(folder.path(name), offset..<end)
            guard UInt64(bytes.count) == end - offset else { return nil }
            let isWanted = try calling {
                try bytes.withUnsafeBytes { bytes in
                    try hasher.update(bytes)
                    return taking(bytes, offset)
                }
            }
            guard isWanted else { return nil }
            offset = end
        }
        return try calling { try hasher.finish() }
    }

    /// **Bytes** of a pack that are read at a time.
    private static let piece: UInt64 = 8 << 20

    private func noting<R>(_ body: () throws(PublishError) -> R) throws(PublishError) -> R {
        do throws(PublishError) { return try body() } catch {
            failure = failure ?? error
            throw error
        }
    }

    /// Throws the store's first failure, unless it concerned one file: nothing is known of the other files then,
    /// either.
    func checkReach() throws(PublishError) {
        if let failure, failure.exitStatus != .dataInvalid, failure.exitStatus != .noInput { throw failure }
    }

    /// Throws the store's first failure, whatever it was.
    func rethrow() throws(PublishError) { if let failure { throw failure } }

    // MARK: Putting

    /// Sends a pack in the background, unless the store has it. Waits while too many packs are waiting.
    func send(_ pack: SHA256Digest, _ size: UInt64, _ file: SharedDescriptor) throws(PublishError) {
        try rethrow()
        let object = NewObject(size: size, digest: pack) { offset, target in
            let count = readFully(file.raw, into: target, at: offset)
            return count > 0 ? count : nil
        }
        try sending.send(object, as: Folder.packs.path(pack.packName), replacing: wrong.remove(pack) != nil)
        known[.packs]?[pack.packName] = StoredObject(size: size, tag: "new")
        sent.packs.insert(pack)
        if sent.since == nil { sent.since = now() }
    }

    /// Adds a pack of a base in the same store to this set, without sending it where the store can copy it.
    ///
    /// - Returns: `false` for a base in another store.
    func take(_ pack: Manifest.Pack, from base: ServedBase) throws(PublishError) -> Bool {
        guard store.isBeside(base.location) else { return false }
        if !isReadOnly { try store.take(base.ranges.object(of: pack), from: base.location) }
        known[.packs]?[pack.sha256.packName] = StoredObject(size: pack.size, tag: "new")
        return true
    }

    /// Notes a pack that is in the store already.
    func note(found pack: SHA256Digest) { found.insert(pack) }

    /// Notes a pack with wrong bytes: if it is made again, it is sent although the store has one of its name and size.
    func note(wrong pack: SHA256Digest) { wrong.insert(pack) }

    func isWrong(_ pack: SHA256Digest) -> Bool { wrong.contains(pack) }

    /// The packs that a prune may be removing although they are about to be named: those that were found, and, after
    /// half the time for which a prune leaves any pack that nothing names, those that this publish has sent. A registry
    /// removes blobs by itself.
    var endangered: Set<SHA256Digest> {
        guard namesAtOnce, let since = sent.since, now().saturatingSubtract(since) >= Prune.usualGrace / 2 else {
            return found
        }
        return found.union(sent.packs)
    }

    /// Drops the held contents of a file, and asks the store for its status again.
    func forget(_ folder: Folder, _ name: String) {
        held[folder.path(name)] = nil
        // If that fails, a put finds out what the file is now.
        do throws(PublishError) { known[folder]?[name] = try store.stat(folder.path(name)) } catch {}
    }

    /// Those of these manifests that something outside the set names: they stay, with every pack that they name.
    func namedElsewhere(_ manifests: [SHA256Digest]) throws(PublishError) -> Set<SHA256Digest> {
        func name(_ digest: SHA256Digest) -> String { Folder.manifests.path("\(digest).json.zst") }
        let named = try store.namedElsewhere(manifests.map(name))
        return Set(manifests.filter { named.contains(name($0)) })
    }

    /// Whether the store has a file now as it was seen, by its size.
    func isThere(_ folder: Folder, _ name: String) throws(PublishError) -> Bool {
        let seen = try files(folder)[name]
        return try store.stat(folder.path(name))?.size == seen?.size
    }

    /// Waits until all packs are sent.
    ///
    /// - Parameter progress: Gets the **bytes** of packs that were sent, and of all packs.
    func drain(progress: (UInt64, UInt64) -> Void = { _, _ in }) throws(PublishError) {
        try sending.drain(progress: progress)
    }

    /// Puts a file in place of the one that was seen, or where none was seen.
    ///
    /// - Parameter isReplaced: Whether an existing file is replaced. If not, a file that was seen stays, and a file
    ///   that another publisher has put meanwhile must have the same bytes.
    func put(_ bytes: [UInt8], _ folder: Folder, _ name: String, replacing isReplaced: Bool = true) throws(PublishError)
    {
        let former = try files(folder)[name]
        if former != nil, !isReplaced { return }
        let object = try NewObject(bytes)
        guard try put(bytes, object, folder, name, if: former.map { .unchanged($0.tag) } ?? .absent) else {
            if !isReplaced {
                // The name is a digest or a revision, so another publisher may have put the same bytes.
                known[folder]?[name] = StoredObject(size: object.size, tag: "")
                if try contents(folder, name, limit: max(bytes.count, 1)) == bytes { return }
            }
            throw changed(folder, name)
        }
    }

    /// - Returns: Whether it was put.
    private func put(
        _ bytes: [UInt8], _ object: NewObject, _ folder: Folder, _ name: String, if condition: PutCondition
    ) throws(PublishError) -> Bool {
        try rethrow()
        try drain()
        held[folder.path(name)] = nil
        guard let tag = try store.put(object, as: folder.path(name), if: condition) else { return false }
        _ = try files(folder)
        known[folder]?[name] = StoredObject(size: object.size, tag: tag)
        hold(bytes, folder.path(name))
        return true
    }

    /// Puts both forms of the newest manifest in place: `manifest.json` decides which of two publishers was first, and
    /// `manifest.json.zst` follows it.
    func putManifest(_ text: [UInt8], frame: [UInt8]) throws(PublishError) {
        let packed = try NewObject(frame)
        try put(text, .top, "manifest.json")
        let own = object(.top, "manifest.json")?.tag
        for _ in 0..<Self.mostTries {
            let former = object(.top, "manifest.json.zst")
            let condition = former.map { PutCondition.unchanged($0.tag) } ?? .absent
            if try put(frame, packed, .top, "manifest.json.zst", if: condition) { return }
            // A slower publisher has put an older frame, or a newer publish has put both files.
            guard try store.stat("manifest.json")?.tag == own else { return }
            known[.top]?["manifest.json.zst"] = try store.stat("manifest.json.zst")
        }
        throw changed(.top, "manifest.json.zst")
    }

    private static let mostTries = 8

    private func changed(_ folder: Folder, _ name: String) -> PublishError {
        .busy(
            "\(SyncPublisher.shown(store.shown))/\(folder.path(name)) was changed by another publish in the meantime",
            "run it again")
    }

    func remove(_ names: [String], from folder: Folder) throws(PublishError) {
        try rethrow()
        try drain()
        let there = try files(folder)
        let names = names.filter { there[$0] != nil }
        guard !names.isEmpty else { return }
        try store.remove(names.map { folder.path($0) })
        for name in names {
            known[folder]?[name] = nil
            held[folder.path(name)] = nil
        }
    }

    /// Makes the files that were put visible, in a store where puts alone do not.
    func commit() throws(PublishError) {
        try rethrow()
        try drain()
        try store.commit()
    }
}

/// A store, and a directory on this machine for files on their way to it.
package struct HomePlace: Sendable {
    package let store: any ObjectStore
    /// An absolute path.
    package let temporaryDirectory: String
    /// **Milliseconds** since 1970.
    package let now: @Sendable () -> Int64

    package init(_ store: any ObjectStore, temporaryDirectory: String, now: @escaping @Sendable () -> Int64) {
        (self.store, self.temporaryDirectory, self.now) = (store, temporaryDirectory, now)
    }
}

extension NewObject {
    /// Bytes in memory.
    package init(_ bytes: [UInt8]) throws(PublishError) {
        self.init(size: UInt64(bytes.count), digest: try calling { try sha256(bytes) }) { offset, target in
            guard let start = Int(exactly: offset), start < bytes.count else { return nil }
            let count = min(target.count, bytes.count - start)
            bytes.withUnsafeBytes {
                target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<(start + count)]))
            }
            return count
        }
    }
}
