import SyncModel
package import SyncTrust

/// What was said once more.
package struct Refreshed {
    /// What is the newest, the default channel first.
    package internal(set) var statements: [FreshStatement] = []
    /// A signed release that is newer than all of them: somebody has published it, and nobody points at it.
    package internal(set) var ahead: UInt64?

    /// The newest revision that a channel points at.
    package var newest: UInt64 { statements.filter { !$0.isRemoved }.map(\.revision).max() ?? 0 }
}

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

    /// Signs a manifest that is in place, and that a channel points at it.
    ///
    /// - Parameter file: Its frame.
    /// - Returns: What says that it is the newest.
    func publish(
        project: String,
        revision: UInt64,
        digest: SHA256Digest,
        size: UInt64,
        file: String,
        channel: String?
    ) throws(PublishError) -> FreshStatement {
        guard project == signing.root.project else {
            throw PublishError(
                .cannotSign,
                "the keys are for project \(signing.root.project), this is \(shown(project))",
                remedy: "use the keys of this project, or --project"
            )
        }
        try output.give(file, "\(digest).json.zst", in: "manifests", replacing: false)
        if let known = release(revision), known.content.manifest == digest, isSigned(known) {
            return try finish(known, channel)
        }
        let content = ReleaseStatement(
            project: project,
            revision: revision,
            signed: signing.now,
            manifest: digest,
            size: size
        )
        return try finish(
            Known(statement: try signing.sign(content.json, .release), content: content),
            channel
        )
    }

    /// Says once more what is the newest of every channel; signs releases anew where the keys have changed.
    func refresh() throws(PublishError) -> Refreshed {
        let names = output.statementNames()
        let channels =
            [String?.none]
            + names.filter { $0.hasSuffix(".fresh") }.map { String($0.dropLast(6)) }
            .filter { ChannelName.objection($0) == nil }.sorted()
        var refreshed = Refreshed()
        for channel in channels {
            guard let before = output.fresh(channel), let known = release(before.revision) else { continue }
            refreshed.statements.append(
                before.isRemoved ? try finish(known, channel, isRemoved: true) : try refresh(known, channel)
            )
        }
        guard refreshed.statements.contains(where: { !$0.isRemoved }) else {
            throw PublishError(
                .notFound,
                "\(shown(output.path)) has no signed release",
                remedy: "publish one with 'syncagent publish --sign'"
            )
        }
        let named = refreshed.newest
        refreshed.ahead = names.filter { $0.hasSuffix(".release") }.compactMap { UInt64($0.dropLast(8)) }
            .filter {
                guard $0 > named, let release = release($0) else { return false }
                return isSigned(release)
            }.max()
        return refreshed
    }

    /// Says that there is no such channel any more; what it pointed at stays.
    func remove(_ channel: String) throws(PublishError) -> FreshStatement {
        guard let former = output.fresh(channel), let known = release(former.revision) else {
            throw PublishError(
                .notFound,
                "\(shown(output.path))/trust/\(FreshStatement.name(channel)), or the release that it names, cannot be read",
                remedy: "publish to the channel once more, then remove it"
            )
        }
        return try finish(known, channel, isRemoved: true)
    }

    private func refresh(_ known: Known, _ channel: String?) throws(PublishError) -> FreshStatement {
        if isSigned(known) { return try finish(known, channel) }
        guard signing.canSign(.release) else {
            throw PublishError(
                .cannotSign,
                "revision \(known.content.revision) is signed by a key that no longer counts",
                remedy: "publish again with --sign where the new release.key is"
            )
        }
        var content = known.content
        content.signed = signing.now
        return try finish(
            Known(statement: try signing.sign(content.json, .release), content: content),
            channel
        )
    }

    private func finish(_ release: Known, _ channel: String?, isRemoved: Bool = false) throws(PublishError)
        -> FreshStatement
    {
        let (next, overflow) = (output.fresh(channel)?.serial ?? 0).addingReportingOverflow(1)
        // By the clock, so that it grows even where the former statement is lost.
        let serial = max(overflow ? .max : next, UInt64(clamping: signing.now / 1000))
        let fresh = FreshStatement(
            project: signing.root.project,
            channel: channel,
            serial: serial,
            signed: signing.now,
            until: signing.now + signing.validity,
            root: signing.root.number,
            revision: release.content.revision,
            release: release.statement.digest,
            isRemoved: isRemoved
        )
        let signed = try signing.sign(fresh.json, .fresh)
        for root in signing.roots {
            try output.placeStatement(root.statement.bytes, "\(root.content.number).root")
        }
        try output.placeStatement(release.statement.bytes, "\(release.content.revision).release")
        try output.placeStatement(signed.bytes, FreshStatement.name(channel))
        return fresh
    }

    private func isSigned(_ release: Known) -> Bool {
        release.content.project == signing.root.project
            && release.statement.isSigned(.release, by: signing.root.release)
    }

    private func release(_ revision: UInt64) -> Known? {
        output.read("trust/\(revision).release", limit: Role.release.limit).flatMap { bytes in
            guard let statement = try? SignedStatement(bytes, limit: Role.release.limit),
                let content = try? ReleaseStatement(json: statement.json)
            else { return nil }
            return Known(statement: statement, content: content)
        }
    }
}

extension OutputDirectory {
    /// What is published as the newest of a channel; `nil` when nothing is, or what cannot be read.
    func fresh(_ channel: String?) -> FreshStatement? {
        read("trust/" + FreshStatement.name(channel), limit: Role.fresh.limit).flatMap { bytes in
            guard let statement = try? SignedStatement(bytes, limit: Role.fresh.limit) else { return nil }
            return try? FreshStatement(json: statement.json)
        }
    }
}
