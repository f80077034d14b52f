import CPosix
import SyncManifest
import SyncModel
import SyncSystem

/// The last step of a publish: the manifest, and what the next publish wants to know.
extension PublishRun {
    /// What the manifest is made of: packs of the base that are still needed, then the new ones.
    func manifestFiles(
        _ entries: ManifestEntries,
        _ usage: PackUsage,
        _ writer: PackWriter,
        parts: MadeParts?
    ) -> ManifestFiles {
        var packs: [Manifest.Pack] = []
        var indices: [UInt32?] = []
        for (number, pack) in (base?.packs ?? []).enumerated() {
            let isKept = usage.keptPacks.contains(number)
            indices.append(isKept ? UInt32(packs.count) : nil)
            guard isKept else { continue }
            packs.append(pack)
            // Who mirrors this directory has what is in it.
            let name = options.packURLPrefix + pack.sha256.hex + ".pack"
            if pack.urls == [name] { packs[packs.count - 1].urls = choices.packURLs(name) }
        }
        for pack in writer.finished {
            indices.append(UInt32(packs.count))
            packs.append(named(pack))
        }
        var dictionary = madeDictionary ?? (usage.keepsDictionary ? base?.manifest.dictionary : nil)
        if let pack = dictionary.flatMap({ indices[Int($0.blob.pack)] }) { dictionary?.blob.pack = pack }
        let firstOfParts = UInt32(packs.count)
        for pack in parts?.packs ?? [] {
            packs.append(named(pack))
        }
        return ManifestFiles(
            entries: entries,
            packs: packs,
            packIndices: indices,
            chunking: choices.isLoose || entries.ledger.digests.isEmpty ? nil : options.chunks,
            project: project,
            groups: choices.groups,
            userData: base?.manifest.userData,
            parts: parts?.all.map { made in
                var part = made.part
                func number(_ pack: UInt32) -> UInt32? {
                    made.isNew ? firstOfParts + pack : indices[Int(pack)]
                }
                part.blob.pack = number(part.blob.pack) ?? .max
                if let pack = part.delta.flatMap({ number($0.pack) }) {
                    part.delta?.pack = pack
                } else {
                    part.delta = nil
                }
                return part
            },
            dictionary: dictionary
        )
    }

    private func named(_ pack: PackWriter.Finished) -> Manifest.Pack {
        let name = options.packURLPrefix + pack.sha256.hex + ".pack"
        return Manifest.Pack(urls: choices.packURLs(name), size: pack.size, sha256: pack.sha256)
    }

    /// Writes the manifest, unless it would say what the base says; that can only be when there are the base's
    /// packs and no others.
    mutating func writeManifest(_ files: ManifestFiles, mayBeUnchanged: Bool) throws(PublishError) {
        if options.keepsReleases { try Channels(output).begin() }
        if let base = base?.manifest, mayBeUnchanged, options.revision == nil,
            try files.digest(revision: base.revision, created: base.created) == base.digest
        {
            report.unchanged = true
            if options.channel == nil, try isInPlace(base) { return }
            return try write(files, revision: base.revision, created: base.created)
        }
        let revision = try nextRevision()
        if let last = output.keptRevisions().last, revision <= last {
            throw PublishError(
                .usage,
                "revision \(revision) is not above \(last), which is kept for channels",
                remedy: "use --revision \(last &+ 1), or leave out --no-base"
            )
        }
        try write(files, revision: revision, created: options.created)
    }

    func nextRevision() throws(PublishError) -> UInt64 {
        if let revision = options.revision { return revision }
        let (next, overflow) = (base?.manifest.revision ?? 0).addingReportingOverflow(1)
        guard !overflow, next <= PublishOptions.lastRevision else {
            throw PublishError(
                .invalidBase,
                "the base has the highest possible revision",
                remedy: "publish under another project name"
            )
        }
        return next
    }

    private mutating func write(
        _ files: ManifestFiles,
        revision: UInt64,
        created: String?
    ) throws(PublishError) {
        let written = try files.write(
            to: output,
            revision: revision,
            created: created,
            isKept: options.keepsReleases || output.hasChannels,
            isNewest: options.channel == nil
        )
        if let channel = options.channel {
            try output.give("channels/\(revision).json.zst", "\(channel).json.zst", in: "channels")
            try Channels(output).note(channel, revision, project)
        }
        report.revision = revision
        report.manifestDigest = written.digest
        report.manifestBytes = written.size
        report.compressedManifestBytes = written.compressed
    }

    /// Whether the output has both forms of the base's manifest already.
    private mutating func isInPlace(_ base: Manifest) throws(PublishError) -> Bool {
        guard let plain = output.size(.top, "manifest.json"),
            let frame = output.size(.top, "manifest.json.zst"),
            try output.digest(.top, "manifest.json") == base.digest
        else { return false }
        report.revision = base.revision
        report.manifestDigest = base.digest
        report.manifestBytes = plain
        report.compressedManifestBytes = frame
        return true
    }

    /// Remembers what the files looked like. Failing at that costs time at the next publish, nothing else.
    mutating func keepStamps(_ entries: ManifestEntries) {
        guard let path = options.stampCache, let now = options.now else { return }
        let code = StampCache.write(entries.tree, to: path, now: now) { entries.digest(of: $0) }
        guard code != 0 else { return }
        let reason = errorText(code)
        report.warnings.append(
            "cannot write \(shown(path)): \(reason); the next publish reads every file again"
        )
    }
}
