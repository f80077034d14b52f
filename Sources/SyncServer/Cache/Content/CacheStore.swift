import SyncModel
import SyncSystem

/// The files of a cache on disk. The directory itself is the record: a file's name says what the file holds, its size
/// how much, and its modification time when it was last used. One process uses a store at a time.
///
/// `objects/AB/SHA256.START-END` holds bytes of the object of that name, `documents/SHA256` a document that may change
/// (the name is the SHA-256 of its URL), `unfinished/` the files that are being written.
final class CacheStore: Sendable {
    /// A file with some bytes of an object.
    struct Slice: Sendable, Hashable {
        let object: SHA256Digest
        let start: UInt64
        let end: UInt64

        var length: UInt64 { end - start }
        var name: String { "\(object.hex).\(start)-\(end)" }
    }

    private struct Entry {
        let slice: Slice
        /// The number of the last use, in order.
        var used: UInt64
        /// When the time of the file was last set, in **seconds** since 1970.
        var noted: Int64
        /// The proof, if this process has verified the file.
        var proof: Proof?
    }

    /// A file that was verified: its status then, and a sum of each piece of it.
    struct Proof: Sendable {
        var status: FileStatus
        var sums: [UInt64]
    }

    private struct State {
        var objects: [SHA256Digest: [Entry]] = [:]
        var documents: [String: (size: UInt64, used: UInt64)] = [:]
        /// The number of the last use.
        var uses: UInt64 = 0
        var kept: UInt64 = 0
        var reserved: UInt64 = 0
        var evicted: UInt64 = 0
        var number: UInt64 = 0
        /// Until when nothing is written, after a write has failed.
        var troubledUntil: ContinuousClock.Instant?

        mutating func use() -> UInt64 {
            uses += 1
            return uses
        }

        /// - Returns: Whether it was there.
        mutating func takeOut(_ slice: Slice) -> Bool {
            guard let index = objects[slice.object]?.firstIndex(where: { $0.slice == slice }) else { return false }
            objects[slice.object]?.remove(at: index)
            if objects[slice.object]?.isEmpty == true { objects[slice.object] = nil }
            kept -= min(kept, slice.length)
            return true
        }

        mutating func takeOut(document name: String) -> Bool {
            guard let found = documents.removeValue(forKey: name) else { return false }
            kept -= min(kept, found.size)
            return true
        }
    }

    /// **Bytes** of a slice that are read, summed and sent at a time.
    static let piece: UInt64 = 64 << 10
    private static let marker = "syncagent-cache-1"

    private let objects: SharedDescriptor
    private let documents: SharedDescriptor
    private let unfinished: SharedDescriptor
    private let lock: FileLock
    /// **Bytes** that it may hold.
    let most: UInt64
    private let now: @Sendable () -> Int64
    private let state = Mutex(State())

    /// Opens the store or creates it, removes unfinished files, and counts the others.
    ///
    /// - Parameters:
    ///   - most: **Bytes** that it may hold.
    ///   - now: **Seconds** since 1970.
    init(path: String, most: UInt64, now: @escaping @Sendable () -> Int64) throws(ServerError) {
        (self.most, self.now) = (most, now)
        let root = try Self.calling { () throws(FileError) in
            let root = SharedDescriptor(try openPrivateDirectory(path, create: true))
            try Self.checkMarker(root.raw, path)
            return root
        }
        let taken = try Self.calling { () throws(FileError) -> FileLock? in
            guard let file = Descriptor(opening: "lock", in: root.raw, [.readWrite, .create, .noFollow], mode: 0o600)
            else {
                throw .last("open", path + "/lock")
            }
            return try FileLock.take(file, path: path + "/lock")
        }
        guard let taken else {
            throw ServerError(
                .busy, "Another process has the store \(escaped(path)): give each cache one of its own.")
        }
        lock = taken
        func directory(_ name: String) throws(ServerError) -> SharedDescriptor {
            try Self.calling { () throws(FileError) in
                SharedDescriptor(
                    try openPrivateDirectory(name, in: root.raw, create: true, shown: "\(path)/\(name)"))
            }
        }
        objects = try directory("objects")
        documents = try directory("documents")
        unfinished = try directory("unfinished")
        scan()
    }

    private static func calling<R: ~Copyable>(_ body: () throws(FileError) -> R) throws(ServerError) -> R {
        do throws(FileError) { return try body() } catch {
            throw ServerError(
                error.cause == .diskTrouble ? .ioError : .cannotCreate,
                "Cannot \(error.step) the store \(escaped(error.path)): \(error.reason).")
        }
    }

    /// Refuses a directory that has other files, and no marker.
    private static func checkMarker(_ root: Int32, _ path: String) throws(FileError) {
        if exists(marker, in: root) { return }
        let names: [String]
        do throws(Errno) { names = try directoryEntries(root) } catch {
            throw FileError(step: "read", path: path, code: error)
        }
        guard names.allSatisfy({ $0 == "lost+found" }) else {
            throw FileError(
                step: "use", path: path, remark: "it is neither empty nor a store of this program", trouble: .inTheWay)
        }
        guard Descriptor(opening: marker, in: root, .newFile.union(.writeOnly), mode: 0o600) != nil else {
            throw .last("create", "\(path)/\(marker)")
        }
    }

    private func scan() {
        for name in (try? directoryEntries(unfinished.raw)) ?? [] { removeTree(name, in: unfinished.raw) }
        var slices: [(slice: Slice, modified: Int64)] = []
        for prefix in (try? directoryEntries(objects.raw)) ?? [] where prefix.utf8.count == 2 {
            if case .success(let found?) = status(objects.raw, prefix), found.kind != .directory {
                // No slice could take its place.
                removeFile(prefix, in: objects.raw)
            }
            guard let directory = openDirectory(prefix, in: objects.raw, .noFollow) else { continue }
            for name in (try? directoryEntries(directory.raw)) ?? [] {
                guard case .success(let found?) = status(directory.raw, name) else { continue }
                guard found.kind == .file, name.hasPrefix(prefix), let slice = Slice(name: name),
                    found.size == slice.length
                else {
                    removeTree(name, in: directory.raw)
                    continue
                }
                slices.append((slice, found.modified))
            }
        }
        var named: [(name: String, size: UInt64, modified: Int64)] = []
        for name in (try? directoryEntries(documents.raw)) ?? [] {
            guard case .success(let found?) = status(documents.raw, name) else { continue }
            guard found.kind == .file else {
                // No document could take its place.
                removeTree(name, in: documents.raw)
                continue
            }
            named.append((name, found.size, found.modified))
        }
        state.withLock { state in
            for (slice, modified) in slices.sorted(by: { $0.modified < $1.modified }) {
                let entry = Entry(slice: slice, used: state.use(), noted: modified / 1_000_000_000)
                state.objects[slice.object, default: []].append(entry)
                state.kept = state.kept.saturatingAdd(slice.length)
            }
            for object in state.objects.keys { state.objects[object]?.sort { $0.slice.start < $1.slice.start } }
            // Documents are small, and asked for first, so they are evicted last.
            for (name, size, _) in named.sorted(by: { $0.modified < $1.modified }) {
                let use = state.use()
                state.documents[name] = (size, use)
                state.kept = state.kept.saturatingAdd(size)
            }
        }
        makeRoom(for: 0)
    }

    /// **Bytes** that are kept.
    var keptBytes: UInt64 { state.withLock(\.kept) }
    /// **Bytes** that were removed to make room.
    var evictedBytes: UInt64 { state.withLock(\.evicted) }
}

// MARK: Slices

extension CacheStore {
    /// The slice that has a **byte** of an object; counts as a use.
    func slice(of object: SHA256Digest, at offset: UInt64) -> Slice? {
        state.withLock { state in
            guard let index = Self.index(state.objects[object], offset) else { return nil }
            let use = state.use()
            state.objects[object]?[index].used = use
            return state.objects[object]?[index].slice
        }
    }

    /// Whether a **byte** of an object is kept.
    func has(_ object: SHA256Digest, at offset: UInt64) -> Bool {
        state.withLock { Self.index($0.objects[object], offset) != nil }
    }

    private static func index(_ entries: [Entry]?, _ offset: UInt64) -> Int? {
        // Slices follow each other, except where another manifest has cut otherwise: the last one that begins early
        // enough and ends behind the offset.
        guard let entries else { return nil }
        let behind = entries.indices.partitioningIndex { entries[$0].slice.start > offset }
        return entries[..<behind].lastIndex { $0.slice.end > offset }
    }

    /// Errors that say nothing about a file: this process, or the machine, is out of descriptors or memory.
    private static let shortages: [Errno] = [.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory]

    /// Opens a slice for reading. A file that is gone, or not as its name says, is dropped.
    ///
    /// - Returns: The file, and its proof if this very file was verified before.
    func open(_ slice: Slice) -> (file: SharedDescriptor, proof: Proof?)? {
        guard let file = Descriptor(opening: path(of: slice), in: objects.raw, .unwaitingNoFollow) else {
            if !Self.shortages.contains(Errno.last) { drop(slice) }
            return nil
        }
        guard let found = status(file.raw), found.kind == .file, found.size == slice.length else {
            drop(slice)
            return nil
        }
        let now = now()
        let (proof, isDue) = state.withLock { state -> (Proof?, Bool) in
            guard let index = state.objects[slice.object]?.firstIndex(where: { $0.slice == slice }) else {
                return (nil, false)
            }
            // The noted time may be from a clock that was ahead.
            let isDue = abs(now - (state.objects[slice.object]?[index].noted ?? now)) > 600
            if isDue { state.objects[slice.object]?[index].noted = now }
            return (state.objects[slice.object]?[index].proof, isDue)
        }
        let known = proof.flatMap { $0.status == found ? $0 : nil }
        if isDue, touch(file.raw) == nil, let known, let after = status(file.raw) {
            note(Proof(status: after, sums: known.sums), of: slice)
        }
        return (SharedDescriptor(file), known)
    }

    /// Notes that a slice was verified.
    func note(_ proof: Proof, of slice: Slice) {
        state.withLock { state in
            guard let index = state.objects[slice.object]?.firstIndex(where: { $0.slice == slice }) else { return }
            state.objects[slice.object]?[index].proof = proof
        }
    }

    /// Removes a slice that is damaged.
    func drop(_ slice: Slice) {
        if state.withLock({ $0.takeOut(slice) }) { removeFile(path(of: slice), in: objects.raw) }
    }

    /// Renames a written file to the name of its slice; room for it was taken with ``reserve(_:)``.
    ///
    /// - Returns: Why it could not be kept; `nil` if it was.
    func keep(_ file: UnfinishedFile, as slice: Slice, _ proof: Proof?) -> Errno? {
        let prefix = String(slice.object.hex.prefix(2))
        if let code = makeDirectory(prefix, in: objects.raw, mode: 0o700), code != .fileExists {
            return failed(code, slice.length)
        }
        if let code = renameEntry(file.name, in: unfinished.raw, to: path(of: slice), in: objects.raw) {
            return failed(code, slice.length)
        }
        file.isNamed.withLock { $0 = true }
        let now = now()
        // The rename may have changed the file's time of the last status change.
        let proof = status(file.descriptor.raw).flatMap { found in proof.map { Proof(status: found, sums: $0.sums) } }
        let within = state.withLock { state -> [Slice] in
            state.reserved -= min(state.reserved, slice.length)
            var entries = state.objects[slice.object] ?? []
            // Slices within this one are of no more use.
            let isWithin = { (one: Slice) in slice.start <= one.start && one.end <= slice.end }
            let gone = entries.map(\.slice).filter(isWithin)
            entries.removeAll { isWithin($0.slice) }
            let place = entries.firstIndex { $0.slice.start > slice.start } ?? entries.count
            entries.insert(Entry(slice: slice, used: state.use(), noted: now, proof: proof), at: place)
            state.objects[slice.object] = entries
            state.kept = (state.kept - min(state.kept, gone.reduce(0) { $0 + $1.length })).saturatingAdd(slice.length)
            return gone.filter { $0 != slice }
        }
        for one in within { removeFile(path(of: one), in: objects.raw) }
        return nil
    }

    private func path(of slice: Slice) -> String { "\(slice.object.hex.prefix(2))/\(slice.name)" }
}

extension CacheStore.Slice {
    /// The slice in a file's name; `nil` for another name.
    fileprivate init?(name: String) {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let object = SHA256Digest(hex: String(parts[0])) else { return nil }
        let ends = parts[1].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let start = UInt64(ends[0]), let end = UInt64(ends[1]), start < end else { return nil }
        self.init(object: object, start: start, end: end)
        guard self.name == name else { return nil }
    }
}

// MARK: Room

extension CacheStore {
    /// Takes room for **bytes** that will be kept, and evicts the files that were used longest ago.
    ///
    /// - Returns: Whether there is room; then ``keep(_:as:_:)`` or ``giveBack(_:)`` follows.
    func reserve(_ bytes: UInt64) -> Bool {
        guard bytes <= most, !isTroubled else { return false }
        makeRoom(for: bytes)
        return state.withLock { state in
            guard bytes <= most, state.kept.saturatingAdd(state.reserved) <= most - bytes else { return false }
            state.reserved += bytes
            return true
        }
    }

    func giveBack(_ bytes: UInt64) { state.withLock { $0.reserved -= min($0.reserved, bytes) } }

    /// Whether a write has just failed, such as on a full disk: nothing is written for some seconds.
    var isTroubled: Bool {
        state.withLock(\.troubledUntil).map { ContinuousClock.now < $0 } ?? false
    }

    /// Notes that a write has failed.
    func recordTrouble() { state.withLock { $0.troubledUntil = ContinuousClock.now + .seconds(5) } }

    private func failed(_ code: Errno, _ bytes: UInt64) -> Errno {
        giveBack(bytes)
        recordTrouble()
        return code
    }

    private func makeRoom(for bytes: UInt64) {
        /// Entries are taken out under one lock, so that two callers that need room do not count the same ones.
        let (slices, names) = state.withLock { state -> ([Slice], [String]) in
            let wanted = state.kept.saturatingAdd(state.reserved).saturatingAdd(bytes)
            guard wanted > most else { return ([], []) }
            // A little more than is needed, so that not every new slice sorts them all again.
            var left = (wanted - most).saturatingAdd(most / 64)
            var all = state.objects.values.joined().map {
                (used: $0.used, size: $0.slice.length, slice: $0.slice as Slice?, name: "")
            }
            all += state.documents.map { (used: $0.value.used, size: $0.value.size, slice: nil, name: $0.key) }
            var (slices, names) = ([Slice](), [String]())
            for one in all.sorted(by: { $0.used < $1.used }) where left > 0 {
                let isGone: Bool
                if let slice = one.slice {
                    isGone = state.takeOut(slice)
                    slices.append(slice)
                } else {
                    isGone = state.takeOut(document: one.name)
                    names.append(one.name)
                }
                left -= min(left, one.size)
                if isGone { state.evicted = state.evicted.saturatingAdd(one.size) }
            }
            return (slices, names)
        }
        for slice in slices { removeFile(path(of: slice), in: objects.raw) }
        for name in names { removeFile(name, in: documents.raw) }
    }
}

// MARK: Documents, and unfinished files

extension CacheStore {
    /// Opens a kept document; one that is gone is dropped.
    func openDocument(_ name: String) -> SharedDescriptor? {
        guard let file = Descriptor(opening: name, in: documents.raw, .unwaitingNoFollow) else {
            if !Self.shortages.contains(Errno.last) { dropDocument(name) }
            return nil
        }
        guard status(file.raw)?.kind == .file else {
            dropDocument(name)
            return nil
        }
        state.withLock { state in
            let use = state.use()
            state.documents[name]?.used = use
        }
        return SharedDescriptor(file)
    }

    /// Names of all kept documents, the latest first.
    var documentNames: [String] { state.withLock { $0.documents.sorted { $0.value.used > $1.value.used }.map(\.key) } }

    /// Renames a written file to the name of a document; room for it was taken.
    func keep(_ file: UnfinishedFile, asDocument name: String, bytes: UInt64) -> Errno? {
        if let code = renameEntry(file.name, in: unfinished.raw, to: name, in: documents.raw) {
            return failed(code, bytes)
        }
        file.isNamed.withLock { $0 = true }
        state.withLock { state in
            state.reserved -= min(state.reserved, bytes)
            state.kept -= min(state.kept, state.documents[name]?.size ?? 0)
            let use = state.use()
            state.documents[name] = (bytes, use)
            state.kept = state.kept.saturatingAdd(bytes)
        }
        return nil
    }

    func dropDocument(_ name: String) {
        if state.withLock({ $0.takeOut(document: name) }) { removeFile(name, in: documents.raw) }
    }

    /// A new file under a temporary name; it is removed with its last reference unless it was kept.
    func unfinishedFile() -> UnfinishedFile? {
        let name = state.withLock { state in
            state.number += 1
            return "\(state.number)"
        }
        guard
            let file = Descriptor(
                opening: name, in: unfinished.raw, .newFile.union(.readWrite), mode: 0o600)
        else {
            recordTrouble()
            return nil
        }
        return UnfinishedFile(name, SharedDescriptor(file), in: unfinished)
    }
}

/// A file of the store that is being written.
final class UnfinishedFile: Sendable {
    let name: String
    let descriptor: SharedDescriptor
    fileprivate let isNamed = Mutex(false)
    private let directory: SharedDescriptor

    init(_ name: String, _ descriptor: SharedDescriptor, in directory: SharedDescriptor) {
        (self.name, self.descriptor, self.directory) = (name, descriptor, directory)
    }

    deinit { if !isNamed.withLock(\.self) { removeFile(name, in: directory.raw) } }
}

/// A checksum of a piece, to tell damage from the bytes that were verified: 64 bits, each of which depends on every
/// byte.
func pieceSum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var (sum, index) = (UInt64(bytes.count) ^ 0x9E37_79B9_7F4A_7C15, 0)
    func added(_ sum: UInt64, at index: Int) -> UInt64 {
        let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        let product = (sum ^ word) &* 0x9FB2_1C65_1E98_DF25
        return product ^ product >> 32
    }
    // Four sums that do not wait for each other.
    var (second, third, fourth) = (sum &+ 1, sum &+ 2, sum &+ 3)
    while index + 32 <= bytes.count {
        sum = added(sum, at: index)
        second = added(second, at: index + 8)
        third = added(third, at: index + 16)
        fourth = added(fourth, at: index + 24)
        index += 32
    }
    for other in [second, third, fourth] {
        sum = (sum ^ other) &* 0x9FB2_1C65_1E98_DF25
        sum ^= sum >> 32
    }
    while index + 8 <= bytes.count {
        sum = added(sum, at: index)
        index += 8
    }
    while index < bytes.count {
        sum = (sum ^ UInt64(bytes[index])) &* 0x0000_0100_0000_01B3
        index += 1
    }
    sum = (sum ^ sum >> 29) &* 0xBF58_476D_1CE4_E5B9
    return sum ^ sum >> 32
}

/// The sums of the pieces of some bytes, which begin where a piece does.
func pieceSums(_ bytes: UnsafeRawBufferPointer) -> [UInt64] {
    stride(from: 0, to: bytes.count, by: Int(CacheStore.piece)).map { start in
        let end = min(bytes.count, start + Int(CacheStore.piece))
        return pieceSum(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
    }
}
