import SyncContent
public import SyncModel

/// Makes packs and a manifest of an ``AssetTree`` in memory, without the publisher: so that the two are tested
/// against something other than each other.
public struct ManifestBuilder: Sendable {
    /// What is published.
    public var tree: AssetTree
    /// `project` of the manifest.
    public var project = "com.example.tower"
    /// `revision` of the manifest.
    public var revision = 1
    /// Most **bytes** of one pack, unless one blob alone is larger.
    public var packSize = 1 << 20
    /// How blobs are stored.
    public var codec = Codec.identity
    /// Files above this many **bytes** are cut into chunks of that size with digests of their own; `nil` never.
    public var chunkSize: Int?
    /// Cuts files above ``chunkSize`` in another way: lengths of the chunks of a file.
    public var cut: (@Sendable ([UInt8]) -> [Int])?
    /// `x-chunking` of the manifest, as JSON.
    public var chunking: String?
    /// Files above this many **bytes** are served alone, with a URL; `nil` none, -1 all.
    public var looseAbove: Int?
    /// Files have a URL besides their blobs.
    public var hasFallbackURLs = false
    /// Put before each URL: mirrors, best first. Empty for URLs relative to the manifest.
    public var mirrors: [String] = []
    /// `groups` of the manifest: names and patterns.
    public var groups: [(name: String, include: [String])] = []

    /// A former revision: blobs get deltas against the same bytes of the file's former version.
    public var former: AssetTree?

    /// What blobs are made with when ``codec`` is ``Codec/zstdDictionary``; the last pack has it.
    public var dictionary: [UInt8] = []

    /// Makes a builder for a tree.
    public init(_ tree: AssetTree) { self.tree = tree }

    private struct StoredBlob {
        var pack: Int
        var offset: Int
        var stored: Int
        var raw: Int
        var digest: SHA256Digest
    }

    /// Builds all objects. Equal input gives equal output.
    ///
    /// - Throws: ``TestKitError`` when OpenSSL or zstd refuses.
    public func build() throws(TestKitError) -> PublishedSet {
        var packs: [[UInt8]] = []
        var blobs: [String: [StoredBlob]] = [:]
        var loose: [String: [UInt8]] = [:]
        let paths = tree.paths.sorted(by: precedesInPathOrder)
        for path in paths {
            guard let bytes = tree.bytes(path), !bytes.isEmpty else { continue }
            let isLoose = looseAbove.map { bytes.count > $0 } ?? false
            if isLoose || hasFallbackURLs { loose["files/\(path)"] = bytes }
            if isLoose { continue }
            for chunk in chunks(of: bytes) {
                let stored = codec.isCompressed ? try compressed(chunk) : Array(chunk)
                if packs.last.map({ $0.count + stored.count > packSize }) ?? true { packs.append([]) }
                let pack = packs.count - 1
                blobs[path, default: []].append(
                    StoredBlob(
                        pack: pack, offset: packs[pack].count, stored: stored.count, raw: chunk.count,
                        digest: try digest(Array(chunk))))
                packs[pack] += stored
            }
        }
        let deltas = try deltas(of: paths, in: &packs)
        if !dictionary.isEmpty { packs.append(dictionary) }
        var named: [(name: String, digest: SHA256Digest, bytes: [UInt8])] = []
        for bytes in packs {
            let digest = try digest(bytes)
            named.append(("packs/\(digest.hex).pack", digest, bytes))
        }
        var fileDigests: [String: SHA256Digest] = [:]
        for path in paths { if let bytes = tree.bytes(path) { fileDigests[path] = try digest(bytes) } }
        let dictionaryDigest = dictionary.isEmpty ? nil : try digest(dictionary)
        let json = JSONLine.object { line in
            line.field("format", "syncagent-manifest/1")
            line.field("project", project)
            line.field("revision", revision)
            line.field("created", "2026-11-20T02:00:00Z")
            if let chunking { line.json("x-chunking", chunking) }
            if let dictionaryDigest {
                line.array("dictionary") { line in
                    for number in [named.count - 1, 0, dictionary.count, dictionary.count] { line.value(number) }
                    line.value(Codec.identity.name)
                    line.value(dictionaryDigest.hex)
                }
            }
            line.list("packs", named) { pack, line in
                writeURLs(pack.name, &line)
                line.field("size", pack.bytes.count)
                line.field("sha256", pack.digest.hex)
            }
            line.array("files") { line in
                for path in paths {
                    writeFile(path, fileDigests[path], blobs[path] ?? [], loose, deltas[path] ?? [], &line)
                }
            }
            if !groups.isEmpty {
                line.list("groups", groups) { group, line in
                    line.field("name", group.name)
                    line.field("include", group.include)
                }
            }
        }
        return PublishedSet(
            tree: tree, manifest: json.bytes, packs: named.map { ($0.name, $0.bytes) },
            loose: loose.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    private func chunks(of bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        guard let size = chunkSize, bytes.count > size else { return [bytes[...]] }
        if let cut {
            var start = 0
            return cut(bytes).map { length in
                defer { start += length }
                return bytes[start..<(start + length)]
            }
        }
        return stride(from: 0, to: bytes.count, by: size).map { bytes[$0..<min($0 + size, bytes.count)] }
    }

    // MARK: JSON

    private func writeURLs(_ name: String, _ line: inout JSONLine) {
        let urls = mirrors.isEmpty ? [percentEncoded(name)] : mirrors.map { $0 + percentEncoded(name) }
        if urls.count == 1 { return line.field("url", urls[0]) }
        line.field("urls", urls)
    }

    private func writeFile(
        _ path: String, _ digest: SHA256Digest?, _ blobs: [StoredBlob], _ loose: [String: [UInt8]],
        _ deltas: [StoredDelta], _ line: inout JSONLine
    ) {
        line.object { line in
            line.field("path", path)
            switch tree.nodes[path] {
            case .link(let target): line.field("link", target)
            case .file(let bytes, let executable):
                line.field("size", bytes.count)
                line.field("sha256", digest?.hex ?? "")
                if executable { line.field("executable", true) }
                if !blobs.isEmpty { writeBlobs(blobs, &line) }
                let name = "files/\(path)"
                if loose[name] != nil {
                    line.array("urls") { line in
                        for base in mirrors.isEmpty ? [""] : mirrors { line.value(base + percentEncoded(name)) }
                    }
                }
            case nil: break
            }
            writeDeltas(deltas, of: path, &line)
        }
    }

    private func writeBlobs(_ blobs: [StoredBlob], _ line: inout JSONLine) {
        line.array("blobs") { line in
            for blob in blobs {
                line.array { line in
                    for number in [blob.pack, blob.offset, blob.stored] { line.value(number) }
                    guard blobs.count > 1 || codec != .identity else { return }
                    line.value(blob.raw)
                    line.value(codec.name)
                    if blobs.count > 1 { line.value(blob.digest.hex) }
                }
            }
        }
    }

    // MARK: Deltas

    private struct StoredDelta {
        var blob: Int
        var offset: Int
        var stored: Int
        var pack: Int
        var base: Range<Int>
        var baseDigest: SHA256Digest
        var baseFile: SHA256Digest
    }

    /// Deltas of every chunk whose file has former bytes at the same place, in a pack of their own.
    private func deltas(of paths: [String], in packs: inout [[UInt8]]) throws(TestKitError) -> [String: [StoredDelta]] {
        var deltas: [String: [StoredDelta]] = [:]
        var pack: [UInt8] = []
        for path in paths {
            guard let bytes = tree.bytes(path), let old = former?.bytes(path), old != bytes else { continue }
            var start = 0
            for (position, chunk) in chunks(of: bytes).enumerated() {
                let base = start..<min(old.count, start + chunk.count)
                start += chunk.count
                guard base.count > 0 else { break }
                let stored = try compressed(chunk, behind: Array(old[base]))
                deltas[path, default: []].append(
                    StoredDelta(
                        blob: position, offset: pack.count, stored: stored.count, pack: packs.count, base: base,
                        baseDigest: try digest(Array(old[base])), baseFile: try digest(old)))
                pack += stored
            }
        }
        if !pack.isEmpty { packs.append(pack) }
        return deltas
    }

    private func writeDeltas(_ deltas: [StoredDelta], of path: String, _ line: inout JSONLine) {
        guard let first = deltas.first else { return }
        line.object("x-deltas") { line in
            line.field("base", first.baseFile.hex)
            line.array("blobs") { line in
                for delta in deltas {
                    line.array { line in
                        for number in [
                            delta.blob, delta.pack, delta.offset, delta.stored, delta.base.lowerBound, delta.base.count,
                        ] { line.value(number) }
                        line.value(delta.baseDigest.hex)
                    }
                }
            }
        }
    }

    // MARK: Bytes

    private func digest(_ bytes: [UInt8]) throws(TestKitError) -> SHA256Digest {
        do { return try bytes.withUnsafeBytes { try sha256($0) } } catch { throw TestKitError("\(error)") }
    }

    private func compressor(isDelta: Bool) throws -> ZstdCompressor {
        guard codec.needsDictionary, !isDelta else { return try ZstdCompressor(level: 3) }
        return try ZstdCompressor(with: try dictionary.withUnsafeBytes { try EncodingDictionary($0, level: 3) })
    }

    private func compressed(_ bytes: ArraySlice<UInt8>, behind prefix: [UInt8]? = nil) throws(TestKitError) -> [UInt8] {
        do {
            var compressor = try compressor(isDelta: prefix != nil)
            let most = ZstdCompressor.bound(bytes.count)
            return try compressor.encode(Array(bytes), behind: prefix, most: most) ?? []
        } catch { throw TestKitError("\(error)") }
    }
}

/// Everything a web server needs to have for one revision of a set.
public struct PublishedSet: Sendable {
    /// What was published.
    public let tree: AssetTree
    /// The manifest, JSON.
    public var manifest: [UInt8]
    /// Packs by the name the manifest gives, `packs/….pack`.
    public var packs: [(name: String, bytes: [UInt8])]
    /// Files served alone, `files/PATH`, not percent-encoded.
    public var loose: [(name: String, bytes: [UInt8])]

    /// Sum of all objects but the manifest, in **bytes**.
    public var byteCount: Int { (packs + loose).reduce(0) { $0 + $1.bytes.count } }

    /// Every object by its URL path below a directory such as `/tower`; the manifest is `/tower/manifest.json`.
    public func objects(under directory: String) -> [(path: String, object: ServedObject)] {
        var manifestObject = ServedObject(manifest)
        manifestObject.contentType = "application/json"
        return [("\(directory)/manifest.json", manifestObject)]
            + (packs + loose).map { ("\(directory)/\(percentEncoded($0.name))", ServedObject($0.bytes)) }
    }

    /// Serves every object without faults.
    public func mount(on server: FaultServer, under directory: String = "/tower") {
        for (path, object) in objects(under: directory) { server.serve(object, at: path) }
    }

    /// Writes every object below a directory, for a real web server.
    public func write(to root: TemporaryRoot, under directory: String) throws(TestKitError) {
        try root.write(manifest, to: "\(directory)/manifest.json")
        for object in packs + loose { try root.write(object.bytes, to: "\(directory)/\(object.name)") }
    }
}

/// A path as it stands in a URL: all but unreserved characters and `/` percent-encoded. RFC 3986 §2.3.
public func percentEncoded(_ path: String) -> String { percentEncoded(bytes: path.utf8) }

private func precedesInPathOrder(_ a: String, _ b: String) -> Bool {
    Array(a.utf8).withUnsafeBufferPointer { a in Array(b.utf8).withUnsafeBufferPointer { PathOrder.precedes(a, $0) } }
}
