import SyncContent
import SyncManifest
import SyncModel
import SyncTrust

/// The state of an output when a publish begins. With any base, the set there keeps its name, and no two of its
/// releases get the same revision.
struct PublishedBefore {
    /// The set's name; `nil` where nothing is published.
    private(set) var project: String?
    /// The highest revision there that counts; 0 for none.
    private(set) var revision: UInt64 = 0
    /// The manifests that have that revision, as far as they can be read.
    private(set) var manifests: Set<SHA256Digest> = []
    /// When the first of them was published, as written.
    private(set) var created: String?

    /// - Parameters:
    ///   - base: The base. One in the output is its newest release, so nothing else is read.
    ///   - isLoose: Whether the set is loose, so that anything else there may be files of the set.
    init(_ output: OutputDirectory, base: BaseSet?, signing: Signing?, isLoose: Bool) throws(PublishError) {
        if let base, !base.place.isElsewhere {
            (project, revision) = (base.manifest.project, base.manifest.revision)
            manifests = [base.manifest.digest]
            return
        }
        try output.refuseOtherFormat()
        var found: [(revision: UInt64, manifest: SHA256Digest?, created: String?)] = []
        let kept = try output.keptRevisions()
        for revision in kept { found.append((revision, nil, nil)) }
        // The manifest that machines see, and the one with the highest revision, are enough. There may be many others,
        // which are not read.
        let newest = try Self.manifest(.top, "manifest.json", of: output)
        if let newest { found.append((newest.manifest.revision, newest.digest, newest.manifest.created)) }
        project = newest?.manifest.project
        if let last = kept.last, last > newest?.manifest.revision ?? 0,
            let other = try Self.manifest(.channels, "\(last).json.zst", of: output)
        {
            found.append((last, other.digest, other.manifest.created))
            project = project ?? other.manifest.project
        }
        if project == nil {
            let releases: Releases
            do throws(PublishError) { releases = try Releases(output) } catch {
                // Links among the files of a loose set are not its releases.
                guard isLoose, error.exitStatus == .refused else { throw error }
                return
            }
            // A damaged file counts as missing; an unreadable file may have any revision.
            if let fault = releases.faults.first(where: { $0.exitStatus == .ioError }) { throw fault }
            try Self.refuseForeign(output, releases)
            // In a signed set only revisions that its keys have signed count: others may be an attacker's.
            if signing == nil {
                for release in releases.all { found.append((release.revision, release.digest, release.created)) }
            }
            project = try output.newestProject(releases)
        }
        if let signing {
            let own = SignedOutput(output: output, signing: signing)
            let signed = try own.newestRelease(above: 0) ?? 0
            if signed > 0 { project = signing.root.project }
            for revision in try own.saidRevisions() { found.append((revision, nil, nil)) }
            // Whoever can only write to the output must not use up the revisions of the signers.
            let last = max(signed, try signing.known?.lastRevision ?? 0, base?.manifest.revision ?? 0)
            found.removeAll { $0.revision - min($0.revision, last) > PublishOptions.mostRevisionsAtOnce }
            found.append((signed, nil, nil))
        }
        let highest = found.map(\.revision).max() ?? 0
        revision = highest
        manifests = Set(found.filter { $0.revision == highest }.compactMap(\.manifest))
        created = found.first { $0.revision == highest && $0.manifest != nil }?.created
    }

    /// A manifest of the output, without its parts; `nil` if it is not there, or damaged.
    private static func manifest(_ folder: OutputDirectory.Folder, _ name: String, of output: OutputDirectory)
        throws(PublishError) -> (manifest: ManifestAssembly, digest: SHA256Digest)?
    {
        guard try output.size(folder, name) != nil, let text = try output.manifestText(folder, name) else { return nil }
        let digest = try calling { try sha256(text) }
        return (try? ManifestAssembly(text, digest: digest)).map { ($0, digest) }
    }

    /// Refuses to replace a file that no publish has written.
    private static func refuseForeign(_ output: OutputDirectory, _ releases: Releases) throws(PublishError) {
        guard try output.hasForeignManifest(releases) else { return }
        throw .invalid(
            "\(shown(output.display(.top, "manifest.json"))) is not a manifest that syncagent has written, and would be replaced",
            OutputDirectory.remedyForForeign)
    }
}

extension OutputDirectory {
    fileprivate static let remedyForForeign = "name another output directory, or move that file away"

    /// Whether `manifest.json` is a foreign file: neither a manifest, nor what may be left of one.
    fileprivate func hasForeignManifest(_ releases: Releases) throws(PublishError) -> Bool {
        guard releases.all.isEmpty, let text = try manifestText(.top, "manifest.json") else { return false }
        // A disk that lost power leaves zeros, or nothing.
        return !text.allSatisfy { $0 == 0 } && !Self.isManifest(text)
    }

    /// How every manifest begins, up to the version of its format.
    private static let beginning = "{\"format\":\"syncagent-manifest/"

    /// Whether a text begins as every manifest does, in any version of the format.
    static func isManifest(_ text: [UInt8]) -> Bool { text.starts(with: beginning.utf8) }

    /// Whether a text is a manifest in another version of the format.
    static func isInOtherFormat(_ text: [UInt8]) -> Bool {
        isManifest(text) && !text.starts(with: (beginning + "1\"").utf8)
    }

    /// Refuses to replace a manifest in another version of the format: its name and its revision are not known, and
    /// machines would not follow what is published under others.
    func refuseOtherFormat() throws(PublishError) {
        guard let text = try manifestText(.top, "manifest.json"), Self.isInOtherFormat(text) else { return }
        throw .invalid(
            "\(shown(display(.top, "manifest.json"))) is in another version of the format, so its revision is not known",
            "use a newer syncagent; if the file is damaged, move it away")
    }

    /// The remedy where a manifest of the set cannot be used.
    func remedyForDamage() -> String {
        do throws(PublishError) { try refuseOtherFormat() } catch { return error.remedy }
        guard let releases = try? Releases(self) else {
            return "repair it, publish with --no-base, or name another output directory"
        }
        if (try? hasForeignManifest(releases)) == true { return Self.remedyForForeign }
        // A newer release may be one of a channel for a few.
        let packed = releases.all.filter { !$0.isLoose }
        if let last = packed.first(where: { $0.channels.contains(ChannelName.ofDefault) }) ?? packed.first {
            return
                "bring a release back, such as 'syncagent releases restore \(shown(path)) \(last.revision)', repair it, or "
                + "publish with --no-base"
        }
        return "repair it, publish with --no-base, or name another output directory"
    }

    /// The name of the set: that in `manifest.json`, or in the newest release where it cannot be read; `nil` for none.
    func newestProject(_ releases: Releases) throws(PublishError) -> String? {
        let newest = try digest(.top, "manifest.json")
        return (releases.all.first { $0.digest == newest } ?? releases.all.first)?.project
    }
}

extension SignedOutput {
    /// The revisions that the published statements of channels name, as far as valid keys have signed them.
    func saidRevisions() throws(PublishError) -> [UInt64] {
        let channels = [nil] + (try output.statementNames()).compactMap(FreshStatement.channel(ofFile:))
        var revisions: [UInt64] = []
        for channel in channels {
            guard let (statement, fresh) = try output.word(channel), fresh.project == signing.root.project,
                fresh.channel == channel, statement.isSigned(.fresh, by: signing.root.fresh)
            else { continue }
            revisions.append(fresh.revision)
        }
        return revisions
    }
}
