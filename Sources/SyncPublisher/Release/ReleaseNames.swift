import SyncContent
import SyncManifest
import SyncModel
import SyncTrust

/// The releases of a target that a pull can begin with: those that `manifest.json`, the channels and the `fresh`
/// statements name.
struct ReleaseNames {
    /// The channels that point at a manifest, by its digest; the default one has the name that users give it.
    private(set) var channels: [SHA256Digest: Set<String>] = [:]
    /// Manifests that are named, also by files that a killed publish has left.
    private(set) var digests: Set<SHA256Digest> = []
    /// Named revisions of which the manifest is unknown.
    private(set) var revisions: Set<UInt64> = []
    /// The manifests that `channels/` keeps under their revisions.
    private(set) var numbered: [(revision: UInt64, digest: SHA256Digest, object: StoredObject)] = []
    /// Errors of files that should name a release, and cannot be read or are damaged.
    private(set) var faults: [PublishError] = []

    private let target: OutputDirectory
    private lazy var looseFiles = target.looseFiles()
    /// The manifests that are known so far, by ``StoredObject/tag`` of their files.
    private(set) var known: [String: SHA256Digest]

    /// - Parameter known: The manifests of some files, by ``StoredObject/tag``; those files are not read again.
    init(_ target: OutputDirectory, known: [String: SHA256Digest] = [:]) throws(PublishError) {
        (self.target, self.known) = (target, known)
        if let digest = try find(.top, "manifest.json") { name(digest, ChannelName.ofDefault) }
        if let digest = try find(.top, "manifest.json.zst") { digests.insert(digest) }
        for file in try target.names(in: .channels)?.sorted() ?? [] where file.hasSuffix(".json.zst") {
            let stem = String(file.dropLast(9))
            let revision = revisionNumber(stem)
            guard revision != nil || ChannelName.objection(stem) == nil,
                let object = try target.object(.channels, file), let digest = try find(.channels, file)
            else { continue }
            if let revision { numbered.append((revision, digest, object)) } else { name(digest, stem) }
        }
        let index = try target.read(.channels, "index.json", limit: ChannelIndex.limit)
        if let index = index.flatMap({ try? ChannelIndex(json: $0) }) { revisions.formUnion(index.channels.values) }
        try readStatements()
    }

    private mutating func name(_ digest: SHA256Digest, _ channel: String) {
        digests.insert(digest)
        channels[digest, default: []].insert(channel)
    }

    /// The manifest that a file holds; `nil` if there is no such file.
    private mutating func find(_ folder: OutputDirectory.Folder, _ name: String) throws(PublishError) -> SHA256Digest? {
        guard let object = try target.object(folder, name) else { return nil }
        if let digest = known[object.tag] { return digest }
        let found: [UInt8]?
        do throws(PublishError) { found = try target.manifestText(folder, name) } catch {
            // After a failure, nothing more can be read from a store.
            guard target.home == nil else { throw error }
            faults.append(error)
            return nil
        }
        guard let text = found else {
            try target.home?.checkReach()
            refuse(folder, name)
            return nil
        }
        let digest = try calling { try sha256(text) }
        known[object.tag] = digest
        return digest
    }

    /// Notes a damaged file as a fault, unless it is a file of the set, which only looks like one of a publish.
    private mutating func refuse(_ folder: OutputDirectory.Folder, _ name: String) {
        guard !looseFiles.contains(percentEncoded(bytes: folder.path(name).utf8)) else { return }
        faults.append(
            .invalid(
                "\(shown(target.display(folder, name))) cannot be read, or is damaged",
                "restore it, or remove it if nobody uses it"))
    }

    /// Reads what the `fresh` statements name; that of a removed channel names nothing.
    private mutating func readStatements() throws(PublishError) {
        let names = try target.statementNames()
        let channels = [nil] + names.compactMap(FreshStatement.channel(ofFile:))
        for channel in channels where names.contains(FreshStatement.name(channel)) {
            guard let fresh = try target.word(channel)?.fresh else {
                try target.home?.checkReach()
                refuse(.trust, FreshStatement.name(channel))
                continue
            }
            guard !fresh.isRemoved else { continue }
            if let release = try target.release(fresh.revision), release.statement.digest == fresh.release {
                name(release.content.manifest, channel ?? ChannelName.ofDefault)
            } else {
                revisions.insert(fresh.revision)
            }
        }
    }
}

/// The revision that is a file's name; `nil` for another name, also one with a zero before the number.
func revisionNumber(_ name: String) -> UInt64? { UInt64(name).flatMap { "\($0)" == name ? $0 : nil } }
