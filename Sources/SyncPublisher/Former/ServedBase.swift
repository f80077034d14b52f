package import SyncManifest

/// A base on a server: its manifest, which the caller has read, and ranges of its packs, which the caller's function
/// fetches. The publisher itself has no network access.
package final class ServedBase: Sendable, Equatable {
    /// Where the manifest is, for people.
    let shown: String
    /// The URL that names the base.
    let location: String
    let manifest: Manifest
    /// The statement beside the manifest that names this revision's manifest; `nil` if there is none.
    let release: [UInt8]?
    let ranges: PackRanges

    /// - Parameters:
    ///   - shown: Where the manifest is, for people.
    ///   - location: The URL that names the base.
    ///   - release: The statement beside the manifest that names this revision's manifest; only needed to sign.
    package init(
        _ manifest: Manifest, shown: String, location: String, release: [UInt8]?, fetch: @escaping PackRanges.Fetch
    ) {
        (self.shown, self.location, self.manifest, self.release) = (shown, location, manifest, release)
        ranges = PackRanges(shown: shown, fetch: fetch)
    }

    package static func == (one: ServedBase, other: ServedBase) -> Bool { one === other }
}
