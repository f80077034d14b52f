import SyncManifest
import SyncModel
import SyncPlugins
import SyncTrust

/// A manifest whose bytes are known and which is decoded only on demand.
struct FoundManifest: Sendable {
    let digest: SHA256Digest
    let project: String
    /// What relative URLs resolve against: its own URL, then its URLs at the mirrors of a signed set.
    var bases: [String]
    /// For people: a path, or a redacted URL.
    let shown: String
    /// The origin to record: an absolute path, or a URL without userinfo, query and fragment.
    let location: String
    /// Where it came from, for the URLs it names; `nil` for a local manifest.
    let referrer: TransferRequest.Referrer?
    /// Who has signed it; `nil` if signatures were not asked for.
    var release: TrustedRelease?
    private let source: ManifestSource
    private let decodeBody: @Sendable () throws(EngineError) -> Manifest

    init(
        digest: SHA256Digest,
        project: String,
        baseURL: String,
        shown: String,
        location: String,
        referrer: TransferRequest.Referrer? = nil,
        source: ManifestSource,
        decode: @escaping @Sendable () throws(EngineError) -> Manifest
    ) {
        self.digest = digest
        self.project = project
        bases = [baseURL]
        self.shown = shown
        self.location = location
        self.referrer = referrer
        self.source = source
        decodeBody = decode
    }

    /// The cost so far of finding and decoding it.
    var tally: ManifestTally { source.tally }

    /// The source of this manifest's dictionary; `nil` if it has none.
    func dictionary(of manifest: Manifest) -> ManifestDictionary? {
        guard let named = manifest.dictionary else { return nil }
        let parts = ManifestParts(source: source, bases: bases, referrer: referrer, shown: shown)
        return ManifestDictionary { parts.dictionary(named, of: manifest) }
    }

    /// Whether this manifest's dictionary is in the cache.
    func isDictionaryHere(of manifest: Manifest) -> Bool {
        manifest.dictionary.map { source.parts?.has($0.digest) == true } ?? true
    }

    /// Adds mirrors with the same files, to be asked for what this place does not deliver. A local copy uses no
    /// mirrors.
    ///
    /// - Parameter mirrors: URLs that end with `/`.
    mutating func add(_ mirrors: [String]) {
        guard let own = bases.first, !own.hasPrefix("file:") else { return }
        bases += mirrors.map { $0 + "manifest.json" }.filter { !bases.contains($0) }
    }

    /// The checked manifest.
    func decode() throws(EngineError) -> Manifest { try decodeBody() }
}
