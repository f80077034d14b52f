import SyncManifest
package import SyncModel

/// The releases of a published directory, for people: newest first, without those that only wait for a prune to remove
/// them.
package struct ReleaseList {
    /// One release.
    package struct Entry: Sendable {
        package let revision: UInt64
        /// When it was published, as written.
        package let created: String?
        /// SHA-256 of its manifest's text.
        package let manifest: SHA256Digest
        package let files: Int
        /// **Bytes** of its files.
        package let bytes: UInt64
        /// **Bytes** of packs that no other release needs.
        package let ownBytes: UInt64
        /// The channels that point at it, the default one first.
        package let channels: [String]

        /// One line of `releases list --json`.
        package var json: JSONLine {
            JSONLine.object { line in
                line.field("revision", revision)
                line.field("created", optional: created)
                line.field("manifest", manifest.hex)
                line.field("files", files)
                line.field("bytes", bytes)
                line.field("own_bytes", ownBytes)
                line.field("channels", channels)
            }
        }
    }

    package private(set) var entries: [Entry] = []
    /// What could not be read, one line each, safe for a terminal.
    package private(set) var warnings: [String] = []

    package init(_ place: TargetPlace) throws(PublishError) {
        let output = try OutputDirectory(published: place, isReadOnly: true)
        let releases = try Releases(output)
        warnings = releases.faults.map { "\($0.summary); \($0.remedy)" }
        let retired = try ReleaseMarks(of: output).retired
        let listed = releases.all.filter { !retired.contains($0.digest) || $0.isNamed }
        guard !listed.isEmpty || !warnings.isEmpty else { throw .noReleases(output.path) }
        var users: [SHA256Digest: Int] = [:]
        for release in listed { for pack in Set(release.packs.map(\.sha256)) { users[pack, default: 0] += 1 } }
        for release in listed {
            var (files, bytes) = (0, UInt64(0))
            do throws(PublishError) {
                let place = BasePlace(release.place.folder, release.place.name, of: output)
                let table = try place.manifest(remedy: "restore it").files
                for row in table.indices where table.kind(row) != .link {
                    files += 1
                    bytes = bytes.saturatingAdd(table.size(row))
                }
            } catch {
                try output.home?.checkReach()
                if let failure = output.home?.ranges.failure { throw failure }
                warnings.append("\(error.summary); \(error.remedy)")
                continue
            }
            let own = release.packs.filter { users[$0.sha256] == 1 }.reduce(UInt64(0)) { $0.saturatingAdd($1.size) }
            entries.append(
                Entry(
                    revision: release.revision, created: release.created, manifest: release.digest, files: files,
                    bytes: bytes, ownBytes: own, channels: release.channels))
        }
    }
}
