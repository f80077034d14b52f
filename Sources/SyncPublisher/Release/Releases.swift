import SyncContent
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// The releases of a target, newest first. Each is a manifest, kept as `manifests/SHA256.json.zst`.
struct Releases {
    /// One release.
    struct Release {
        let digest: SHA256Digest
        let revision: UInt64
        let project: String
        /// When it was published, as written.
        let created: String?
        let packs: [Manifest.Pack]
        /// Whether its files are fetched one by one, and not from packs.
        let isLoose: Bool
        /// Its manifest's file.
        fileprivate(set) var place: Place
        /// The files by which a pull asks for it by its number.
        fileprivate(set) var entries: [Place] = []
        /// The channels that point at it.
        fileprivate(set) var channels: [String] = []
        /// Whether a pull that asks for no number can begin with it.
        fileprivate(set) var isNamed = false

        /// **Milliseconds** since 1970.
        var time: Int64? { created.flatMap { parseTimestamp($0) } }
    }

    /// A file of the target.
    struct Place {
        let folder: OutputDirectory.Folder
        let name: String
        let object: StoredObject

        /// Identifies the space that the file takes: two names of one file share it, two objects of a store do not.
        func room(in target: OutputDirectory) -> String { target.home == nil ? object.tag : path }

        /// The path from the published directory.
        var path: String { folder.path(name) }
    }

    let target: OutputDirectory
    private lazy var looseFiles = target.looseFiles()
    private(set) var all: [Release] = []
    /// Errors of files whose releases, and so the packs that they need, are unknown.
    private(set) var faults: [PublishError] = []

    private static let suffix = ".json.zst"

    /// Reads all releases of a target.
    init(_ target: OutputDirectory) throws(PublishError) {
        self.target = target
        var known: [String: SHA256Digest] = [:]
        for name in try target.names(in: .manifests)?.sorted() ?? [] {
            guard let digest = Self.digest(ofFile: name), let object = try target.object(.manifests, name) else {
                continue
            }
            do throws(PublishError) {
                if try read(.manifests, name, object) == digest {
                    known[object.tag] = digest
                } else {
                    refuse(.manifests, name)
                }
            } catch { try note(error) }
        }
        let names = try ReleaseNames(target, known: known)
        faults += names.faults.filter { !faults.contains($0) }
        // Releases that are only in these places, and not in `manifests/`.
        var seen = Set(all.map(\.digest))
        for (revision, digest, object) in names.numbered where seen.insert(digest).inserted {
            try add(.channels, "\(revision)\(Self.suffix)", object)
        }
        for name in ["manifest.json", "manifest.json.zst"] {
            // A file that cannot be read is among the faults.
            guard let object = try target.object(.top, name), let digest = names.known[object.tag],
                seen.insert(digest).inserted
            else { continue }
            try add(.top, name, object)
        }
        for index in all.indices {
            let release = all[index]
            all[index].channels = names.channels[release.digest]?.sorted(by: Self.isBefore) ?? []
            all[index].isNamed = names.digests.contains(release.digest) || names.revisions.contains(release.revision)
            let number = names.numbered.first { $0.revision == release.revision && $0.digest == release.digest }
            if let number {
                all[index].entries.append(
                    Place(folder: .channels, name: "\(release.revision)\(Self.suffix)", object: number.object))
            }
            let statement = "\(release.revision).release"
            if try target.release(release.revision)?.content.manifest == release.digest,
                let object = try target.object(.trust, statement)
            {
                all[index].entries.append(Place(folder: .trust, name: statement, object: object))
            }
        }
        // Publishes side by side may have given one number to two releases: a named one goes first.
        all.sort { one, other in
            if one.revision != other.revision { return one.revision > other.revision }
            if one.isNamed != other.isNamed { return one.isNamed }
            return (one.time ?? 0, one.digest.hex) > (other.time ?? 0, other.digest.hex)
        }
    }

    /// Keeps under its digest, too, each manifest that is only kept under its number in `channels/`.
    mutating func keepByDigest() throws(PublishError) {
        for (index, release) in all.enumerated() where release.place.folder == .channels {
            let name = release.digest.hex + Self.suffix
            try target.give(release.place.name, from: .channels, name, in: .manifests, replacing: false)
            guard let object = try target.object(.manifests, name) else { continue }
            all[index].place = Place(folder: .manifests, name: name, object: object)
        }
    }

    /// The digest in the name of a file in `manifests/`; `nil` for another name.
    static func digest(ofFile name: String) -> SHA256Digest? { digest(of: name, suffix) }

    /// The digest in the name of a file in `packs/`; `nil` for another name.
    static func pack(ofFile name: String) -> SHA256Digest? { digest(of: name, ".pack") }

    private static func digest(of name: String, _ suffix: String) -> SHA256Digest? {
        guard name.hasSuffix(suffix), let digest = SHA256Digest(hex: String(name.dropLast(suffix.count))),
            digest.hex + suffix == name
        else { return nil }
        return digest
    }

    private static func isBefore(_ one: String, _ other: String) -> Bool {
        (one == ChannelName.ofDefault ? "" : one) < (other == ChannelName.ofDefault ? "" : other)
    }

    /// Adds the release of a file; a damaged file is a fault.
    private mutating func add(_ folder: OutputDirectory.Folder, _ name: String, _ object: StoredObject)
        throws(PublishError)
    {
        do throws(PublishError) {
            if try read(folder, name, object) == nil { refuse(folder, name) }
        } catch { try note(error) }
    }

    /// Notes a file that cannot be read as a fault, once. Any error of a store is thrown, since nothing more can be
    /// read there.
    private mutating func note(_ error: PublishError) throws(PublishError) {
        guard target.home == nil, error.exitStatus == .ioError else { throw error }
        if !faults.contains(error) { faults.append(error) }
    }

    /// - Returns: The manifest's digest; `nil` if the file is no valid manifest.
    private mutating func read(_ folder: OutputDirectory.Folder, _ name: String, _ object: StoredObject)
        throws(PublishError) -> SHA256Digest?
    {
        guard let text = try target.manifestText(folder, name) else {
            try target.home?.checkReach()
            return nil
        }
        let digest = try calling { try sha256(text) }
        // A file in `manifests/` must be what its name says; otherwise its content is ignored.
        if folder == .manifests, Self.digest(ofFile: name) != digest { return nil }
        guard let manifest = try? ManifestAssembly(text, digest: digest) else { return nil }
        all.append(
            Release(
                digest: digest, revision: manifest.revision, project: manifest.project, created: manifest.created,
                packs: manifest.packs, isLoose: manifest.isLoose,
                place: Place(folder: folder, name: name, object: object)))
        return digest
    }

    /// Notes a damaged file as a fault, unless it is a file of the set, which only looks like one of a publish.
    private mutating func refuse(_ folder: OutputDirectory.Folder, _ name: String) {
        guard !looseFiles.contains(percentEncoded(bytes: folder.path(name).utf8)) else { return }
        let path = shown(target.display(folder, name))
        if let text = try? target.manifestText(folder, name), OutputDirectory.isInOtherFormat(text) {
            faults.append(.invalid("\(path) is in another version of the format", "use a newer syncagent"))
            return
        }
        faults.append(
            .invalid(
                "\(path) is damaged, or not what its name says", "restore it, or remove it: then its release is gone"))
    }
}

extension OutputDirectory {
    /// Opens a directory that somebody has published to, or a store.
    convenience init(published place: TargetPlace, isReadOnly: Bool) throws(PublishError) {
        switch place {
        case .store(let place):
            self.init(Home(place, isReadOnly: isReadOnly))
            if !isReadOnly { _ = try home?.prepare() }
        case .directory(let path):
            guard openDirectory(path) != nil || !FileError.last("open", path).isMissing else {
                throw .notFound("\(shown(path)): there is no such directory", "check the path")
            }
            try self.init(path, isReadOnly: isReadOnly)
        }
    }

    /// Keeps the release in `manifest.json` under its digest, since nothing else shows its packs later.
    func keepRelease() throws(PublishError) {
        guard let digest = try digest(.top, "manifest.json"), try object(.manifests, "\(digest).json.zst") == nil,
            // A killed run may have replaced only this file.
            let text = try manifestText(.top, "manifest.json.zst"), try calling({ try sha256(text) }) == digest
        else { return }
        try keep(digest)
    }

    /// Keeps a manifest under its digest: the newest one in place, or that of a revision.
    func keep(_ digest: SHA256Digest, ofRevision revision: UInt64? = nil) throws(PublishError) {
        let name = "\(digest).json.zst"
        if let revision {
            try give("\(revision).json.zst", from: .channels, name, in: .manifests, replacing: false)
        } else {
            try give("manifest.json.zst", name, in: .manifests, replacing: false)
        }
    }

    /// The error of a step that follows a change which everybody sees already.
    func after(_ change: String, _ error: PublishError) -> PublishError {
        guard home?.namesAtOnce != false else { return error }
        return PublishError(
            error.exitStatus, error.summary, details: error.details + ["\(change) already"],
            "correct this, and run the same command again")
    }
}

extension PublishError {
    /// Nothing is published in a directory.
    static func noReleases(_ path: String) -> Self {
        .notFound("\(shown(path)) has no releases", "publish there first, or name another directory")
    }
}
