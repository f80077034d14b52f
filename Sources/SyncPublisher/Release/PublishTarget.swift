import SyncContent
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// Where a set is published to, as far as its releases need it: files in few folders, which are listed, read, put, replaced and
/// removed, each as a whole. One publisher at a time changes it.
///
/// Others may be able to write to it, so nothing is believed because of its name.
protocol PublishTarget: AnyObject {
    typealias Folder = OutputDirectory.Folder

    /// For people.
    var path: String { get }
    func display(_ folder: Folder, _ name: String?) -> String

    /// Whether nobody else changes it meanwhile.
    var isLocked: Bool { get }

    /// What is in a folder; `nil` if there is none.
    func names(in folder: Folder) throws(PublishError) -> [String]?

    /// How a file looks; `nil` if there is none.
    func object(_ folder: Folder, _ name: String) -> TargetObject?

    /// A whole file of at most `limit` **bytes**.
    func contents(_ folder: Folder, _ name: String, limit: Int) throws(FileError) -> [UInt8]

    /// Puts a small file into a folder, in place of the one that has the name.
    func put(_ bytes: [UInt8], _ name: String, in folder: Folder) throws(PublishError)

    /// Gives a file a second name, in place of what has that name or only if nothing has.
    func give(_ source: String, from: Folder, _ name: String, in folder: Folder, replacing isReplaced: Bool)
        throws(PublishError)

    /// Removes files from a folder, as far as they exist; all are gone for good when this returns.
    func remove(_ names: [String], from folder: Folder) throws(PublishError)
}

/// What a command names that works on what is published.
package enum TargetPlace: Sendable {
    /// Its path.
    case directory(String)
    case store(HomePlace)

    /// For people.
    var shown: String {
        switch self {
        case .directory(let path): path
        case .store(let place): place.store.shown
        }
    }
}

/// How a file of a target looks.
struct TargetObject {
    /// **Bytes**.
    let size: UInt64
    /// Equal for two names of one file, and for two files that are known to have the same contents.
    let tag: String
    /// Equal for two names of one file, which takes the room of one.
    let place: String
}

extension OutputDirectory: PublishTarget {}

extension PublishTarget {
    /// The same as ``contents(_:_:limit:)``; `nil` if there is none that can be read.
    func read(_ folder: Folder, _ name: String, limit: Int) -> [UInt8]? { try? contents(folder, name, limit: limit) }

    /// What a zstd frame holds; `nil` if it cannot be read.
    func text(ofFrame name: String, in folder: Folder = .top) -> [UInt8]? {
        let limit = ManifestLimits.standard.manifestBytes
        return read(folder, name, limit: limit).flatMap { frame in
            frame.withUnsafeBytes { try? decodeZstd($0, limit: limit) }
        }
    }

    /// The published fresh statement of a channel, whoever signed it; `nil` if there is none that can be read.
    func word(_ channel: String?) -> (statement: SignedStatement, fresh: FreshStatement)? {
        guard let bytes = read(.trust, FreshStatement.name(channel), limit: Role.fresh.limit),
            let statement = try? SignedStatement(bytes, limit: Role.fresh.limit),
            let fresh = try? FreshStatement(json: statement.json)
        else { return nil }
        return (statement, fresh)
    }

    /// The same of a revision's release.
    func release(_ revision: UInt64) -> SignedRelease? {
        read(.trust, "\(revision).release", limit: Role.release.limit).flatMap(signedRelease)
    }
}

/// A manifest's text as one zstd frame, as it is published.
func manifestFrame(_ text: [UInt8]) throws(PublishError) -> [UInt8] {
    var compressor = try calling { try ZstdCompressor(level: ManifestFiles.level) }
    let frame = try calling { try compressor.encode(text, most: ZstdCompressor.bound(text.count)) }
    guard let made = frame else { throw .bug("a manifest is longer than it may be") }
    return made
}
