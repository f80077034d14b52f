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
