import SyncManifest
import SyncModel
import SyncTrust

/// Whether a release that continues a base may be signed. The base's groups, hooks, mirrors and user data are signed
/// again, and an attacker who can write to the published directory may have put them there.
extension PublishRun {
    /// Refuses a base that this machine has not signed itself, and whose signature it cannot check, unless the options
    /// accept it.
    mutating func checkBase(_ signing: Signing) throws(PublishError) {
        guard let base else { return }
        let known = try signing.known
        let last = known?.lastRevision ?? 0
        guard let reason = try Self.objection(to: base, known, signing.root) else {
            // A machine that has signed nothing yet has no revision to compare with.
            if last > 0, known?.made.contains(base.manifest.digest) != true { try checkJump(to: base, from: last) }
            return try checkRead(base)
        }
        let manifest = shown(base.place.path)
        let carried = carried(from: base)
        let parts = carried.isEmpty ? "nothing but its packs" : carried.joined(separator: "; ")
        guard options.permits.contains(.foreignBase) else {
            throw PublishError(
                .refused, "\(manifest) is not signed again: \(reason)",
                details: ["what would be signed with it: \(parts)"],
                "restore what was published, or publish with --no-base; if you know that this manifest is yours, add "
                    + "--accept-base")
        }
        try checkJump(to: base, from: last)
        report.warnings.append(
            "\(manifest) was accepted because of --accept-base, although \(reason); signed with it: \(parts)")
    }

    /// Refuses to sign packs again whose bytes nobody has read, unless the options accept it.
    private func checkRead(_ base: BaseSet) throws(PublishError) {
        guard base.far > 0, options.permits.isDisjoint(with: [.unreadPacks, .foreignBase]) else { return }
        throw .refused(
            "\(base.far == 1 ? "a pack" : "\(base.far) packs") of \(shown(base.place.path)) would be signed again, but "
                + "\(base.far == 1 ? "is not here and has" : "are not here and have") not been read",
            "publish to the directory that has the packs, or copy them to its packs/; to sign them unread, add "
                + "--allow-unread")
    }

    /// Refuses a base whose revision is far above everything signed before, unless the next revision is given: after
    /// 2⁶³ − 1 there is none.
    private func checkJump(to base: BaseSet, from last: UInt64) throws(PublishError) {
        let revision = base.manifest.revision
        guard options.revision == nil, revision - min(revision, last) > PublishOptions.mostRevisionsAtOnce else {
            return
        }
        throw .refused(
            "\(shown(base.place.path)) is revision \(revision), \(revision - last) above \(last), the last one known to be "
                + "signed", "choose the next number with --revision, or leave the base out with --no-base")
    }

    /// Why a base may be an attacker's work; `nil` if it is not.
    private static func objection(to base: BaseSet, _ known: TrustPin?, _ root: RootStatement) throws(PublishError)
        -> String?
    {
        let (revision, digest) = (base.manifest.revision, base.manifest.digest)
        if let last = known?.lastRevision, revision < last {
            return
                "it is revision \(revision), and this machine has signed revision \(last): somebody has put an older "
                + "release back"
        }
        if known?.made.contains(digest) == true { return nil }
        let name = "trust/\(revision).release"
        let unknown = "this machine does not remember having signed it, and "
        guard let release = try base.place.release(revision) else { return unknown + "there is no \(name)" }
        guard release.content.project == root.project, release.content.revision == revision,
            release.content.manifest == digest
        else { return unknown + "\(name) is that of another manifest" }
        guard release.statement.isSigned(.release, by: root.release) else {
            return unknown + "no release key of root \(root.number) has signed \(name)"
        }
        return nil
    }

    /// What a new manifest would take over from the base, for people.
    private func carried(from set: BaseSet) -> [String] {
        let base = set.manifest
        var parts: [String] = []
        if set.far > 0 {
            parts.append(
                "\(set.far == 1 ? "a pack that is not here and has" : "\(set.far) packs that are not here and have") not been read"
            )
        }
        if options.groups == nil {
            parts += base.groups.map { group in
                "the group \(shown(group.name))"
                    + (group.hooks.isEmpty ? "" : " with the hooks \(shown(group.hooks.joined(separator: ", ")))")
            }
        }
        if options.mirrors == nil { parts += choices.mirrors.map { "the mirror \(shown($0))" } }
        if options.filesURL == nil, let url = choices.filesURL { parts.append("the files' URL \(shown(url))") }
        if let data = base.userData { parts.append("x-user-data of \(ByteCount(UInt64(data.utf8.count)))") }
        return parts
    }
}
