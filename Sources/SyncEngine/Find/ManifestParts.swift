import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Reads the parts of a manifest, in order, from the cache or from their packs. One text is in memory at a
/// time, or two where one is made from the other.
struct ManifestParts: Sendable {
    let source: ManifestSource
    /// The bases of relative URLs.
    let bases: [String]
    /// The referrer of requests for parts; `nil` for a local manifest.
    let referrer: TransferRequest.Referrer?
    /// The manifest, for people.
    let shown: String

    /// How often a part with wrong bytes is fetched again, unless the same bytes come from the same place.
    private static let repetitions = 2

    /// Adds every part to an assembly.
    ///
    /// - Throws: ``EngineError``: 65 for a part that is wrong, with its number; 69 or 77 for one that cannot be
    ///   fetched.
    func add(to assembly: inout ManifestAssembly, root: SHA256Digest) throws(EngineError) {
        let all = assembly.parts.map(\.text.digest)
        if let shard = source.shard, let range = shard.parts(of: assembly.parts) {
            do throws(ManifestError) { try assembly.narrow(to: range) } catch {
                throw EngineError(.internalError, "\(error)")
            }
        }
        do throws(ManifestError) { try assembly.checkTotals() } catch { throw refusal(error) }
        let parts = assembly.parts
        var urls: [UInt32: [String]] = [:]
        func wanted(_ index: Int, _ own: Manifest.OwnBlob) -> PartFetch.Wanted {
            let pack = assembly.pack(of: own)
            let resolved = urls[own.blob.pack] ?? ofOneKind(resolve(pack.urls, against: bases))
            urls[own.blob.pack] = resolved
            return request(index, own, resolved, packSize: pack.size)
        }
        let dictionary = assembly.dictionary.map { wanted(0, $0) }
        let areLocal = parts.allSatisfy { $0.chain.allSatisfy { isLocal(wanted(0, $0)) } }
        if !areLocal || dictionary.map(isLocal) == false {
            source.cache.note(all + [dictionary?.own.digest].compactMap { $0 }, of: root)
        }
        if let dictionary { fetchAhead(dictionary) }
        guard !parts.isEmpty else { return }
        // How many texts of each part's chain need not be fetched, because the last of them is in the cache.
        let known = parts.map { part in
            areLocal ? 0 : (part.chain.lastIndex { source.cache.hasPart($0.digest) } ?? -1) + 1
        }
        // Two parts may be made from one text: it is fetched once.
        var numbers: [Manifest.OwnBlob: Int] = [:]
        var texts: [PartFetch.Wanted] = []
        let steps = zip(parts, known).map { part, known in
            part.chain.dropFirst(known).map { own in
                if let number = numbers[own] { return texts[number] }
                numbers[own] = texts.count
                texts.append(wanted(texts.count, own))
                return texts[texts.count - 1]
            }
        }
        let arrival = Arrival(PartFetch(texts, source), uses: steps)
        defer { arrival.fetch.cancel() }
        var reader = try PartDecoder.make()
        for (index, part) in parts.enumerated() {
            let what = "part \(index)"
            var text: [UInt8]?
            if known[index] > 0 {
                let own = part.chain[known[index] - 1]
                text = source.cache.part(own.digest).flatMap { reader.text($0, own, behind: nil) }
            }
            let isFetched = known[index] < part.chain.count || text == nil
            if known[index] > 0, text == nil {
                text = try fetchWhole(part.chain.enumerated().map { wanted($0, $1) }, what, &reader)
            } else {
                text = try self.text(steps[index], behind: text, arrival, what, &reader)
            }
            if isFetched { source.counts.withLock { $0.partsFetched += 1 } }
            source.counts.withLock { $0.parts += 1 }
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while reading the manifest") }
            try add(text ?? [], to: &assembly)
        }
    }

    /// The error for a manifest that is too large to be read. Shards read only their own parts, a join reads all.
    private func refusal(_ error: ManifestError) -> EngineError {
        guard source.isForPieces, source.shard == nil else { return EngineError(.dataInvalid, "\(shown): \(error)") }
        return EngineError(
            .dataInvalid,
            "\(shown): a join reads the whole manifest, and this one is too large for that (\(error.reason)). The files of "
                + "shards that ended with 0 are in place and verified; whether shards are missing was not checked. For what "
                + "only a join does, such as hooks, --prune and empty directories, publish the set as several sets")
    }

    /// Begins to fetch the dictionary while parts are read, unless it is in the cache.
    private func fetchAhead(_ dictionary: PartFetch.Wanted) {
        guard !isLocal(dictionary), !source.cache.isReadOnly, !source.cache.hasPart(dictionary.own.digest) else {
            return
        }
        source.ahead.withLock { [source] known in
            guard known?.digest != dictionary.own.digest else { return }
            let fetch = PartFetch([dictionary], source)
            fetch.begin()
            known = (dictionary.own.digest, fetch)
        }
    }

    /// The text of a part whose cached text is damaged: everything that it is made from is fetched.
    private func fetchWhole(_ steps: [PartFetch.Wanted], _ what: String, _ reader: inout PartDecoder)
        throws(EngineError) -> [UInt8]?
    {
        let arrival = Arrival(PartFetch(steps, source), uses: [steps])
        defer { arrival.fetch.cancel() }
        return try text(steps, behind: nil, arrival, what, &reader)
    }

    /// Makes a part's text, step by step, from the one before it.
    private func text(
        _ steps: [PartFetch.Wanted], behind former: [UInt8]?, _ arrival: Arrival, _ what: String,
        _ reader: inout PartDecoder
    ) throws(EngineError) -> [UInt8]? {
        var text = former
        for (number, step) in steps.enumerated() {
            let response: PartFetch.Received?
            do throws(TransferError) { response = try arrival.take(step.index) } catch { throw failure(what, error) }
            text = try self.text(step, behind: text, response, what, isKept: number == steps.count - 1, &reader)
        }
        return text
    }

    private func request(_ index: Int, _ own: Manifest.OwnBlob, _ urls: [String], packSize: UInt64)
        -> PartFetch.Wanted
    { PartFetch.Wanted(index: index, own: own, urls: urls, packSize: packSize, referrer: referrer) }

    /// Packs beside a local manifest are read in place.
    private func isLocal(_ part: PartFetch.Wanted) -> Bool { SyncEngine.isLocal(part.urls) }

    /// The dictionary of a manifest, from the cache or the network.
    func dictionary(_ named: Manifest.OwnBlob, of manifest: Manifest) throws(EngineError) -> [UInt8] {
        var reader = try PartDecoder.make()
        if let known = source.cache.part(named.digest), let bytes = reader.text(known, named, behind: nil) {
            return bytes
        }
        let pack = manifest.packs[Int(named.blob.pack)]
        let wanted = request(0, named, ofOneKind(resolve(pack.urls, against: bases)), packSize: pack.size)
        let ahead = source.ahead.withLock { known -> PartFetch? in
            guard known?.digest == named.digest else { return nil }
            defer { known = nil }
            return known?.fetch
        }
        let fetch = ahead ?? PartFetch([wanted], source)
        defer { fetch.cancel() }
        let response: [Int: PartFetch.Received]
        do throws(TransferError) { response = try fetch.take(0).get() } catch { throw failure("the dictionary", error) }
        return try text(wanted, behind: nil, response[0], "the dictionary", isKept: true, &reader)
    }

    /// Decodes a text from received bytes, or fetches it again.
    ///
    /// - Parameters:
    ///   - prefix: The text that it is made from; `nil` for none.
    ///   - first: The received bytes; `nil` for none.
    private func text(
        _ wanted: PartFetch.Wanted, behind prefix: [UInt8]?, _ first: PartFetch.Received?, _ what: String,
        isKept: Bool, _ reader: inout PartDecoder
    ) throws(EngineError) -> [UInt8] {
        var received = first
        var wrong: PartFetch.Received?
        for repetition in 0...(Self.repetitions + 1) {
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while reading the manifest") }
            if let response = received {
                // The same bytes from the same place: they would only come again.
                guard response.bytes != wrong?.bytes || response.url != wrong?.url else { break }
                if response.bytes != wrong?.bytes, let text = reader.text(response.bytes, wanted.own, behind: prefix) {
                    if isKept, !isLocal(wanted) {
                        source.cache.keep(
                            part: prefix == nil ? response.bytes : reader.stored(text), wanted.own.digest)
                    }
                    return text
                }
                // Reading a local file again gives the same bytes.
                guard repetition <= Self.repetitions, !isLocal(wanted) else { break }
                wrong = response
                if let url = response.url {
                    source.transport.reportFault(url: url, reason: "a part of the manifest is wrong")
                }
            }
            do throws(TransferError) { received = try PartFetch.again(wanted, source).get() } catch {
                throw failure(what, error)
            }
        }
        throw EngineError(
            .dataInvalid,
            "\(shown): \(what) of the manifest does not match its SHA-256 (pack \(redacted(url: wanted.urls.first ?? "")), "
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

/// Received texts, several from one request, each kept until its last use.
private final class Arrival {
    let fetch: PartFetch
    private var uses: [Int: Int] = [:]
    private var received: [Int: PartFetch.Received] = [:]
    private var bytes = 0

    /// The most **bytes** kept; beyond that, all are dropped, and fetched again when they are needed.
    private static let most = 128 << 20

    /// - Parameter uses: Every use of a text that is fetched.
    init(_ fetch: PartFetch, uses: [[PartFetch.Wanted]]) {
        self.fetch = fetch
        for step in uses.joined() { self.uses[step.index, default: 0] += 1 }
    }

    /// Waits for a text; `nil` if it did not come with its request, or was dropped.
    func take(_ index: Int) throws(TransferError) -> PartFetch.Received? {
        if received[index] == nil {
            for (index, response) in try fetch.take(index).get() {
                received[index] = response
                bytes += response.bytes.count
            }
        }
        let response = received[index]
        uses[index, default: 1] -= 1
        if uses[index] == 0 { bytes -= received.removeValue(forKey: index)?.bytes.count ?? 0 }
        if bytes > Self.most { (received, bytes) = ([:], 0) }
        return response
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

    /// The decoded text; `nil` if it is wrong.
    ///
    /// - Parameter prefix: The text that the frame was made from; `nil` for a text that is stored whole, or cached.
    mutating func text(_ stored: [UInt8], _ own: Manifest.OwnBlob, behind prefix: [UInt8]?) -> [UInt8]? {
        guard let length = Int(exactly: own.blob.rawLength) else { return nil }
        do {
            var text = stored
            // A cached text may be compressed although this root says "none", or the other way round.
            if prefix != nil || stored.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) {
                // The length comes from the manifest, so memory is only touched as it is written.
                text = try Array(unsafeUninitializedCapacity: length) { buffer, used in
                    let target = UnsafeMutableRawBufferPointer(buffer)
                    try stored.withUnsafeBytes { frame in
                        guard let prefix else { return try decompressor.decode(frame, into: target) }
                        try prefix.withUnsafeBytes { try decompressor.decode(frame, behind: $0, into: target) }
                    }
                    used = length
                }
            }
            guard text.count == length else { return nil }
            return try text.withUnsafeBytes { try hasher.digest(of: $0) } == own.digest ? text : nil
        } catch { return nil }
    }

    /// A text in the form in which it is cached.
    mutating func stored(_ text: [UInt8]) -> [UInt8] {
        // A text that does not compress is kept as it is.
        (try? compressor.encode(text, most: text.count)) ?? text
    }
}
