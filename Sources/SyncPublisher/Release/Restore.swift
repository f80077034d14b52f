import SyncContent
import SyncManifest
package import SyncModel
import SyncTrust

/// Makes the contents of an older release the newest one, with a revision of its own, which every machine takes like
/// any other. Nothing is packed again, since the packs of a release stay as long as it does.
package struct Restore {
    private let output: OutputDirectory
    private let signing: Signing?

    /// What was published.
    package struct Report: Sendable {
        package let project: String
        package let revision: UInt64
        /// The revision whose contents were restored.
        package let restored: UInt64
        package let manifest: SHA256Digest
        /// Whether the newest release had these contents already.
        package let isUnchanged: Bool
        /// **Milliseconds** since 1970 until when it is valid; `nil` if it is not signed.
        package let validUntil: Int64?

        /// The line of `releases restore --json`.
        package var json: JSONLine {
            JSONLine.object { line in
                line.field("project", project)
                line.field("revision", revision)
                line.field("restored", restored)
                line.field("manifest", manifest.hex)
                line.field("unchanged", isUnchanged)
                line.time("valid_until", validUntil)
            }
        }
    }

    private var signedOutput: SignedOutput? { signing.map { SignedOutput(output: output, signing: $0) } }

    /// - Parameter signing: The keys that sign the release; `nil` for an unsigned set.
    package init(_ place: TargetPlace, signing: Signing?) throws(PublishError) {
        output = try OutputDirectory(published: place, isReadOnly: false)
        self.signing = signing
        try output.checkFolders()
        if let objection = try output.objection(to: signing, nil) { throw objection }
    }

    /// - Parameters:
    ///   - wanted: A revision, or the SHA-256 of a release's manifest.
    ///   - created: The time of this publish, RFC 3339.
    ///   - now: **Milliseconds** since 1970.
    /// - Throws: ``PublishError``; what was published before is in place then, unless only the signing failed.
    package func run(_ wanted: String, created: String, now: Int64) throws(PublishError) -> Report {
        try output.refuseOtherFormat()
        let releases = try Releases(output)
        let release = try find(wanted, in: releases)
        let place = BasePlace(release.place.folder, release.place.name, of: output)
        let manifest = try place.manifest(remedy: "restore another release")
        try check(manifest, release)
        let newest = try newest(releases)
        guard let former = try output.manifestText(release.place.folder, release.place.name) else {
            throw .invalid("\(shown(place.path)) cannot be read", "restore another release")
        }
        // A set that was renamed since then keeps its new name: under the old one no machine would take the release.
        let current = try signing == nil ? output.newestProject(releases) : nil
        let project = current ?? manifest.project
        if let (revision, digest, size) = try inPlace(former, project), revision >= newest {
            try mendKept(revision)
            // A release whose run was killed before it was signed is signed now.
            let until = try sign(revision, digest, size: size)
            return Report(
                project: project, revision: revision, restored: release.revision, manifest: digest,
                isUnchanged: true, validUntil: until)
        }
        guard newest < PublishOptions.lastRevision else {
            throw .invalid(
                "the newest revision is the highest possible one",
                "publish to another directory, under another project name")
        }
        let revision = newest + 1
        let text = try calling {
            try manifestText(former, project: project, revision: revision, created: created)
        }
        let digest = try calling { try sha256(text) }
        let again = try calling { try ManifestAssembly(text, digest: digest) }
        guard again.revision == revision, again.project == project, again.packs == manifest.packs else {
            throw .bug("a manifest's text is not what was meant")
        }
        let frame = try manifestFrame(text)
        ReleaseMarks.update(output, now: now)
        if let home = output.home {
            try ReleaseMarks.take(Set(manifest.packs.map(\.sha256)), at: home, output, now: now)
        }
        try output.make(.manifests)
        try output.keepRelease()
        if let signing { try signing.memory?.note(made: digest, under: signing.roots, now: signing.now) }
        // This comes first, since it reserves the revision.
        if try output.hasChannels() { try output.put(frame, "\(revision).json.zst", in: .channels) }
        try output.putManifest(text, frame: frame)
        if signing == nil {
            do throws(PublishError) { try output.keep(digest) } catch {
                throw output.after("revision \(revision) is published", error)
            }
        }
        let fresh = try sign(revision, digest, size: UInt64(text.count))
        ReleaseMarks.update(output, now: now)
        try output.home?.commit()
        return Report(
            project: project, revision: revision, restored: release.revision, manifest: digest,
            isUnchanged: false, validUntil: fresh)
    }

    /// Replaces the file that keeps the newest release for the channels, if no manifest is in it: a publish begins with
    /// that file.
    private func mendKept(_ revision: UInt64) throws(PublishError) {
        let name = "\(revision).json.zst"
        guard try output.hasChannels() else { return }
        if let text = try output.manifestText(.channels, name), (try? ManifestAssembly(text, digest: .zero)) != nil {
            return
        }
        try output.give("manifest.json.zst", name, in: .channels)
    }

    private func find(_ wanted: String, in releases: Releases) throws(PublishError) -> Releases.Release {
        let digest = SHA256Digest(hex: wanted)
        let found = releases.all.filter { digest == nil ? "\($0.revision)" == wanted : $0.digest == digest }
        guard let first = found.first else {
            if let fault = releases.faults.first { throw fault }
            let there = releases.all.prefix(20).map { "\($0.revision)" }
            let more = releases.all.count > there.count ? ", and older ones, which 'syncagent releases list' shows" : ""
            throw .notFound(
                "\(shown(output.path)) has no release \(shown(wanted))",
                there.isEmpty ? "publish first" : "available: \(there.joined(separator: ", "))\(more)")
        }
        guard found.count == 1 || first.isNamed else {
            throw PublishError(
                .usage, "\(shown(output.path)) has \(found.count) releases of revision \(first.revision)",
                details: found.map { "\($0.digest) of \($0.created ?? "no time")" },
                "name one by the SHA-256 of its manifest")
        }
        return first
    }

    /// Throws unless this release may be published again: what is signed must come from the signer, and every pack must
    /// be there.
    private func check(_ manifest: Manifest, _ release: Releases.Release) throws(PublishError) {
        guard !release.isLoose else {
            throw .usage(
                "revision \(release.revision) is a loose set, whose files are as they are now",
                "restore the files, and publish them again")
        }
        if let signing {
            guard manifest.project == signing.root.project else {
                throw .refused(
                    "the keys are for project \(signing.root.project), but this is \(shown(manifest.project))",
                    "use the keys of this project")
            }
            if !signing.hasMade(release.digest) {
                let known = try SignedOutput(output: output, signing: signing).signed(release.revision)
                guard known.content.manifest == release.digest else {
                    throw .refused(
                        "\(shown(output.display(release.place.folder, release.place.name))) is not the manifest that was signed",
                        "restore another release, or publish the files again with --sign")
                }
            }
        }
        for pack in manifest.packs {
            if signing?.isStopped() == true { throw .cancelled }
            let name = pack.sha256.packName
            let fault: String?
            if try output.size(.packs, name) != pack.size {
                fault = "is missing, or of another size"
            } else if signing != nil, output.home == nil, try output.digest(.packs, name) != pack.sha256 {
                // Someone may have changed the pack since it was written, so it is verified before it is signed again.
                fault = "does not have the content that its name says"
            } else {
                fault = nil
            }
            guard let fault else { continue }
            throw .invalid(
                "\(shown(output.display(.packs, name))), which revision \(release.revision) needs, \(fault)",
                "bring it back, restore another release, or publish the files again; nothing was published")
        }
    }

    /// The highest revision that is in the output, or was signed.
    private func newest(_ releases: Releases) throws(PublishError) -> UInt64 {
        let signed = try signing?.known?.lastRevision ?? 0
        let numbers = releases.all.map(\.revision) + (try output.keptRevisions())
        let newest = max(numbers.max() ?? 0, signed, try output.word(nil)?.fresh.revision ?? 0)
        guard let signedOutput else { return newest }
        // A machine that has signed nothing yet goes by the published statements.
        let last = max(signed, try signedOutput.newestRelease(above: 0) ?? 0)
        guard newest - min(newest, last) <= PublishOptions.mostRevisionsAtOnce else {
            throw .refused(
                "\(shown(output.path)) has revision \(newest), \(newest - last) above \(last), the last one known to be signed",
                "remove what has that number; nothing was published")
        }
        return newest
    }

    /// The release in `manifest.json`, if it has this project name and the same contents as `text`; `nil` if it has
    /// others, or the two forms of the manifest differ.
    private func inPlace(_ text: [UInt8], _ project: String) throws(PublishError) -> (
        revision: UInt64, digest: SHA256Digest, size: UInt64
    )? {
        guard let own = try output.manifestText(.top, "manifest.json"),
            try own == output.manifestText(.top, "manifest.json.zst")
        else { return nil }
        let digest = try calling { try sha256(own) }
        guard let current = try? ManifestAssembly(own, digest: digest), let created = current.created,
            let same = try? manifestText(text, project: project, revision: current.revision, created: created),
            same == own
        else { return nil }
        return (current.revision, digest, UInt64(own.count))
    }

    /// - Returns: Until when the release is valid; `nil` if it is not signed.
    private func sign(_ revision: UInt64, _ digest: SHA256Digest, size: UInt64) throws(PublishError) -> Int64? {
        try signedOutput?.publish(revision, digest, size: size, to: nil, ifUnsigned: "run the same command again").until
    }
}
