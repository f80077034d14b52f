import SyncContent
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncSystem
import SyncTrust

/// The place where a manifest was found.
struct ManifestPlace: Sendable {
    /// The URL against which relative URLs resolve: the manifest's own, or for a kept release that of the newest
    /// manifest.
    let baseURL: String
    /// For people: a path, or a redacted URL.
    let shown: String
    /// The origin to record: an absolute path, or a URL without userinfo, query and fragment.
    let location: String
    /// The referrer of requests for the URLs that the manifest names; `nil` for a local manifest.
    let referrer: TransferRequest.Referrer?

    /// - Parameters:
    ///   - location: A path or URL as it was given.
    ///   - base: The base of relative URLs, where it is not `location`.
    ///   - isPublic: Whether it came from a public address; `nil` if unknown.
    init(_ location: String, base: String? = nil, isPublic: Bool? = nil) {
        baseURL = base ?? Self.newest(besides: manifestURL(location))
        shown = urlScheme(of: location) != nil ? redacted(url: location) : escaped(location)
        self.location = location.withoutSecretsOfPlace
        let isLocal = base?.hasPrefix("file:") ?? (urlScheme(of: location) == nil)
        referrer = isLocal ? nil : .init(url: baseURL, isPublic: isPublic)
    }

    /// The `manifest.json` of the published directory that keeps a release in `channels/` or `manifests/`; any other
    /// URL as it is.
    private static func newest(besides url: String) -> String {
        let plain = url.prefix { $0 != "?" && $0 != "#" }
        let parts = plain.split(separator: "/", omittingEmptySubsequences: false)
        // At least the scheme, an empty part, the host, a folder and the name.
        guard parts.count >= 5, RegistryBase(url) == nil, let name = parts.last, name.hasSuffix(suffix),
            name != "manifest\(suffix)"
        else { return url }
        let stem = String(name.dropLast(suffix.count))
        let isKept =
            switch parts[parts.count - 2] {
            case "channels": UInt64(stem) != nil || ChannelName.objection(stem) == nil
            case "manifests": SHA256Digest(hex: stem) != nil
            default: false
            }
        guard isKept else { return url }
        return parts.dropLast(2).joined(separator: "/") + "/manifest.json" + url[plain.endIndex...]
    }

    private static let suffix = ".json.zst"
}

/// A manifest whose bytes are known and which is decoded only on demand.
package struct FoundManifest: Sendable {
    let digest: SHA256Digest
    let project: String
    /// The bases of relative URLs: the manifest's own URL, then its URLs at the mirrors of a signed set.
    var bases: [String]
    /// Who has signed it; `nil` if signatures were not asked for.
    var release: TrustedRelease?
    /// The derivation from a listing; `nil` for a published manifest.
    var derivation: Derivation?
    /// The listing or artifact that the manifest comes from, as far as it is known; `nil` for any other manifest.
    var origin: SourceOrigin?
    let place: ManifestPlace
    let source: ManifestSource
    /// Returns the checked manifest.
    let decode: @Sendable () throws(EngineError) -> Manifest

    var shown: String { place.shown }
    var location: String { place.location }
    var referrer: TransferRequest.Referrer? { place.referrer }

    init(
        _ digest: SHA256Digest, project: String, at place: ManifestPlace, _ source: ManifestSource,
        decode: @escaping @Sendable () throws(EngineError) -> Manifest
    ) {
        (self.digest, self.project, self.place, self.source) = (digest, project, place, source)
        bases = [place.baseURL]
        self.decode = decode
    }

    /// A manifest that is decoded already.
    init(_ manifest: Manifest, at place: ManifestPlace, _ source: ManifestSource) {
        self.init(manifest.digest, project: manifest.project, at: place, source) { () throws(EngineError) in manifest }
    }

    /// ``SignedStatement/digest`` of the root that ``RunRecipe/trust`` led to; `nil` if the recipe names none.
    package var beginningOfTrust: SHA256Digest? { release?.beginning }

    /// The cost so far of finding and decoding it.
    var counts: PullReport.ManifestCounts { source.counts.withLock { $0 } }

    /// This manifest's dictionary, from the cache or from its pack; `nil` if it has none.
    func dictionary(of manifest: Manifest) throws(EngineError) -> DecodingDictionary? {
        guard let named = manifest.dictionary else { return nil }
        let parts = ManifestParts(source: source, bases: bases, referrer: referrer, shown: shown)
        let bytes = try parts.dictionary(named, of: manifest)
        do { return try bytes.withUnsafeBytes { try DecodingDictionary($0) } } catch {
            throw EngineError(.dataInvalid, "the dictionary of the manifest: \(error)")
        }
    }

    /// Whether this manifest's dictionary is in the cache.
    func isDictionaryHere(of manifest: Manifest) -> Bool {
        manifest.dictionary.map { source.cache.hasPart($0.digest) } ?? true
    }

    /// Adds mirrors with the same files, to be asked for what this place does not deliver. A local copy uses none.
    ///
    /// - Parameter mirrors: URLs that end with `/`.
    mutating func add(_ mirrors: [String]) {
        guard let own = bases.first, !own.hasPrefix("file:") else { return }
        bases += mirrors.map { $0 + "manifest.json" }.filter { !bases.contains($0) }
    }
}

extension String {
    /// A manifest's place, fit to be recorded: an absolute path, or a URL without userinfo, query and fragment.
    var withoutSecretsOfPlace: String { urlScheme(of: self) != nil ? withoutSecrets(self) : absolute(self) ?? self }
}
