import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// The facts about packs and files in the manifests that have passed through the cache: without a manifest, the blobs
/// of a pack are unknown.
///
/// Manifests are read when a request for a pack or a file needs them, one at a time, the latest first.
final class FactIndex: Sendable {
    private struct State {
        /// By the path of the manifest, the one read last at the end.
        var facts: [(path: String, facts: SetFacts)] = []
        /// The facts of all these manifests about a pack.
        var packs: [SHA256Digest: PackMap] = [:]
        /// Paths of manifests that have arrived and are not read yet, the latest first.
        var unread: [String] = []
        /// Paths of manifests of which something could not be fetched; they are tried again.
        var missed: [String] = []
        /// When ``refresh()`` fetched the directory's own manifest last.
        var looked: ContinuousClock.Instant?
        var isReading = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    /// Most blobs that are remembered, about 200 **bytes** of memory each at most; beyond them, the manifest that was
    /// read first is forgotten.
    private static let mostBlobs = 4_000_000
    /// Most **bytes** of a part, as stored and decoded.
    private static let longestText: UInt64 = 64 << 20

    private let documents: DocumentCache
    private let objects: ObjectCache
    private let context: CacheContext
    private let state = Mutex(State())

    init(documents: DocumentCache, objects: ObjectCache, _ context: CacheContext) {
        (self.documents, self.objects, self.context) = (documents, objects, context)
    }

    /// The object that a path names by its digest; `nil` for any other path.
    func object(at path: RequestPath) async -> (object: NamedObject, map: PackMap?)? {
        await readNew()
        if let found = known(path) { return found }
        await refresh()
        if let found = known(path) { return found }
        guard let digest = path.pack else { return nil }
        return (NamedObject(digest: digest, size: nil, isPack: true), nil)
    }

    private func known(_ path: RequestPath) -> (object: NamedObject, map: PackMap?)? {
        let name = Array(path.names.joined(separator: [0x2F]))
        return state.withLock { state in
            var object: NamedObject?
            if let digest = path.pack { object = NamedObject(digest: digest, size: nil, isPack: true) }
            for (_, facts) in state.facts.reversed() where object == nil { object = facts.objects[name] }
            guard var object else { return nil }
            guard object.isPack else { return (object, nil) }
            guard let map = state.packs[object.digest] else { return nil }
            object.size = map.size
            return (object, map)
        }
    }

    // MARK: Reading manifests

    /// The documents that have arrived since the last call and may be manifests; the latest first.
    private func arrived() -> [String] {
        documents.takeFresh().filter { $0.hasSuffix(".json") || $0.hasSuffix(".json.zst") }
    }

    /// Reads the manifests that have arrived.
    private func readNew() async {
        let arrived = arrived()
        let isDue = state.withLock { state in
            state.unread.removeAll(where: arrived.contains)
            state.unread = arrived + state.unread
            return !state.unread.isEmpty || state.isReading
        }
        guard isDue else { return }
        await alone {
            while let path = self.state.withLock({ $0.unread.isEmpty ? nil : $0.unread.removeFirst() }) {
                await self.read(path)
            }
        }
    }

    /// Fetches the directory's own manifest: a client that asks for a pack may have the manifest from elsewhere.
    private func refresh() async {
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            guard state.looked.map({ now - $0 >= .seconds(30) }) ?? true else { return false }
            state.looked = now
            return true
        }
        guard isDue else { return await alone {} }
        await alone {
            for name in ["manifest.json.zst", "manifest.json"] {
                if case .current = await self.documents.current([Array(name.utf8)]) { break }
            }
            let missed = self.state.withLock { state in
                defer { state.missed = [] }
                return state.missed
            }
            let arrived = self.arrived()
            for path in arrived + missed.filter({ !arrived.contains($0) }) { await self.read(path) }
        }
    }

    /// Runs work while no other call does.
    private func alone(_ work: @escaping @Sendable () async -> Void) async {
        while true {
            let isFree = state.withLock { state in
                defer { state.isReading = true }
                return !state.isReading
            }
            if isFree { break }
            await withCheckedContinuation { continuation in
                let isFree = state.withLock { state in
                    if state.isReading { state.waiters.append(continuation) }
                    return !state.isReading
                }
                if isFree { continuation.resume() }
            }
        }
        await work()
        let waiters = state.withLock { state in
            state.isReading = false
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func read(_ path: String) async {
        guard let text = documents.text(at: path).flatMap(plainText), let digest = try? sha256(text) else { return }
        let isKnown = state.withLock { state in
            guard let index = state.facts.firstIndex(where: { $0.facts.digest == digest }) else { return false }
            // The same manifest in another form, or again: it becomes the latest.
            let facts = state.facts.remove(at: index).facts
            state.facts.append((path, facts))
            return true
        }
        if isKnown { return }
        let facts: SetFacts
        do { facts = try await self.facts(of: text, digest, at: path) } catch is Unavailable {
            state.withLock { state in if !state.missed.contains(path) { state.missed.append(path) } }
            return
        } catch {
            // Not every document is a manifest.
            return
        }
        state.withLock { state in
            state.facts.removeAll { $0.path == path }
            state.facts.append((path, facts))
            var count = state.facts.reduce(0) { $0 + $1.facts.blobCount }
            while count > Self.mostBlobs, state.facts.count > 1 { count -= state.facts.removeFirst().facts.blobCount }
            state.packs = [:]
            for (_, facts) in state.facts.reversed() {
                for (pack, map) in facts.packs { state.packs[pack] = state.packs[pack]?.adding(map) ?? map }
            }
        }
    }

    /// - Throws: If the text is no manifest, or some part of it cannot be fetched.
    private func facts(of text: [UInt8], _ digest: SHA256Digest, at path: String) async throws -> SetFacts {
        var directory = path.utf8.split(separator: 0x2F).dropLast().compactMap { percentDecoded($0) }
        // URLs of manifests in these folders resolve against the directory above.
        if let last = directory.last, ["channels", "manifests"].contains(where: { last.elementsEqual($0.utf8) }) {
            directory.removeLast()
        }
        var assembly = try ManifestAssembly(text, digest: digest)
        // By pack.
        var blobs: [UInt32: [BlobCheck]] = [:]
        // A text that is made from another one cannot be checked alone: its range is checked with its pack, which is
        // small.
        for own in assembly.parts.map({ $0.chain[0] }) + [assembly.dictionary].compactMap(\.self) {
            blobs[own.blob.pack, default: []].append(BlobCheck(own.blob, own.digest))
        }
        func map(of own: Manifest.OwnBlob, _ pack: Manifest.Pack) -> PackMap {
            PackMap(size: pack.size, found: blobs[own.blob.pack] ?? [], dictionary: nil)
        }
        var dictionary: DecodingDictionary?
        if let shared = assembly.dictionary {
            let pack = assembly.pack(of: shared)
            let bytes = try await content(
                shared, pack, map(of: shared, pack), directory, most: Manifest.longestDictionary)
            dictionary = try bytes.withUnsafeBytes { try DecodingDictionary($0) }
        }
        var maps: [UInt32: PackMap] = [:]
        for part in assembly.parts {
            var text: [UInt8] = []
            for (number, own) in part.chain.enumerated() {
                let pack = assembly.pack(of: own)
                let known = maps[own.blob.pack] ?? map(of: own, pack)
                maps[own.blob.pack] = known
                text = try await content(
                    own, pack, known, directory, most: Self.longestText, behind: number == 0 ? nil : text)
            }
            try text.withUnsafeBytes { try assembly.add($0) }
        }
        let manifest = try assembly.finish()
        return SetFacts(of: manifest, digest, blobs, dictionary, context.origin, directory)
    }

    private struct Unavailable: Error {}

    /// The raw bytes of a text or of the dictionary, read through the cache itself.
    ///
    /// - Parameter prefix: The text that it is made from.
    private func content(
        _ own: Manifest.OwnBlob, _ pack: Manifest.Pack, _ map: PackMap, _ directory: [[UInt8]], most: UInt64,
        behind prefix: [UInt8]? = nil
    ) async throws -> [UInt8] {
        let blob = own.blob
        guard blob.storedLength <= most, blob.rawLength <= most,
            let names = pack.urls.lazy.compactMap({ self.context.origin.names(of: $0, from: directory) }).first
        else { throw Unavailable() }
        let reading = ObjectCache.Reading(
            object: NamedObject(digest: pack.sha256, size: pack.size, isPack: true), names: names, size: pack.size,
            map: map, range: blob.range)
        var stored: [UInt8] = []
        let cursor = ReadCursor()
        while UInt64(stored.count) < blob.storedLength {
            let piece = await objects.next(
                reading, at: blob.offset + UInt64(stored.count), unproven: nil, cursor)
            guard case .bytes(let bytes, _, _) = piece else { throw Unavailable() }
            stored += bytes
        }
        let raw = try BlobDecoder.decode(
            stored, as: blob.codec, behind: prefix, length: Int(clamping: blob.rawLength))
        guard try sha256(raw) == own.digest else { throw Unavailable() }
        return raw
    }
}

extension SetFacts {
    /// - Parameter blobs: By pack, those that are not in the manifest's tables.
    fileprivate init(
        of manifest: Manifest, _ digest: SHA256Digest, _ blobs: [UInt32: [BlobCheck]],
        _ dictionary: DecodingDictionary?, _ origin: CacheOrigin, _ directory: [[UInt8]]
    ) {
        self.init(digest: digest)
        var blobs = blobs
        let files = manifest.files
        for row in files.indices {
            for blob in files.blobs(row) {
                blobs[blob.pack, default: []].append(BlobCheck(blob, files.digest(of: blob, in: row)))
            }
            guard files.size(row) > 0, files.checks[row] == nil else { continue }
            let object = NamedObject(digest: files.digest(row), size: files.size(row), isPack: false)
            for url in files.urls(row) { add(object, at: origin.names(of: url, from: directory)) }
        }
        for (index, pack) in manifest.packs.enumerated() {
            let map = PackMap(
                size: pack.size, found: blobs[UInt32(truncatingIfNeeded: index)] ?? [], dictionary: dictionary)
            packs[pack.sha256] = map
            blobCount += map.blobs.count
            let object = NamedObject(digest: pack.sha256, size: pack.size, isPack: true)
            for url in pack.urls { add(object, at: origin.names(of: url, from: directory)) }
        }
    }

    private mutating func add(_ object: NamedObject, at names: [[UInt8]]?) {
        if let names { objects[Array(names.joined(separator: [0x2F]))] = object }
    }
}
