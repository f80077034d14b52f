import SyncModel
package import SyncTrust

/// What was said once more.
package struct Refreshed {
    /// What is the newest, the default channel first; and the root under which that was said before.
    package internal(set) var statements: [(fresh: FreshStatement, saidUnder: UInt64)] = []
    /// Why a channel was left as it is: nobody who counts had said what was published of it.
    package internal(set) var refused: [PublishError] = []
    /// A signed release that is newer than all of them: somebody has published it, and nobody points at it.
    package internal(set) var ahead: UInt64?

    /// The newest revision that a channel points at.
    package var newest: UInt64 { statements.filter { !$0.fresh.isRemoved }.map(\.fresh.revision).max() ?? 0 }
}

/// Puts a signed release beside a manifest: the roots, the manifest under its digest, the release, and last what says
/// that it is the newest. Whoever copies in this order never shows half of it.
struct SignedOutput {
    let output: OutputDirectory
    let signing: Signing

    /// A release statement that is published.
    struct Known {
        let statement: SignedStatement
        let content: ReleaseStatement
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

    /// Lets a channel point at a release that was signed before, as ``signed(_:)`` gives it.
    func point(_ channel: String?, at release: Known) throws(PublishError) -> FreshStatement {
        try output.give(
            "channels/\(release.content.revision).json.zst",
            "\(release.content.manifest).json.zst",
            in: "manifests",
            replacing: false
        )
        return try finish(release, channel)
    }

    /// Says once more what is the newest of every channel.
    ///
    /// Whoever may write to what is served may have put anything there. What nobody who counts has signed is never signed
    /// here: a channel goes on with what one of the roots' fresh keys has said of it, and with that very release.
    func refresh() throws(PublishError) -> Refreshed {
        let names = output.statementNames()
        let channels = [nil] + names.compactMap(FreshStatement.channel(ofFile:)).sorted()
        var refreshed = Refreshed()
        for channel in channels where names.contains(FreshStatement.name(channel)) {
            let word: (fresh: FreshStatement, root: UInt64)
            var known: Known?
            do throws(PublishError) {
                word = try said(channel)
                if !word.fresh.isRemoved { known = try signed(word.fresh) }
            } catch {
                refreshed.refused.append(error)
                continue
            }
            let fresh: FreshStatement
            if let known {
                fresh = try finish(known, channel)
            } else {
                fresh = try say(word.fresh.revision, word.fresh.release, of: channel, isRemoved: true)
            }
            refreshed.statements.append((fresh, word.root))
        }
        guard refreshed.statements.contains(where: { !$0.fresh.isRemoved }) else {
            throw refreshed.refused.first
                ?? PublishError(
                    .notFound,
                    "\(shown(output.path)) has no signed release",
                    remedy: "publish one with 'syncagent publish --sign'"
                )
        }
        let named = refreshed.newest
        refreshed.ahead = names.filter { $0.hasSuffix(".release") }.compactMap { UInt64($0.dropLast(8)) }
            .filter { $0 > named && (try? signed($0)) != nil }.max()
        return refreshed
    }

    /// Says that there is no such channel any more; what it pointed at stays.
    func remove(_ channel: String) throws(PublishError) -> FreshStatement {
        let word = try said(channel).fresh
        return try say(word.revision, word.release, of: channel, isRemoved: true)
    }

    /// What is published as the newest of a channel, and the root whose fresh keys have said so.
    func said(_ channel: String?) throws(PublishError) -> (fresh: FreshStatement, root: UInt64) {
        let name = "trust/" + FreshStatement.name(channel)
        guard let (statement, fresh) = output.word(channel) else { throw unsigned("\(name) cannot be read") }
        guard fresh.project == signing.root.project, fresh.channel == channel else {
            throw unsigned("\(name) is about another project or channel")
        }
        guard let root = signing.roots.last(where: { statement.isSigned(.fresh, by: $0.content.fresh) })
        else { throw unsigned("no fresh key of the roots at hand has signed \(name)") }
        return (fresh, root.content.number)
    }

    /// The very release that a word names.
    private func signed(_ fresh: FreshStatement) throws(PublishError) -> Known {
        let known = try signed(fresh.revision)
        guard known.statement.digest == fresh.release else {
            throw unsigned(
                "trust/\(fresh.revision).release is not the one that trust/\(FreshStatement.name(fresh.channel)) names"
            )
        }
        return known
    }

    /// A release that is published and signed by the keys that count now.
    func signed(_ revision: UInt64) throws(PublishError) -> Known {
        let name = "trust/\(revision).release"
        guard let known = release(revision) else { throw unsigned("\(name) is not there, or cannot be read") }
        guard known.content.project == signing.root.project, known.content.revision == revision else {
            throw unsigned("\(name) is about another project or revision")
        }
        guard !isSigned(known) else { return known }
        let former = signing.roots.last { known.statement.isSigned(.release, by: $0.content.release) }
        throw unsigned(
            former.map {
                "\(name) is signed by a key of root \($0.content.number) that no longer counts"
            } ?? "no release key of the roots at hand has signed \(name)"
        )
    }

    private func unsigned(_ reason: String) -> PublishError {
        PublishError(
            .cannotSign,
            "\(shown(output.path)): \(reason)",
            remedy:
                "publish the files again with --sign where release.key is; an unverified release is not signed"
        )
    }

    private func finish(_ release: Known, _ channel: String?) throws(PublishError) -> FreshStatement {
        try say(
            release.content.revision,
            release.statement.digest,
            of: channel,
            with: release.statement
        )
    }

    /// Signs what is the newest of a channel, and publishes it: the release, the roots, and last the word on it.
    private func say(
        _ revision: UInt64,
        _ digest: SHA256Digest,
        of channel: String?,
        with release: SignedStatement? = nil,
        isRemoved: Bool = false
    ) throws(PublishError) -> FreshStatement {
        // By the clock, so that it grows even where the former statement is lost. Numbers that nobody who counts has set,
        // machines have not seen; those of a key that was revoked they have forgotten.
        let serial = max(lastSerial(channel) + 1, UInt64(clamping: signing.now / 1000))
        guard serial <= UInt64(Int64.max) else {
            throw PublishError(
                .cannotSign,
                "the last serial that a fresh key has signed is the highest possible one: somebody else has that key",
                remedy: "change it with 'syncagent keys rotate --role fresh'"
            )
        }
        let fresh = FreshStatement(
            project: signing.root.project,
            channel: channel,
            serial: serial,
            signed: signing.now,
            until: signing.now + signing.validity,
            root: signing.root.number,
            revision: revision,
            release: digest,
            isRemoved: isRemoved
        )
        let signed = try signing.sign(fresh.json, .fresh)
        if let release { try output.placeStatement(release.bytes, "\(revision).release") }
        // Late: from then on what keys have said that it revokes counts no more, until the last word is there.
        for root in signing.roots {
            try output.placeStatement(root.statement.bytes, "\(root.content.number).root")
        }
        try output.placeStatement(signed.bytes, FreshStatement.name(channel))
        signing.memory?.keep(signing.roots, now: signing.now)
        return fresh
    }

    private func isSigned(_ release: Known) -> Bool {
        release.content.project == signing.root.project
            && release.statement.isSigned(.release, by: signing.root.release)
    }

    /// The serial of the last statement that a key which counts has signed; 0 when there is none.
    private func lastSerial(_ channel: String?) -> UInt64 {
        guard let (statement, fresh) = output.word(channel), fresh.project == signing.root.project,
            fresh.channel == channel, !statement.signers(.fresh, of: signing.root.fresh).isEmpty
        else { return 0 }
        return fresh.serial
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
    /// What is published as the newest of a channel, whoever says so; `nil` when nothing is, or what cannot be read.
    func word(_ channel: String?) -> (statement: SignedStatement, fresh: FreshStatement)? {
        read("trust/" + FreshStatement.name(channel), limit: Role.fresh.limit).flatMap { bytes in
            guard let statement = try? SignedStatement(bytes, limit: Role.fresh.limit),
                let fresh = try? FreshStatement(json: statement.json)
            else { return nil }
            return (statement, fresh)
        }
    }
}
