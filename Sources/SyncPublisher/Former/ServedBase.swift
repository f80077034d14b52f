package import SyncManifest

/// A base on a server: what somebody who can reach it has read, and the way to ranges of its packs. The publisher itself has no
/// network.
package final class ServedBase: Sendable, Equatable {
    /// Where the manifest is, for people.
    let shown: String
    /// The URL that names it.
    let location: String
    let manifest: Manifest
    /// The statement beside it that says which manifest this revision is; `nil` if there is none.
    let release: [UInt8]?
    let ranges: PackRanges

    /// - Parameters:
    ///   - shown: Where the manifest is, for people.
    ///   - location: The URL that names it.
    ///   - release: The statement beside it that says which manifest this revision is; only needed to sign.
    package init(
        _ manifest: Manifest, shown: String, location: String, release: [UInt8]?, fetch: @escaping PackRanges.Fetch
    ) {
        (self.shown, self.location, self.manifest, self.release) = (shown, location, manifest, release)
        ranges = PackRanges(shown: shown, fetch: fetch)
    }

    package static func == (one: ServedBase, other: ServedBase) -> Bool { one === other }
}
