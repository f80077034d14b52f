import SyncModel
import SyncTrust

/// Puts a signed release beside a manifest: the roots, the manifest under its digest, the release, and last what says
/// that it is the newest. Whoever copies in this order never shows half of it.
struct SignedOutput {
    let output: OutputDirectory
    let signing: Signing

    /// A release statement that is published.
    private struct Known {
        var statement: SignedStatement
        var content: ReleaseStatement
    }

    /// Signs the manifest that is in place.
    ///
    /// - Returns: What says that it is the newest.
    func publish(_ report: PublishReport) throws(PublishError) -> FreshStatement {
        guard report.project == signing.root.project else {
            throw PublishError(
                .cannotSign,
                "the keys are for project \(signing.root.project), this is \(shown(report.project))",
                remedy: "use the keys of this project, or --project"
            )
        }
        guard let digest = report.manifestDigest else {
            throw PublishError(.internalError, "the manifest has no digest", remedy: "publish again")
        }
        try output.placeManifestByDigest("\(digest).json.zst")
        let known = release(report.revision)
        if let known, known.content.manifest == digest, isSigned(known) {
            return try finish(known)
        }
        let content = ReleaseStatement(
            project: report.project,
            revision: report.revision,
            signed: signing.now,
            manifest: digest,
            size: report.manifestBytes
        )
        let statement = try signing.sign(content.json, .release)
        return try finish(Known(statement: statement, content: content))
    }

    /// Says once more that what is published is the newest; signs its release anew where the keys have changed.
    func refresh() throws(PublishError) -> FreshStatement {
        guard let before = former(), let known = release(before.revision) else {
            throw PublishError(
                .notFound,
                "\(shown(output.path)) has no signed release",
                remedy: "publish one with 'syncagent publish --sign'"
            )
        }
        if isSigned(known) { return try finish(known) }
        guard signing.canSign(.release) else {
            throw PublishError(
                .cannotSign,
                "revision \(known.content.revision) is signed by a key that no longer counts",
                remedy: "publish again with --sign where the new release.key is"
            )
        }
        var content = known.content
        content.signed = signing.now
        return try finish(Known(statement: try signing.sign(content.json, .release), content: content))
    }

    private func finish(_ release: Known) throws(PublishError) -> FreshStatement {
        let (next, overflow) = (former()?.serial ?? 0).addingReportingOverflow(1)
        // By the clock, so that it grows even where the former statement is lost.
        let serial = max(overflow ? .max : next, UInt64(clamping: signing.now / 1000))
        let fresh = FreshStatement(
            project: signing.root.project,
            serial: serial,
            signed: signing.now,
            until: signing.now + signing.validity,
            root: signing.root.number,
            revision: release.content.revision,
            release: release.statement.digest
        )
        let signed = try signing.sign(fresh.json, .fresh)
        for root in signing.roots {
            try output.placeStatement(root.statement.bytes, "\(root.content.number).root")
        }
        try output.placeStatement(release.statement.bytes, "\(release.content.revision).release")
        try output.placeStatement(signed.bytes, "fresh")
        return fresh
    }

    private func isSigned(_ release: Known) -> Bool {
        release.content.project == signing.root.project
            && release.statement.isSigned(.release, by: signing.root.release)
    }

    /// What is published as the newest; `nil` when nothing is, or what cannot be read.
    private func former() -> FreshStatement? {
        output.statement("fresh", limit: Role.fresh.limit).flatMap { bytes in
            guard let statement = try? SignedStatement(bytes, limit: Role.fresh.limit) else { return nil }
            return try? FreshStatement(json: statement.json)
        }
    }

    private func release(_ revision: UInt64) -> Known? {
        output.statement("\(revision).release", limit: Role.release.limit).flatMap { bytes in
            guard let statement = try? SignedStatement(bytes, limit: Role.release.limit),
                let content = try? ReleaseStatement(json: statement.json)
            else { return nil }
            return Known(statement: statement, content: content)
        }
    }
}
