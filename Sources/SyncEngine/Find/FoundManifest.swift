import SyncManifest
import SyncModel
import SyncPlugins
import SyncTrust

/// A manifest whose bytes are known and, unless somebody asks, not decoded.
struct FoundManifest: Sendable {
    let digest: SHA256Digest
    let project: String
    /// What relative URLs resolve against: its own URL, then those that it has at the mirrors of a signed set.
    var bases: [String]
    /// For people: a path, or a redacted URL.
    let shown: String
    /// What is recorded of where it came from: an absolute path, or a URL without userinfo, query and fragment.
    let location: String
    /// For what it names; `nil` for a manifest of this machine.
    let referrer: TransferRequest.Referrer?
    /// Who has signed it; `nil` when nobody was asked for.
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

    /// What finding and decoding it has cost so far.
    var tally: ManifestTally { source.tally }

    /// Where the dictionary of this manifest comes from; `nil` when it has none.
    func dictionary(of manifest: Manifest) -> ManifestDictionary? {
        guard let named = manifest.dictionary else { return nil }
        let parts = ManifestParts(source: source, bases: bases, referrer: referrer, shown: shown)
        return ManifestDictionary { parts.dictionary(named, of: manifest) }
    }

    /// Whether the dictionary of this manifest has been kept.
    func isDictionaryHere(of manifest: Manifest) -> Bool {
        manifest.dictionary.map { source.parts?.has($0.digest) == true } ?? true
    }

    /// Adds places with the same files, which are asked for what this one does not give. A copy on a disk stays with itself.
    ///
    /// - Parameter mirrors: URLs that end with `/`.
    mutating func add(_ mirrors: [String]) {
        guard let own = bases.first, !own.hasPrefix("file:") else { return }
        bases += mirrors.map { $0 + "manifest.json" }.filter { !bases.contains($0) }
    }

    /// The checked manifest.
    func decode() throws(EngineError) -> Manifest { try decodeBody() }
}
