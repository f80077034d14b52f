package import SyncManifest
import SyncModel
package import SyncPublisher
import SyncSystem
package import SyncTransfer

/// A tag of a repository as a store that sets are published to.
///
/// | file of a published directory | in the registry |
/// | --- | --- |
/// | `packs/SHA256.pack` | the blob of that digest; uploaded at once |
/// | `manifest.json.zst`, `trust/…` | layers of the artifact with the tag |
/// | `manifest.json` | not kept: the text of `manifest.json.zst` |
/// | `manifests/SHA256.json.zst` | the layer `manifest.json.zst` of the artifact with the tag `TAG.rREVISION` |
/// | `manifests/unnamed.json` | an annotation of the artifact with the tag `TAG.unnamed` |
///
/// Nothing of a release is visible before ``commit()``: first the release's own tag names it, then the tag itself. The
/// registry has to remove blobs that nothing names.
package final class RegistryStore: ObjectStore {
    private let client: RegistryClient
    private let state = Mutex(State())

    private struct State {
        /// All tags, as they were first listed, or are since.
        var tags: Set<String>?
        /// The artifacts with other tags, once they were asked for.
        var others: Set<SHA256Digest>?
        /// The release that the tag names, as it was first read, or is since.
        var named: Kept?
        /// The text of its manifest.
        var text: [UInt8]?
        /// The releases with tags of their own, by revision.
        var releases: [UInt64: Kept]?
        /// `nil` until they were read; `.some(nil)` where there are none.
        var marks: [UInt8]??
        /// Packs in the registry with their **bytes**, and how many packs were sent.
        var packs: [SHA256Digest: UInt64] = [:]
        var sent = 0
        /// Files that were put and are not yet named.
        var pending: [String: [UInt8]] = [:]
        /// Files that the next commit does not name any more.
        var removed: Set<String> = []
        var hasEmpty = false
    }

    /// A release in the registry.
    private struct Kept {
        var release: RegistryRelease
        /// The digest and the bytes of the artifact's manifest.
        var artifact: SHA256Digest
        var bytes: [UInt8]
    }

    private static let manifest = "manifest.json"
    private static let frame = RegistryRelease.manifestPath
    private static let marks = "manifests/unnamed.json"
    private static let marksKey = "com.syncagent.unnamed"
    private static let suffix = ".json.zst"

    package init(
        _ address: RegistryAddress, _ configuration: TransportConfiguration, isWriting: Bool,
        notice: @escaping @Sendable (String) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) {
        client = RegistryClient(address, configuration, isWriting: isWriting, notice: notice, isStopped: isStopped)
    }

    private var address: RegistryAddress { client.address }
    package var shown: String { address.text }
    package var namesAtOnce: Bool { false }

    // MARK: Reading

    /// Reads the release with the tag, and the list of tags, once.
    private func load(_ state: inout State) throws(PublishError) {
        guard state.tags == nil else { return }
        let tags = Set(try client.tags())
        if let kept = try kept(address.reference) {
            state.named = kept
            note(kept.release, &state)
        } else if tags.contains(address.reference) {
            throw foreign(address.reference)
        }
        state.tags = tags
    }

    /// Reads the releases that have tags of their own, once.
    private func loadHistory(_ state: inout State) throws(PublishError) -> [UInt64: Kept] {
        try load(&state)
        if let releases = state.releases { return releases }
        var releases: [UInt64: Kept] = [:]
        for tag in (state.tags ?? []).sorted() {
            guard let revision = address.revision(ofTag: tag), let kept = try kept(tag) else { continue }
            guard kept.release.revision == revision else { continue }
            releases[revision] = kept
            note(kept.release, &state)
        }
        state.releases = releases
        return releases
    }

    /// The release with a tag; `nil` where there is none, or the tag names something else.
    private func kept(_ tag: String) throws(PublishError) -> Kept? {
        guard let found = try client.manifest(tag) else { return nil }
        let read = Result { () throws(ListingError) in try RegistryAnswer.read(found.bytes, prefix: "") }
        guard case .success(.release(let release)) = read else { return nil }
        return Kept(release: release, artifact: found.digest, bytes: found.bytes)
    }

    private func foreign(_ tag: String) -> PublishError {
        PublishError(
            .refused, "\(client.shown):\(tag) is not a published set, and would be replaced",
            "publish under another tag, or delete this one")
    }

    private func note(_ release: RegistryRelease, _ state: inout State) {
        for layer in release.layers where layer.path.hasPrefix("packs/") { state.packs[layer.digest] = layer.size }
    }

    /// A file, and its bytes; `nil` bytes where a blob of its digest has them.
    private func find(_ name: String, _ state: inout State) throws(PublishError)
        -> (layer: RegistryRelease.Layer, bytes: [UInt8]?)?
    {
        try load(&state)
        if state.removed.contains(name) { return nil }
        if let bytes = state.pending[name] { return (try layer(name, of: bytes), bytes) }
        if name == Self.manifest {
            guard let named = state.named, let text = try text(&state) else { return nil }
            let size = UInt64(text.count)
            return (RegistryRelease.Layer(path: name, digest: named.release.manifest, size: size), text)
        }
        if name == Self.marks {
            guard let bytes = try marks(&state) else { return nil }
            return (try layer(name, of: bytes), bytes)
        }
        if name.hasPrefix("packs/") {
            _ = try loadHistory(&state)
            guard let digest = RegistryRelease.pack(name), let size = state.packs[digest] else { return nil }
            return (RegistryRelease.Layer(path: name, digest: digest, size: size), nil)
        }
        if name.hasPrefix("manifests/") {
            let all = try loadHistory(&state).values + [state.named].compactMap(\.self)
            let kept = all.first { "manifests/\($0.release.manifest)\(Self.suffix)" == name }
            return kept?.release.layer(Self.frame).map { ($0, nil) }
        }
        if let layer = state.named?.release.layer(name) { return (layer, nil) }
        // A statement about an older release is kept with that release.
        guard name.hasPrefix("trust/") else { return nil }
        let kept = try loadHistory(&state).values.first { name == Self.statement($0.release) }
        return kept?.release.layer(name).map { ($0, nil) }
    }

    /// What the store says of a file.
    private func object(_ name: String, _ state: inout State) throws(PublishError) -> StoredObject? {
        try find(name, &state).map { StoredObject(size: $0.layer.size, tag: $0.layer.digest.hex) }
    }

    private func layer(_ name: String, of bytes: [UInt8]) throws(PublishError) -> RegistryRelease.Layer {
        RegistryRelease.Layer(path: name, digest: try RegistryClient.digest(of: bytes), size: UInt64(bytes.count))
    }

    private static func statement(_ release: RegistryRelease) -> String { "trust/\(release.revision).release" }

    /// The text of the newest manifest; `nil` where there is none.
    private func text(_ state: inout State) throws(PublishError) -> [UInt8]? {
        if let text = state.text { return text }
        guard let named = state.named else { return nil }
        guard let layer = named.release.layer(Self.frame) else { throw Self.damaged(shown) }
        let frame = try blob(layer, limit: ManifestLimits.standard.manifestBytes)
        state.text = try Self.text(of: frame, shown)
        return state.text
    }

    private static func text(of frame: [UInt8], _ shown: String) throws(PublishError) -> [UInt8] {
        guard let text = unframed(frame) else { throw damaged(shown) }
        return text
    }

    private static func damaged(_ shown: String) -> PublishError {
        PublishError(.dataInvalid, "\(escaped(shown)): its manifest cannot be read", "publish with --no-base")
    }

    /// A whole blob, its digest checked.
    private func blob(_ layer: RegistryRelease.Layer, limit: Int) throws(PublishError) -> [UInt8] {
        let bytes = try client.blob(layer.digest, limit: limit)
        guard try RegistryClient.digest(of: bytes) == layer.digest else {
            throw PublishError(
                .dataInvalid, "\(client.shown): the registry gave other bytes for sha256:\(layer.digest)",
                "ask its operator")
        }
        return bytes
    }

    private func marks(_ state: inout State) throws(PublishError) -> [UInt8]? {
        if let known = state.marks { return known }
        try load(&state)
        var found: [UInt8]?
        if state.tags?.contains(marksTag) == true, let answer = try client.manifest(marksTag),
            let value = answer.bytes.withUnsafeBytes({ JSONParser.parse($0) }),
            let text = value["annotations"]?[Self.marksKey]?.string
        {
            found = Array(text.utf8)
        }
        state.marks = .some(found)
        return found
    }

    private var marksTag: String { "\(address.reference).unnamed" }

    package func list(_ prefix: String) throws(PublishError) -> [String: StoredObject] {
        try state.withLock { state throws(PublishError) in
            try load(&state)
            var names = Set(state.pending.keys)
            switch prefix {
            case Self.manifest: if state.named != nil { names.formUnion([Self.manifest, Self.frame]) }
            case "packs/":
                _ = try loadHistory(&state)
                names.formUnion(state.packs.keys.map { "packs/\($0.packName)" })
            case "manifests/":
                for kept in try loadHistory(&state).values + [state.named].compactMap(\.self) {
                    names.insert("manifests/\(kept.release.manifest)\(Self.suffix)")
                }
                if try marks(&state) != nil { names.insert(Self.marks) }
            default:
                names.formUnion((state.named?.release.layers ?? []).map(\.path))
                for kept in try loadHistory(&state).values { names.insert(Self.statement(kept.release)) }
            }
            var all: [String: StoredObject] = [:]
            for name in names where name.hasPrefix(prefix) { all[name] = try object(name, &state) }
            return all
        }
    }

    package func stat(_ name: String) throws(PublishError) -> StoredObject? {
        try state.withLock { state throws(PublishError) in try object(name, &state) }
    }

    package func read(_ name: String, limit: Int) throws(PublishError) -> (bytes: [UInt8], object: StoredObject)? {
        let found = try state.withLock { state throws(PublishError) in try find(name, &state) }
        guard let (layer, bytes) = found else { return nil }
        let object = StoredObject(size: layer.size, tag: layer.digest.hex)
        if let bytes { return (bytes, object) }
        guard layer.size <= UInt64(limit) else {
            throw PublishError(
                .dataInvalid, "\(escaped(shown))/\(escaped(name)) has \(layer.size) bytes, more than \(limit)",
                "publish with --no-base")
        }
        return (try blob(layer, limit: limit), object)
    }

    package func read(_ name: String, _ range: Range<UInt64>) throws(PublishError) -> [UInt8] {
        guard !range.isEmpty else { return [] }
        if let digest = RegistryRelease.pack(name) {
            return try client.blob(digest, range, limit: Int(clamping: range.upperBound - range.lowerBound))
        }
        guard let (bytes, _) = try read(name, limit: .max), range.upperBound <= UInt64(bytes.count) else { return [] }
        return Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
    }

    // MARK: Putting

    package func put(_ object: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String? {
        if name.hasPrefix("packs/") { return try put(pack: object, as: name, if: condition) }
        if name.hasPrefix("channels/") {
            throw PublishError(
                .usage, "\(escaped(shown)): a registry has tags in place of channels",
                "publish to a tag of that name, such as oci://\(address.host)/\(address.name):beta")
        }
        guard let bytes = object.bytes else {
            throw PublishError(.ioError, "\(escaped(name)) cannot be read", "run it again")
        }
        return try state.withLock { state throws(PublishError) in
            let former = try self.object(name, &state)
            switch condition {
            case .always: break
            case .absent: if former != nil { return nil }
            case .unchanged(let tag): if former?.tag != tag { return nil }
            }
            if name == Self.marks {
                try put(marks: bytes, &state)
            } else {
                state.pending[name] = bytes
                state.removed.remove(name)
            }
            return object.digest.hex
        }
    }

    private func put(pack: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String? {
        let sent = try state.withLock { state throws(PublishError) in
            try load(&state)
            return state.sent
        }
        guard RegistryRelease.pack(name) == pack.digest else {
            throw PublishError(.internalError, "\(escaped(name)) has another digest", "report this as a bug")
        }
        if condition == .absent, try client.has(pack.digest, pack.size) {
            state.withLock { $0.packs[pack.digest] = pack.size }
            return nil
        }
        // A pack is not sent if the manifest would be refused in the end.
        guard sent < Self.mostLayers else { throw tooMany(sent + 1) }
        try client.upload(pack)
        state.withLock { state in
            state.packs[pack.digest] = pack.size
            state.sent += 1
        }
        return pack.digest.hex
    }

    package func isBeside(_ location: String) -> Bool { repository(at: location) != nil }

    /// The repository of this registry that has a set; `nil` for a set elsewhere.
    private func repository(at location: String) -> String? {
        (try? RegistryAddress(location)).flatMap { $0.host == address.host ? $0.name : nil }
    }

    package func take(_ pack: NewObject, from location: String) throws(PublishError) {
        let repository = repository(at: location)
        if repository != address.name {
            try client.upload(pack, from: repository)
        } else if try !client.has(pack.digest, pack.size) {
            try client.upload(pack)
        }
        state.withLock { $0.packs[pack.digest] = pack.size }
    }

    /// Most layers of one manifest: each takes at least 260 **bytes** of it, and registries limit its length.
    private static let mostLayers = RegistryAnswer.limit / 260

    private func tooMany(_ count: Int) -> PublishError {
        PublishError(
            .usage,
            "\(escaped(shown)): a registry takes manifests of at most \(ByteCount(UInt64(RegistryAnswer.limit))), and \(count) packs are more",
            "make larger packs, with --pack-size 256M; the published set is unchanged")
    }

    /// Uploads the empty configuration, which every manifest names.
    private func putEmpty(_ state: inout State) throws(PublishError) {
        guard !state.hasEmpty else { return }
        let empty = try NewObject(RegistryRelease.empty)
        if try !client.has(empty.digest, empty.size) { try client.upload(empty) }
        state.hasEmpty = true
    }

    private func put(marks bytes: [UInt8], _ state: inout State) throws(PublishError) {
        try putEmpty(&state)
        let json = JSONLine.object { line in
            line.field("schemaVersion", 2)
            line.field("mediaType", RegistryAnswer.imageManifest)
            line.field("artifactType", "application/vnd.syncagent.unnamed.v1+json")
            func empty(_ line: inout JSONLine) {
                line.field("mediaType", "application/vnd.oci.empty.v1+json")
                line.field("digest", "sha256:\(RegistryRelease.emptyDigest)")
                line.field("size", RegistryRelease.empty.count)
            }
            line.object("config") { empty(&$0) }
            line.list("layers", [0]) { _, line in empty(&line) }
            line.object("annotations") { $0.field(Self.marksKey, String(decoding: bytes, as: UTF8.self)) }
        }
        // The marks are only an aid: without them, unneeded files stay longer.
        guard json.bytes.count <= RegistryAnswer.limit else { return }
        try client.put(manifest: json.bytes, as: marksTag)
        state.marks = .some(bytes)
        state.tags?.insert(marksTag)
    }

    // MARK: Removing

    package func namedElsewhere(_ names: [String]) throws(PublishError) -> Set<String> {
        try state.withLock { state throws(PublishError) in
            var artifacts: [String: SHA256Digest] = [:]
            for kept in try loadHistory(&state).values {
                artifacts["manifests/\(kept.release.manifest)\(Self.suffix)"] = kept.artifact
            }
            let wanted = names.filter { artifacts[$0] != nil }
            guard !wanted.isEmpty else { return [] }
            let others = try digestsOfOthers(&state)
            return Set(wanted.filter { name in artifacts[name].map { others.contains($0) } ?? false })
        }
    }

    package func remove(_ names: [String]) throws(PublishError) {
        try state.withLock { state throws(PublishError) in
            _ = try loadHistory(&state)
            for name in names {
                state.pending[name] = nil
                if let pack = RegistryRelease.pack(name) {
                    state.packs[pack] = nil
                } else if name == Self.marks {
                    try put(marks: Array("{}".utf8), &state)
                } else if name.hasPrefix("manifests/") {
                    let gone = (state.releases ?? [:]).filter {
                        "manifests/\($0.value.release.manifest)\(Self.suffix)" == name
                    }
                    for (revision, kept) in gone {
                        // An artifact that has other tags belongs to somebody else.
                        guard kept.artifact != state.named?.artifact,
                            try !digestsOfOthers(&state).contains(kept.artifact)
                        else { continue }
                        try client.delete(manifest: kept.artifact)
                        state.releases?[revision] = nil
                        state.tags?.remove(address.releaseTag(revision))
                    }
                } else if let (revision, kept) = state.releases?.first(where: {
                    name == Self.statement($0.value.release)
                }),
                    kept.artifact != state.named?.artifact
                {
                    try removeStatement(name, of: kept, revision, &state)
                } else {
                    state.removed.insert(name)
                }
            }
        }
    }

    /// The artifacts with tags that are not those of this set's releases.
    private func digestsOfOthers(_ state: inout State) throws(PublishError) -> Set<SHA256Digest> {
        if let others = state.others { return others }
        var digests: Set<SHA256Digest> = []
        // The tags are listed again: the first list may be hours old, and deleting a manifest deletes all its tags.
        for tag in try client.tags() where address.revision(ofTag: tag) == nil && tag != marksTag {
            if let digest = try client.digest(ofTag: tag) { digests.insert(digest) }
        }
        state.others = digests
        return digests
    }

    /// Puts a release again, without the statement by which a pull asks for its number.
    private func removeStatement(_ name: String, of kept: Kept, _ revision: UInt64, _ state: inout State)
        throws(PublishError)
    {
        var kept = kept
        let former = kept.release
        kept.release = RegistryRelease(
            project: former.project, revision: former.revision, created: former.created, manifest: former.manifest,
            layers: former.layers.filter { $0.path != name })
        kept.bytes = kept.release.json
        kept.artifact = try RegistryClient.digest(of: kept.bytes)
        try client.put(manifest: kept.bytes, as: address.releaseTag(revision))
        state.releases?[revision] = kept
    }

    // MARK: Naming

    /// Tags the manifest that was put: first with the release's own tag, then with the set's tag.
    package func commit() throws(PublishError) {
        try state.withLock { state throws(PublishError) in
            try load(&state)
            let names = state.pending.keys.filter { $0 == Self.frame || $0.hasPrefix("trust/") }
            guard !names.isEmpty || !state.removed.isEmpty else { return }
            let release = try release(state: &state)
            let bytes = release.json
            guard bytes.count <= RegistryAnswer.limit, release.layers.count <= RegistryAnswer.mostLayers else {
                throw tooMany(release.layers.count)
            }
            for name in names.sorted() {
                guard let pending = state.pending[name] else { continue }
                let object = try NewObject(pending)
                if try !client.has(object.digest, object.size) { try client.upload(object) }
            }
            try putEmpty(&state)
            let kept = Kept(release: release, artifact: try RegistryClient.digest(of: bytes), bytes: bytes)
            try name(kept, &state)
            state.text = state.pending[Self.manifest] ?? state.text
            (state.named, state.pending, state.removed) = (kept, [:], [])
            state.releases?[release.revision] = kept
        }
    }

    private func name(_ kept: Kept, _ state: inout State) throws(PublishError) {
        // If another publish was faster and has put the tag, nothing of it is touched.
        guard try client.digest(ofTag: address.reference) == state.named?.artifact else {
            throw taken(address.reference)
        }
        // A former release without a tag of its own gets one when it loses this tag: another client may have pushed it.
        if let former = state.named, former.release.revision != kept.release.revision {
            let tag = address.releaseTag(former.release.revision)
            if state.tags?.contains(tag) != true {
                try client.put(manifest: former.bytes, as: tag)
                state.tags?.insert(tag)
            }
        }
        let (tag, revision) = (address.releaseTag(kept.release.revision), kept.release.revision)
        if state.tags?.contains(tag) == true, state.releases?[revision] == nil,
            state.named?.release.revision != revision,
            try self.kept(tag)?.release.revision != revision
        {
            throw foreign(tag)
        }
        if state.tags?.contains(tag) != true, let other = try client.digest(ofTag: tag), other != kept.artifact {
            throw taken(tag)
        }
        try client.put(manifest: kept.bytes, as: tag)
        state.tags?.insert(tag)
        // A registry cannot replace a tag on the condition that it is unchanged, so it is checked as late as possible.
        guard try client.digest(ofTag: address.reference) == state.named?.artifact else {
            throw taken(address.reference)
        }
        try client.put(manifest: kept.bytes, as: address.reference)
        guard try client.digest(ofTag: address.reference) == kept.artifact else { throw taken(address.reference) }
    }

    private func taken(_ tag: String) -> PublishError {
        PublishError(
            .busy, "\(client.shown):\(tag) was changed by another publish in the meantime", "run it again")
    }

    /// The release with everything that was put.
    private func release(state: inout State) throws(PublishError) -> RegistryRelease {
        let frame = state.pending[Self.frame]
        let text: [UInt8]
        if let frame {
            if let own = state.pending[Self.manifest] { text = own } else { text = try Self.text(of: frame, shown) }
        } else if let known = try self.text(&state) {
            text = known
        } else {
            throw PublishError(.dataInvalid, "\(escaped(shown)) has no release", "publish one first")
        }
        let digest = try RegistryClient.digest(of: text)
        guard let manifest = try? ManifestAssembly(text, digest: digest) else { throw Self.damaged(shown) }
        var layers: [RegistryRelease.Layer] = []
        for pack in manifest.packs {
            let path = "packs/\(pack.sha256.packName)"
            guard pack.urls.contains(path) else { continue }
            if state.packs[pack.sha256] != pack.size {
                guard try client.has(pack.sha256, pack.size) else {
                    throw PublishError(
                        .dataInvalid, "\(client.shown) has no pack \(pack.sha256), which the release needs",
                        "publish with --no-base, or with the set's own place as --base")
                }
                state.packs[pack.sha256] = pack.size
            }
            layers.append(RegistryRelease.Layer(path: path, digest: pack.sha256, size: pack.size))
        }
        for (name, bytes) in state.pending where name == Self.frame || Self.isStatement(name, of: manifest.revision) {
            layers.append(try layer(name, of: bytes))
        }
        let here = Set(layers.map(\.path))
        layers += (state.named?.release.layers ?? []).filter { layer in
            (layer.path == Self.frame || Self.isStatement(layer.path, of: manifest.revision))
                && !here.contains(layer.path) && !state.removed.contains(layer.path)
        }
        return RegistryRelease(
            project: manifest.project, revision: manifest.revision, created: manifest.created, manifest: digest,
            layers: layers)
    }

    /// Whether a file is a statement that belongs to a revision: all but those about other releases.
    private static func isStatement(_ name: String, of revision: UInt64) -> Bool {
        name.hasPrefix("trust/") && (!name.hasSuffix(".release") || name == "trust/\(revision).release")
    }
}

extension NewObject {
    /// All bytes of the object, in memory; `nil` if they cannot be read.
    fileprivate var bytes: [UInt8]? {
        guard let size = Int(exactly: size) else { return nil }
        var bytes = [UInt8](repeating: 0, count: size)
        var offset = 0
        while offset < size {
            let count = bytes.withUnsafeMutableBytes { target in
                read(UInt64(offset), UnsafeMutableRawBufferPointer(rebasing: target[offset...]))
            }
            guard let count, (1...(size - offset)).contains(count) else { return nil }
            offset += count
        }
        return bytes
    }
}
