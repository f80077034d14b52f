import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
package import SyncTrust

/// The channels of an output directory: names that point at releases.
///
/// `channels/R.json.zst` is the manifest of revision R and never changes, `channels/NAME.json.zst` is that of the
/// release which a channel points at, and `channels/index.json` lists the channels for people. They are kept from the
/// first publish to a channel on.
package struct Channels {
    let output: OutputDirectory
    private let now: Int64?
    /// The list for people, in `channels/`.
    private static let index = "index.json"

    /// The result of a change: `former` is the revision that the channel pointed at before, `nil` for a new one;
    /// `fresh` is its new statement, `nil` if unsigned.
    package typealias Move = (project: String, revision: UInt64, former: UInt64?, fresh: FreshStatement?)

    /// Opens a published directory.
    ///
    /// - Parameter now: **Milliseconds** since 1970, the time from which releases that no channel names any more are
    ///   marked so; `nil` leaves that to the next prune.
    package init(_ place: TargetPlace, isReadOnly: Bool = false, now: Int64? = nil) throws(PublishError) {
        (output, self.now) = (try OutputDirectory(published: place, isReadOnly: isReadOnly), now)
    }

    init(_ output: OutputDirectory) { (self.output, now) = (output, nil) }

    private func note() { if let now { ReleaseMarks.update(output, now: now) } }

    /// The release of each channel, by name; the default one has no name. A channel that no machine can follow, because
    /// its file and its statement are gone, is left out.
    package func list() throws(PublishError) -> [(channel: String?, revision: UInt64)] {
        var list: [(channel: String?, revision: UInt64)] = []
        if let revision = try ofDefault() { list.append((nil, revision)) }
        let named: [(key: String, value: UInt64)]
        do throws(PublishError) { named = try index()?.channels.sorted { $0.key < $1.key } ?? [] } catch {
            // A file of the set may be called as the list is.
            guard output.looseFiles().contains(OutputDirectory.Folder.channels.path(Self.index)) else { throw error }
            named = []
        }
        for (name, revision) in named {
            var isThere = try output.size(.channels, "\(name).json.zst") != nil
            if !isThere { isThere = try output.word(name)?.fresh.isRemoved == false }
            if isThere { list.append((name, revision)) }
        }
        return list
    }

    /// Points a channel at a release published before; nothing is published anew.
    ///
    /// - Parameter release: Its revision, or the name of a channel that points at it.
    /// - Throws: ``PublishError``, also for a release that is older than what the channel points at: machines that
    ///   follow it do not go back.
    package func point(_ channel: String?, at release: String, signing: Signing?) throws(PublishError) -> Move {
        let signed = signing.map { SignedOutput(output: output, signing: $0) }
        let revision = try revision(release, signed)
        try requireSigner(signing)
        let kept = try kept(revision)
        if channel != nil, (try? ManifestAssembly(kept.text, digest: .zero))?.isLoose == true {
            throw .usage(
                "revision \(revision) is a loose set, whose files are as they are now, and no channel could point at them "
                    + "as they were", "publish the files in packs, with --no-loose")
        }
        let known = try signed?.signed(revision)
        if let known, known.content.manifest != kept.manifest.digest {
            throw .refused(
                "\(shown(output.display(kept.folder, kept.name))) is not the manifest that was signed",
                "publish the files again with --sign")
        }
        if let signed, let known { try signed.requirePast(known) }
        let former = try current(channel)
        // Followers of a removed channel have seen its last release.
        let published = try output.word(channel)?.fresh.revision
        let signedBefore = try signing?.known?[channel].revision
        if let last = [former, published, signedBefore].compactMap(\.self).max(), last > revision {
            throw .usage(
                "\(channel ?? ChannelName.ofDefault) has pointed at revision \(last), which is newer than \(revision)",
                "machines do not go back: publish the older files again as a new revision")
        }
        if let channel { _ = try index(with: channel, at: revision, kept.manifest.project) }
        note()
        defer { note() }
        if let home = output.home, try ReleaseMarks(of: output).manifests[kept.manifest.digest] != nil {
            // No channel points at the release, so a prune may be removing its packs.
            try ReleaseMarks.take(Set(kept.manifest.packs.map(\.sha256)), at: home, output, now: home.now())
        }
        try begin()
        let file = "\(revision).json.zst"
        try output.give(kept.name, from: kept.folder, file, in: .channels, replacing: false)
        if let channel {
            try output.give(file, from: .channels, "\(channel).json.zst", in: .channels)
            try note(channel, revision, kept.manifest.project)
        } else if former != revision {
            guard let frame = try output.read(.channels, file, limit: ManifestLimits.standard.manifestBytes) else {
                throw .writing(output.display(.top, "manifest.json.zst"), "write", code: .ioError)
            }
            try output.putManifest(kept.text, frame: frame)
        }
        var fresh: FreshStatement?
        if let signed, let known {
            do throws(PublishError) { fresh = try signed.point(channel, at: known) } catch {
                let name = channel ?? ChannelName.ofDefault
                throw error.unsigned("\(name) points at revision \(revision)", "run the same command again")
            }
        }
        try output.home?.commit()
        return (kept.manifest.project, revision, former, fresh)
    }

    /// Removes a channel; the releases stay.
    ///
    /// - Returns: The statement of it; `nil` if unsigned.
    package func remove(_ channel: String, signing: Signing?) throws(PublishError) -> FreshStatement? {
        try requireSigner(signing)
        _ = try revision(channel, nil)
        note()
        defer { note() }
        let fresh = try signing.map { signing throws(PublishError) in
            try SignedOutput(output: output, signing: signing).remove(channel)
        }
        try output.remove("\(channel).json.zst", from: .channels)
        // Last, so that until then the removal can be repeated.
        if let project = try index()?.project { try note(channel, nil, project) }
        try output.home?.commit()
        return fresh
    }

    /// A signed set stays signed.
    private func requireSigner(_ signing: Signing?) throws(PublishError) {
        guard try output.isSigned(), signing == nil else { return }
        throw .usage(
            "the set in \(shown(output.path)) is signed",
            "add --sign with the directory that has fresh.key and the roots")
    }

    /// Records the revision of a channel in the list for people, once the channel itself has changed; `nil` removes it.
    func note(_ channel: String, _ revision: UInt64?, _ project: String) throws(PublishError) {
        let json = try index(with: channel, at: revision, project)
        do throws(PublishError) { try output.put(json, Self.index, in: .channels) } catch {
            throw output.after(revision.map { "\(channel) points at revision \($0)" } ?? "\(channel) is removed", error)
        }
    }

    /// The text of the list with one channel changed. Called before that channel moves, to show that the list has room
    /// for it.
    func index(with channel: String, at revision: UInt64?, _ project: String) throws(PublishError) -> [UInt8] {
        var index = try index() ?? ChannelIndex(project: project)
        index.channels[channel] = revision
        let json = index.json
        guard json.count <= ChannelIndex.limit else {
            throw .usage(
                "\(shown(output.path)) has too many channels",
                "remove those that nobody follows with 'syncagent channel remove'")
        }
        return json
    }

    /// The list; `nil` if there is none. A damaged list is never replaced: the channels in it would be lost.
    private func index() throws(PublishError) -> ChannelIndex? {
        guard try output.size(.channels, Self.index) != nil else { return nil }
        if let json = try output.read(.channels, Self.index, limit: ChannelIndex.limit),
            let index = try? ChannelIndex(json: json)
        {
            return index
        }
        throw .invalid(
            "\(shown(output.display(.channels, Self.index))) cannot be read, or is damaged",
            "restore it, or remove it: channels are listed again as they are published")
    }

    private func current(_ channel: String?) throws(PublishError) -> UInt64? {
        guard let channel else { return try ofDefault() }
        return try index()?.channels[channel]
    }

    private func ofDefault() throws(PublishError) -> UInt64? {
        guard try output.size(.top, "manifest.json") != nil else { return nil }
        return try BasePlace(.top, "manifest.json", of: output).manifest(remedy: "publish again").revision
    }

    /// The revision that a number, or the name of a channel, stands for.
    private func revision(_ release: String, _ signed: SignedOutput?) throws(PublishError) -> UInt64 {
        if let revision = UInt64(release) { return revision }
        let name = ChannelName.meant(release)
        // Only a signed statement proves where a channel points: the index is for people.
        let isSigned = try output.statementNames().contains(FreshStatement.name(name))
        if let signed, isSigned {
            let word = try signed.said(name).fresh
            if !word.isRemoved { return word.revision }
        } else if let found = try current(name) {
            return found
        }
        let names = try list().map { $0.channel ?? ChannelName.ofDefault }
        throw .notFound(
            "\(shown(output.path)) has no channel \(release)",
            names.isEmpty ? "publish first" : "available: \(names.joined(separator: ", "))")
    }

    /// Keeps releases from now on, starting with the one in `manifest.json`.
    func begin() throws(PublishError) {
        guard try !output.hasChannels(), let revision = try ofDefault(),
            try output.size(.top, "manifest.json.zst") != nil
        else { return }
        do throws(PublishError) {
            let frame = try BasePlace(.top, "manifest.json.zst", of: output).manifest(remedy: "publish again")
            // A killed run may have replaced only this file.
            guard frame.revision == revision else { return }
        } catch {
            // A damaged frame is not kept.
            guard error.exitStatus == .dataInvalid else { throw error }
            return
        }
        try output.give("manifest.json.zst", "\(revision).json.zst", in: .channels, replacing: false)
    }

    private func kept(_ revision: UInt64) throws(PublishError) -> (
        manifest: Manifest, text: [UInt8], folder: OutputDirectory.Folder, name: String
    ) {
        var files = [(OutputDirectory.Folder.channels, "\(revision).json.zst")]
        if let release = try output.release(revision) {
            files.append((.manifests, "\(release.content.manifest).json.zst"))
        }
        for (folder, name) in files where try output.size(folder, name) != nil {
            let manifest = try BasePlace(folder, name, of: output).manifest(remedy: "publish it again")
            guard let text = try output.manifestText(folder, name), manifest.revision == revision else {
                throw .invalid(
                    "\(shown(output.display(folder, name))) is not revision \(revision)", "publish it again")
            }
            return (manifest, text, folder, name)
        }
        let there = try output.keptRevisions().map { "\($0)" }
        throw .notFound(
            "\(shown(output.path)) has not kept revision \(revision)",
            there.isEmpty
                ? "channels can point at releases from the first 'publish --channel' or 'publish --sign' on; for the "
                    + "newest one, publish it again with --channel \(ChannelName.ofDefault)"
                : "available: \(there.joined(separator: ", "))")
    }
}
