import SyncContent
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// The published directory, or the store, that a command works on.
package enum TargetPlace: Sendable {
    /// By its path.
    case directory(String)
    case store(HomePlace)
}

extension OutputDirectory {
    /// The text of a manifest's file, decoded if its name ends in `.zst`; `nil` if there is none, or it is damaged.
    func manifestText(_ folder: Folder, _ name: String) throws(PublishError) -> [UInt8]? {
        let bytes = try read(folder, name, limit: ManifestLimits.standard.manifestBytes)
        return name.hasSuffix(".zst") ? bytes.flatMap(unframed) : bytes
    }

    /// The URLs of the set's own files, if it is loose: where it is published in their directory, they are relative to it.
    /// Such a file is no file of a publish, whatever it is called.
    func looseFiles() -> Set<String> {
        let place = BasePlace(.top, "manifest.json", of: self)
        // Of a set with packs, which may be large, only the root is read.
        guard home == nil, (try? place.root(remedy: ""))?.packs.isEmpty == true,
            let files = try? place.manifest(remedy: "publish again").files
        else { return [] }
        var urls: Set<String> = []
        var empty: [String] = []
        var isInPlace = false
        for row in files.indices where files.kind(row) != .link {
            let path = files.withPath(row) { percentEncoded(bytes: $0) }
            // An empty file has no URL.
            if files.urls(row).isEmpty { empty.append(path) }
            isInPlace = isInPlace || files.urls(row).contains(path)
            urls.formUnion(files.urls(row))
        }
        return isInPlace ? urls.union(empty) : urls
    }

    /// The published fresh statement of a channel, its signatures not verified; `nil` if there is none, or it is
    /// damaged.
    func word(_ channel: String?) throws(PublishError) -> (statement: SignedStatement, fresh: FreshStatement)? {
        guard let bytes = try read(.trust, FreshStatement.name(channel), limit: Role.fresh.limit),
            let statement = try? SignedStatement(bytes, limit: Role.fresh.limit),
            let fresh = try? FreshStatement(json: statement.json)
        else { return nil }
        return (statement, fresh)
    }

    /// The published statement of a revision's release, its signatures not verified; `nil` if there is none, or it is
    /// damaged.
    func release(_ revision: UInt64) throws(PublishError) -> SignedRelease? {
        try read(.trust, "\(revision).release", limit: Role.release.limit).flatMap(signedRelease)
    }
}

/// Decodes the frame of a published manifest; `nil` if that fails.
package func unframed(_ frame: [UInt8]) -> [UInt8]? {
    try? decodeZstd(frame, limit: ManifestLimits.standard.manifestBytes)
}

/// A manifest's text as one zstd frame, as it is published.
func manifestFrame(_ text: [UInt8]) throws(PublishError) -> [UInt8] {
    var compressor = try calling { try ZstdCompressor(level: ManifestFiles.level) }
    let frame = try calling { try compressor.encode(text, most: ZstdCompressor.bound(text.count)) }
    guard let made = frame else { throw .bug("a manifest is longer than it may be") }
    return made
}
