import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// The base of the relative URLs of a set in a registry: `ENDPOINT/v2/NAME/blobs/#oci:REFERENCE`.
///
/// A pack's blob has the pack's own name, so its URL needs no request. The blobs of the set's other files are listed in
/// the artifact: the URLs of these files keep the fragment, and are looked up when they are requested.
struct RegistryBase: Equatable {
    /// The URL of a blob, up to the digest.
    let prefix: String
    /// A tag, or `sha256:HEX`.
    let reference: String
    /// The path of a file of the set; empty for the base itself.
    let file: String

    private static let mark = "#oci:"
    private static let end = "/blobs/"

    /// The URL of the base or the file, with its fragment.
    var text: String { prefix + file + Self.mark + reference }

    /// The URL of a file of the set.
    func url(_ path: String) -> String {
        if let pack = RegistryRelease.pack(path) { return "\(prefix)sha256:\(pack)" }
        return prefix + path + Self.mark + reference
    }

    /// The registry's URL, and the name of the repository.
    fileprivate var parts: (endpoint: String, name: String)? {
        guard let scheme = prefix.firstIndex(of: ":") else { return nil }
        let rest = prefix[scheme...].dropFirst(3)
        guard let slash = rest.firstIndex(of: "/"), rest[slash...].hasPrefix("/v2/") else { return nil }
        let name = rest[slash...].dropFirst("/v2/".count).dropLast(Self.end.count)
        return (String(prefix[..<slash]), String(name))
    }
}

extension RegistryBase {
    init(_ address: RegistryAddress, at endpoint: String) {
        (prefix, reference, file) = (address.blobPrefix(endpoint), address.reference, "")
    }

    /// Reads ``text``; `nil` for another URL.
    init?(_ url: String) {
        guard let hash = url.firstIndex(of: "#"), url[hash...].hasPrefix(Self.mark) else { return nil }
        let plain = url[..<hash]
        var places = plain.indices.filter { plain[$0...].hasPrefix(Self.end) }
        guard let place = places.popLast() else { return nil }
        let start = plain.index(place, offsetBy: Self.end.count)
        (prefix, file) = (String(plain[..<start]), String(plain[start...]))
        reference = String(url[hash...].dropFirst(Self.mark.count))
    }
}

extension ManifestSource {
    /// Finds the manifest of a set that was published to a registry.
    ///
    /// - Parameter artifact: The digest of the artifact's own manifest.
    func found(
        _ release: RegistryRelease, _ artifact: SHA256Digest, at place: ManifestPlace, key: String
    ) throws(EngineError) -> FoundManifest {
        guard let base = RegistryBase(place.baseURL), let layer = release.layer(RegistryRelease.manifestPath) else {
            throw EngineError(.dataInvalid, "\(place.shown): the release has no \(RegistryRelease.manifestPath)")
        }
        published.withLock { $0[base.text] = release }
        let request = TransferRequest(
            id: .next(), urls: ["\(base.prefix)sha256:\(layer.digest)"],
            limit: UInt64(limits.ownTextBytes), priority: .max, referrer: place.referrer)
        switch fetch(request) {
        case .failure(let error):
            if stop.isStopped { throw EngineError(.interrupted, "stopped while fetching the manifest") }
            throw refusal(error)
        case .success((let body, _)):
            guard (try? sha256(body)) == layer.digest else {
                throw EngineError(
                    .dataInvalid, "\(place.shown): the registry gave other bytes for sha256:\(layer.digest)",
                    cause: .badManifest)
            }
            let manifest = try decode(body, isCompressed: true, at: place)
            guard manifest.digest == release.manifest else {
                throw EngineError(
                    .dataInvalid, "\(place.shown): its manifest is \(manifest.digest), and not \(release.manifest)")
            }
            let entry = ManifestCache.Entry(
                digest: manifest.digest, validator: Self.validator(artifact), isCompressed: true,
                project: manifest.project)
            cache.remember(entry, body: body, for: key)
            var found = FoundManifest(manifest, at: place, self)
            found.origin = origin(artifact, place)
            return found
        }
    }

    /// A set whose cached manifest is the one of this artifact; `nil` if there is none.
    func known(
        _ artifact: SHA256Digest, at place: ManifestPlace, key: String,
        again: @escaping @Sendable () throws(EngineError) -> FoundManifest
    ) -> FoundManifest? {
        guard !cache.isReadOnly, let entry = cache.entry(for: key), !entry.isDerived,
            entry.validator == Self.validator(artifact)
        else { return nil }
        var found = cached(entry, at: place) { () throws(EngineError) in
            cache.forget(key)
            let fresh = try again()
            if fresh.digest == entry.digest { return fresh }
            throw EngineError(
                .unavailable, "\(place.shown): the manifest changed meanwhile; pull again", cause: .badManifest)
        }
        found.origin = origin(artifact, place)
        return found
    }

    private func origin(_ artifact: SHA256Digest, _ place: ManifestPlace) -> SourceOrigin {
        SourceOrigin(kind: RegistryAddress.scheme, url: place.location, at: "sha256:\(artifact)")
    }

    private static func validator(_ artifact: SHA256Digest) -> Validator { Validator(etag: "\"sha256:\(artifact)\"") }

    // MARK: Other files

    /// A request for a file of a set in a registry, with the URL of the file's blob; any other request as it is.
    ///
    /// - Returns: If the set has no such file, the failure of a server that answers 404.
    func inRegistry(_ request: TransferRequest) -> Result<TransferRequest, TransferError> {
        guard let url = request.urls.first, let base = RegistryBase(url), !base.file.isEmpty else {
            return .success(request)
        }
        return release(base, reload: request.reload).flatMap { release in
            guard let blob = release?.blob(base.file) else {
                let detail = "the release has no \(escaped(base.file))"
                return .failure(TransferError(code: .badStatus(404), url: url, detail: detail))
            }
            var request = request
            request.urls = ["\(base.prefix)sha256:\(blob)"]
            return .success(request)
        }
    }

    /// The release that a registry has under a reference; `nil` for another artifact.
    private func release(_ base: RegistryBase, reload: Bool) -> Result<RegistryRelease?, TransferError> {
        let key = RegistryBase(prefix: base.prefix, reference: base.reference, file: "").text
        if !reload, let known = published.withLock({ $0[key] }) { return .success(known) }
        guard let (endpoint, name) = base.parts else {
            return .failure(TransferError(code: .misuse, url: key, detail: "not a place in a registry"))
        }
        registries.name(endpoint, name)
        let url = "\(endpoint)/v2/\(name)/manifests/\(base.reference)"
        var request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(RegistryAnswer.limit), priority: .max,
            reload: reload)
        request.accepted = RegistryAnswer.accepted
        return fetch(request).map { response in
            let digest = RegistryAddress.sha256(Substring(base.reference))
            guard digest == nil || (try? sha256(response.bytes)) == digest,
                case .release(let release)? = try? RegistryAnswer.read(response.bytes, prefix: base.prefix)
            else { return nil }
            published.withLock { $0[key] = release }
            return release
        }
    }
}
