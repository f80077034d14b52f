package import SyncModel

/// Writes a manifest as JSON text, piece by piece: header, packs, files and links, or parts, and groups.
///
/// Deterministic: the same calls give the same bytes. One pack or file a line, members in a fixed order, what
/// may be left out left out, so that two manifests can be compared by line. Does no I/O: the caller takes the
/// text with ``drain(_:)`` as often as it likes, which bounds memory.
///
/// The caller keeps ``PathOrder`` and the rules of ``ManifestRules``.
package struct ManifestWriter: Sendable {
    private enum Section { case directories, packs, files, parts, groups }

    private var bytes: [UInt8] = []
    private var section = Section.directories
    private var isFirst = true
    private let isInParts: Bool
    /// Whether the text is an outline; see ``PartOutline``.
    private let isOutline: Bool
    /// What follows an outline: the first bytes of its digests.
    private var heads: [UInt8] = []
    /// Where the last blob of an outline ends.
    private var blobEnd: UInt64?

    /// Starts a manifest. A revision of 0, and everything that is `nil`, is left out.
    package init(
        project: String, revision: UInt64, created: String?, chunking: ChunkParameters? = nil, isInParts: Bool = false,
        dictionary: Manifest.OwnBlob? = nil, userData: String? = nil, source: SourceOrigin? = nil
    ) {
        (self.isInParts, isOutline) = (isInParts, false)
        put("{\"format\":\"syncagent-manifest/1\",\"project\":", project)
        if revision > 0 {
            put(",\"revision\":", revision)
        }
        if let created {
            put(",\"created\":", created)
        }
        if let source {
            put(",\"source\":{\"kind\":", source.kind)
            put(",\"url\":", source.url)
            put(",\"at\":", source.at)
            put("}")
        }
        put(userData: userData)
        if let chunking {
            put(",\"x-chunking\":{\"method\":", ChunkCutter.method)
            put(",\"minimum\":", UInt64(chunking.minimum))
            put(",\"average\":", UInt64(chunking.average))
            put(",\"maximum\":", UInt64(chunking.maximum))
            put("}")
        }
        if let dictionary {
            put(",\n\"dictionary\":")
            put(dictionary.blob, own: dictionary.digest)
        }
    }

    /// Starts the text of a part, or its outline. The pack numbers of its blobs are indices into these packs.
    package init(partWithPacks packs: [SHA256Digest], isOutline: Bool = false) {
        (isInParts, self.isOutline) = (false, isOutline)
        put("{\"packs\":[")
        for (index, pack) in packs.enumerated() {
            if index > 0 { put(",") }
            put(pack)
        }
        put("],\n\"files\":[")
        section = .files
    }

    /// **Bytes** that wait for ``drain(_:)``.
    package var pending: Int { bytes.count }

    /// Hands over the text made since the last call and forgets it.
    package mutating func drain<E: Error>(_ take: (UnsafeRawBufferPointer) throws(E) -> Void) throws(E) {
        try bytes.withUnsafeBufferPointer { text throws(E) in try take(UnsafeRawBufferPointer(text)) }
        bytes.removeAll(keepingCapacity: true)
    }

    /// Adds a directory; they come before packs, in path order.
    package mutating func directory(path: UnsafeBufferPointer<UInt8>, traits: FileTraits = .none, group: String? = nil)
    {
        if isFirst { put(",\n\"x-directories\":[") }
        next()
        put("{\"path\":", path)
        put(traits)
        put(group: group)
        put("}")
    }

    /// Adds a pack; its index is the number of packs before it.
    package mutating func pack(_ pack: Manifest.Pack) {
        enter(.packs)
        next()
        put("{")
        if pack.urls.count == 1, let url = pack.urls.first {
            put("\"url\":", url)
        } else {
            list("urls", pack.urls)
        }
        put(",\"size\":", pack.size)
        put(",\"sha256\":", pack.sha256)
        put("}")
    }

    /// Adds a file, its blobs in file order with the digest of each one's raw bytes; their `digestIndex` is ignored.
    ///
    /// - Parameters:
    ///   - size: `nil` if it is unknown, as with `digest`.
    ///   - check: The facts that a listing states about the file, if it does not state all.
    package mutating func file(
        path: UnsafeBufferPointer<UInt8>, size: UInt64?, digest: SHA256Digest?, executable: Bool,
        blobs: some Collection<(blob: Blob, digest: SHA256Digest)> = EmptyCollection(), urls: [String] = [],
        group: String? = nil, traits: FileTraits = .none, deltas: some Collection<Delta> = EmptyCollection(),
        check: ContentCheck? = nil
    ) {
        enter(.files)
        next()
        put("{\"path\":", path)
        if let size { put(",\"size\":", size) }
        if let digest {
            put(",\"sha256\":")
            put(ofContent: digest)
        }
        if executable, traits.mode == nil { put(",\"executable\":true") }
        put(traits)
        if !blobs.isEmpty {
            put(",\"blobs\":[")
            let isOnly = blobs.count == 1
            var needsComma = false
            for (blob, own) in blobs {
                if needsComma { put(",") }
                needsComma = true
                put(blob, own: isOnly ? nil : own)
            }
            put("]")
        }
        if !urls.isEmpty {
            put(",")
            list("urls", urls)
        }
        put(group: group)
        put(deltas)
        if let check { put(check) }
        put("}")
    }

    private mutating func put(_ check: ContentCheck) {
        put(",\"x-learn\":{")
        if let (algorithm, hex) = check.digest {
            quote(algorithm.rawValue)
            put(":", hex)
        }
        if let stamp = check.stamp {
            if check.digest != nil { put(",") }
            put("\"stamp\":", stamp)
        }
        put("}")
    }

    /// Writes deltas that all have the first one's base.
    private mutating func put(_ deltas: some Collection<Delta>) {
        guard let first = deltas.first else { return }
        put(",\"x-deltas\":{\"base\":", first.baseFile)
        put(",\"blobs\":[")
        var needsComma = false
        for delta in deltas {
            put(needsComma ? ",[" : "[")
            needsComma = true
            for number in [
                UInt64(delta.blob), UInt64(delta.pack), delta.offset, delta.storedLength, delta.base.lowerBound,
                delta.base.upperBound - delta.base.lowerBound,
            ] {
                put(number)
                put(",")
            }
            put(delta.baseDigest)
            put("]")
        }
        put("]}")
    }

    /// Adds a link with its target as written.
    package mutating func link(
        path: UnsafeBufferPointer<UInt8>, target: UnsafeBufferPointer<UInt8>, group: String? = nil,
        traits: FileTraits = .none
    ) {
        enter(.files)
        next()
        put("{\"path\":", path)
        put(",\"link\":", target)
        put(traits)
        put(group: group)
        put("}")
    }

    /// Adds a part, in path order.
    package mutating func part(_ part: Manifest.Part) {
        enter(.parts)
        next()
        put("{\"blob\":")
        put(part.text.blob, own: part.text.digest)
        put(",\"files\":", UInt64(part.files))
        for (index, former) in part.from.enumerated() {
            put(index == 0 ? ",\"from\":[" : ",")
            put(former.blob, own: former.digest)
        }
        if !part.from.isEmpty { put("]") }
        for (index, outline) in part.outline.enumerated() {
            put(index == 0 ? ",\"outline\":[" : ",")
            put(outline.blob, own: outline.digest)
        }
        put(part.outline.isEmpty ? "}" : "]}")
    }

    /// Adds the groups and ends the manifest, or the part, with a newline.
    package mutating func finish(groups: [Manifest.Group] = []) {
        enter(isInParts ? .parts : .files)
        if !groups.isEmpty {
            enter(.groups)
            for group in groups {
                next()
                put("{\"name\":", group.name)
                put(",")
                list("include", group.include)
                if !group.hooks.isEmpty {
                    put(",")
                    list("hooks", group.hooks)
                }
                put(userData: group.userData)
                put("}")
            }
        }
        put(isFirst ? "]}\n" : "\n]}\n")
        if isOutline { bytes += [0] + heads }
    }

    /// `[pack index, offset, stored length, raw length, codec, raw sha256]`, trailing members left out.
    private mutating func put(_ blob: Blob, own digest: SHA256Digest?) {
        put("[")
        put(UInt64(blob.pack))
        put(",")
        if isOutline { bytes.append(blobEnd == blob.offset ? PartOutline.behind : PartOutline.offset) }
        if !isOutline || blobEnd != blob.offset { put(blob.offset) }
        put(",")
        put(blob.storedLength)
        blobEnd = blob.offset &+ blob.storedLength
        if isOutline, digest != nil, !blob.codec.isCompressed {
            bytes.append(PartOutline.unpacked)
        } else if digest != nil || blob.codec.isCompressed {
            put(",")
            put(blob.rawLength)
            put(",\"")
            put(blob.codec.word)
            put("\"")
        }
        if let digest {
            put(",")
            put(ofContent: digest)
        }
        put("]")
    }

    private mutating func put(ofContent digest: SHA256Digest) {
        guard isOutline else { return put(digest) }
        bytes.append(PartOutline.digest)
        for index in 0..<PartOutline.headLength { heads.append(digest[byte: index]) }
    }

    private mutating func enter(_ wanted: Section) {
        guard section != wanted else { return }
        if section == .directories {
            put(isFirst ? ",\n" : "\n],\n")
            if wanted != .packs { put("\"packs\":[],\n") }
        } else {
            put(isFirst ? "],\n" : "\n],\n")
        }
        switch wanted {
        case .directories: break
        case .packs: put("\"packs\":[")
        case .files: put("\"files\":[")
        case .parts: put("\"parts\":[")
        case .groups: put("\"groups\":[")
        }
        section = wanted
        isFirst = true
    }

    private mutating func next() {
        put(isFirst ? "\n" : ",\n")
        isFirst = false
    }

    private mutating func list(_ key: StaticString, _ texts: [String]) {
        put("\"")
        put(key)
        put("\":[")
        for (index, text) in texts.enumerated() {
            if index > 0 { put(",") }
            quote(text)
        }
        put("]")
    }

    private mutating func put(_ traits: FileTraits) {
        if let mode = traits.mode {
            put(",\"mode\":", FileTraits.text(mode: mode))
        }
        if let time = traits.modified {
            put(",\"mtime\":", FileTraits.text(time: time))
        }
    }

    private mutating func put(group: String?) {
        guard let group else { return }
        put(",\"group\":", group)
    }

    private mutating func put(userData: String?) {
        guard let userData else { return }
        put(",\"x-user-data\":")
        bytes.append(contentsOf: userData.utf8)
    }

    private mutating func put(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func put(_ key: StaticString, _ number: UInt64) {
        put(key)
        put(number)
    }

    private mutating func put(_ key: StaticString, _ digest: SHA256Digest) {
        put(key)
        put(digest)
    }

    private mutating func put(_ key: StaticString, _ text: String) {
        put(key)
        quote(text)
    }

    private mutating func put(_ key: StaticString, _ text: UnsafeBufferPointer<UInt8>) {
        put(key)
        quote(text)
    }

    private mutating func put(_ number: UInt64) {
        if number < 10 { return bytes.append(0x30 + UInt8(truncatingIfNeeded: number)) }
        let start = bytes.count
        var rest = number
        while rest > 0 {
            bytes.append(0x30 + UInt8(truncatingIfNeeded: rest % 10))
            rest /= 10
        }
        bytes[start...].reverse()
    }

    private mutating func put(_ digest: SHA256Digest) {
        bytes.append(0x22)
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(0x30, count: 64))
        bytes.withUnsafeMutableBufferPointer { buffer in digest.writeHex { buffer[start + $0] = $1 } }
        bytes.append(0x22)
    }

    private mutating func quote(_ text: String) {
        var text = text
        text.withUTF8 { quote($0) }
    }

    private mutating func quote(_ text: UnsafeBufferPointer<UInt8>) {
        bytes.append(0x22)
        if text.contains(where: { $0 == 0x22 || $0 == 0x5C || $0 < 0x20 }) {
            for byte in text {
                switch byte {
                case 0x22, 0x5C: bytes.append(contentsOf: [0x5C, byte])
                case 0..<0x20:
                    // The rules forbid these characters; they are escaped all the same, so that the text is always
                    // JSON.
                    put("\\u00")
                    bytes.append(0x30 + byte >> 4)
                    bytes.append(byte & 15 < 10 ? 0x30 + byte & 15 : 0x57 + byte & 15)
                default: bytes.append(byte)
                }
            }
        } else {
            bytes.append(contentsOf: text)
        }
        bytes.append(0x22)
    }
}
