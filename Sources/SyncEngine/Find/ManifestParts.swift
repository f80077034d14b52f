import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Reads the parts of a manifest, in order, from the cache or from their packs. One text is in memory at a time.
struct ManifestParts: Sendable {
    let source: ManifestSource
    /// What relative URLs resolve against.
    let bases: [String]
    /// Where the manifest came from; `nil` for a local one.
    let referrer: TransferRequest.Referrer?
    /// The manifest, for people.
    let shown: String

    /// How often a part with wrong bytes is fetched again, as long as the bytes differ: equal ones would only come
    /// again.
    private static let repetitions = 2

    /// Adds every part to an assembly.
    ///
    /// - Throws: ``EngineError``: 65 for a part that is wrong, with its number; 69 for one that cannot be had.
    func add(to assembly: inout ManifestAssembly, root: SHA256Digest) throws(EngineError) {
        let all = assembly.parts.map(\.digest)
        if let shard = source.shard, let range = shard.parts(of: assembly.parts) {
            do throws(ManifestError) { try assembly.narrow(to: range) } catch {
                throw EngineError(.internalError, "\(error)")
            }
        }
        let parts = assembly.parts
        var wanted = parts.indices.map { request($0, parts[$0], assembly) }
        let dictionary = assembly.dictionary.map {
            (digest: $0.digest, wanted: request(0, $0.blob, assembly.pack(of: $0)))
        }
        if !(wanted + [dictionary?.wanted].compactMap { $0 }).allSatisfy(isLocal) {
            source.parts.note(all + [dictionary?.digest].compactMap { $0 }, of: root)
        }
        if let (digest, wanted) = dictionary, !isLocal(wanted), source.cache != nil, !source.parts.has(digest) {
            source.ahead.withLock { [source] known in
                guard known?.digest != digest else { return }
                let fetch = PartFetch([wanted], source)
                fetch.begin()
                known = (digest, fetch)
            }
        }
        guard !parts.isEmpty else { return }
        let isCached = wanted.map { !isLocal($0) && source.parts.has(parts[$0.index].digest) }
        for index in parts.indices where !isCached[index] && !isLocal(wanted[index]) {
            guard let delta = parts[index].delta, source.parts.has(delta.base) else { continue }
            wanted[index] = request(index, delta, assembly)
        }
        let fetch = PartFetch(wanted.filter { !isCached[$0.index] }, source)
        defer { fetch.cancel() }
        var reader = try PartDecoder.make()
        var received: [Int: PartFetch.Received] = [:]
        for part in wanted {
            let text: [UInt8]
            let (index, digest) = (part.index, parts[part.index].digest)
            if isCached[index], let known = source.parts.part(digest),
                let raw = reader.text(known, parts[index].blob, digest)
            {
                text = raw
            } else {
                if !isCached[index], received[index] == nil {
                    received.merge(try bring(index, fetch, "part \(index)")) { $1 }
                }
                let came = received.removeValue(forKey: index)
                if part.isDelta, let came, let raw = reader.text(came.bytes, parts[index], source.parts) {
                    text = raw
                } else {
                    let whole = request(index, parts[index], assembly)
                    text = try self.text(whole, digest, part.isDelta ? nil : came, "part \(index)", &reader)
                }
                source.counts.withLock { $0.partsFetched += 1 }
            }
            source.counts.withLock { $0.parts += 1 }
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while reading the manifest") }
            try add(text, to: &assembly)
        }
    }

    private func request(_ index: Int, _ part: Manifest.Part, _ assembly: ManifestAssembly) -> PartFetch.Wanted {
        request(index, part.blob, assembly.pack(of: part))
    }

    private func request(_ index: Int, _ blob: Blob, _ pack: Manifest.Pack) -> PartFetch.Wanted {
        PartFetch.Wanted(
            index: index, blob: blob, urls: ofOneKind(resolve(pack.urls, against: bases)), packSize: pack.size,
            referrer: referrer)
    }

    private func request(_ index: Int, _ delta: Manifest.PartDelta, _ assembly: ManifestAssembly) -> PartFetch.Wanted {
        let pack = assembly.pack(of: delta)
        let blob = Blob(
            pack: delta.pack, codec: .zstd, offset: delta.offset, storedLength: delta.storedLength,
            rawLength: delta.storedLength)
        var wanted = request(index, blob, pack)
        wanted.isDelta = true
        return wanted
    }

    /// Packs beside a local manifest are read in place.
    private func isLocal(_ part: PartFetch.Wanted) -> Bool { SyncEngine.isLocal(part.urls) }

    /// - Parameter what: The part, for people.
    private func bring(_ index: Int, _ fetch: PartFetch, _ what: String) throws(EngineError) -> [Int: PartFetch
        .Received]
    {
        do throws(TransferError) { return try fetch.take(index).get() } catch { throw failure(what, error) }
    }

    /// The dictionary of a manifest, from the cache or the network.
    func dictionary(_ named: Manifest.SharedDictionary, of manifest: Manifest) throws(EngineError) -> [UInt8] {
        var reader = try PartDecoder.make()
        if let known = source.parts.part(named.digest), let bytes = reader.text(known, named.blob, named.digest) {
            return bytes
        }
        let wanted = request(0, named.blob, manifest.packs[Int(named.blob.pack)])
        let ahead = source.ahead.withLock { known -> PartFetch? in
            guard known?.digest == named.digest else { return nil }
            defer { known = nil }
            return known?.fetch
        }
        let fetch = ahead ?? PartFetch([wanted], source)
        defer { fetch.cancel() }
        let came = try bring(0, fetch, "the dictionary")[0]
        return try text(wanted, named.digest, came, "the dictionary", &reader)
    }

    /// Fetches the text of a part that is not in the cache, or is damaged there.
    private func text(
        _ wanted: PartFetch.Wanted, _ digest: SHA256Digest, _ first: PartFetch.Received?, _ what: String,
        _ reader: inout PartDecoder
    ) throws(EngineError) -> [UInt8] {
        var received = first
        var wrong: PartFetch.Received?
        for repetition in 0...(Self.repetitions + 1) {
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while reading the manifest") }
            if let came = received {
                // The same from the same place would only come again.
                guard came.bytes != wrong?.bytes || came.url != wrong?.url else { break }
                if came.bytes != wrong?.bytes, let text = reader.text(came.bytes, wanted.blob, digest) {
                    if !isLocal(wanted) { source.parts.keep(came.bytes, digest) }
                    return text
                }
                // Reading a local file again gives the same bytes.
                guard repetition <= Self.repetitions, !isLocal(wanted) else { break }
                wrong = came
                if let url = came.url { source.transport.blame(url: url, reason: "a part of the manifest is wrong") }
            }
            do throws(TransferError) { received = try PartFetch.again(wanted, source).get() } catch {
                throw failure(what, error)
            }
        }
        throw EngineError(
            .dataInvalid,
            "\(shown): \(what) of the manifest is not what the manifest says (pack \(redacted(url: wanted.urls.first ?? "")), "
                + "byte \(wanted.blob.offset)); publish the set again")
    }

    private func add(_ text: [UInt8], to assembly: inout ManifestAssembly) throws(EngineError) {
        do { try text.withUnsafeBytes { try assembly.add($0) } } catch {
            throw EngineError(.dataInvalid, "\(shown): \(error)")
        }
    }

    private func failure(_ what: String, _ error: TransferError) -> EngineError {
        if source.stop.isStopped { return EngineError(.interrupted, "stopped while fetching the manifest") }
        let message = "cannot fetch \(what) of the manifest: \(error)"
        return EngineError(error.exitStatus, message, cause: error.cause)
    }
}

/// Turns stored bytes into the text of a part, and checks it against the root.
private struct PartDecoder: ~Copyable {
    private var decompressor: ZstdDecompressor
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor

    static func make() throws(EngineError) -> PartDecoder {
        do {
            return PartDecoder(
                decompressor: try ZstdDecompressor(), hasher: try SHA256Hasher(),
                compressor: try ZstdCompressor(level: 1))
        } catch { throw EngineError(.internalError, "\(error)") }
    }

    /// Applies a delta to the cached text that it is based on, and caches the result; `nil` if the result is wrong or
    /// the base damaged.
    mutating func text(_ frame: [UInt8], _ part: Manifest.Part, _ cache: PartCache) -> [UInt8]? {
        guard let delta = part.delta, let known = cache.part(delta.base),
            let length = Int(exactly: part.blob.rawLength), length <= Manifest.PartDelta.longestTexts
        else { return nil }
        do {
            var former = known
            if known.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
                former = try known.withUnsafeBytes { try decodeZstd($0, limit: Manifest.PartDelta.longestTexts) }
            }
            guard try former.withUnsafeBytes({ try hasher.digest(of: $0) }) == delta.base else { return nil }
            let text = try Array<UInt8>(unsafeUninitializedCapacity: length) { buffer, used in
                let target = UnsafeMutableRawBufferPointer(buffer)
                try frame.withUnsafeBytes { frame in
                    try former.withUnsafeBytes { try decompressor.decode(frame, behind: $0, into: target) }
                }
                used = length
            }
            guard try text.withUnsafeBytes({ try hasher.digest(of: $0) }) == part.digest else { return nil }
            var stored = [UInt8](repeating: 0, count: length)
            let count = try text.withUnsafeBytes { text in
                try stored.withUnsafeMutableBytes { try compressor.encode(text, into: $0) }
            }
            cache.keep(count.map { Array(stored[..<$0]) } ?? text, part.digest)
            return text
        } catch { return nil }
    }

    /// The decoded text; `nil` if it is wrong.
    mutating func text(_ stored: [UInt8], _ blob: Blob, _ digest: SHA256Digest) -> [UInt8]? {
        guard let length = Int(exactly: blob.rawLength) else { return nil }
        do {
            var text = stored
            // A part cached for another root may be compressed where this root says "none", or the other way round.
            if stored.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
                // The length comes from the manifest, so memory is only touched as it is written.
                text = try Array(unsafeUninitializedCapacity: length) { buffer, used in
                    let target = UnsafeMutableRawBufferPointer(buffer)
                    try stored.withUnsafeBytes { try decompressor.decode($0, into: target) }
                    used = length
                }
            }
            guard text.count == length else { return nil }
            return try text.withUnsafeBytes { try hasher.digest(of: $0) } == digest ? text : nil
        } catch { return nil }
    }
}

/// Gets a manifest's dictionary on first use, from the cache or from its pack, and keeps it in memory.
final class ManifestDictionary: Sendable {
    private let fetch: @Sendable () throws(EngineError) -> [UInt8]
    private let known = Mutex<DecodingDictionary?>(nil)

    /// - Parameter fetch: Brings the dictionary's bytes; their SHA-256 is right.
    init(_ fetch: @escaping @Sendable () throws(EngineError) -> [UInt8]) { self.fetch = fetch }

    /// The dictionary. Waits for the network; one thread at a time.
    func get() throws(EngineError) -> DecodingDictionary {
        try known.withLock { known throws(EngineError) -> DecodingDictionary in
            if let known { return known }
            let bytes = try fetch()
            do {
                let made = try bytes.withUnsafeBytes { try DecodingDictionary($0) }
                known = made
                return made
            } catch { throw EngineError(.dataInvalid, "the dictionary of the manifest: \(error)") }
        }
    }
}
