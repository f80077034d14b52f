import SyncModel
package import SyncTrust

/// The result of renewing statements.
package struct Refreshed {
    /// The renewed statements, the default channel first; and the number of the root under which each was made before.
    package internal(set) var statements: [(fresh: FreshStatement, saidUnder: UInt64)] = []
    /// Why channels were left as they are: no valid key had signed their published statements.
    package internal(set) var refused: [PublishError] = []
    /// A newer signed release that no channel points at; `nil` where that is not known.
    package internal(set) var ahead: UInt64?

    /// The newest revision that a channel points at.
    package var newest: UInt64 { statements.filter { !$0.fresh.isRemoved }.map(\.fresh.revision).max() ?? 0 }
}

/// Puts a signed release beside a manifest: the manifest under its digest, the release, the roots, and last the
/// statement that it is the newest. A mirror that copies in this order never shows half of a release.
struct SignedOutput {
    let output: OutputDirectory
    let signing: Signing

    /// Signs a manifest that is in place, and the channel pointing at it. The project is that of the keys.
    ///
    /// - Parameter remedy: What to do if signing fails when everybody can see the manifest already.
    func publish(
        _ revision: UInt64, _ digest: SHA256Digest, size: UInt64, to channel: String?, ifUnsigned remedy: String
    ) throws(PublishError) -> FreshStatement {
        do throws(PublishError) {
            try output.keep(digest, ofRevision: channel == nil ? nil : revision)
            let known = try output.release(revision).flatMap { $0.content.manifest == digest ? $0 : nil }
            let release: SignedRelease
            if let known, isSigned(known), !isFromFuture(known) {
                release = known
            } else {
                let content = ReleaseStatement(
                    project: signing.root.project, revision: revision, signed: signing.now, manifest: digest,
                    size: size)
                release = (try signing.sign(content.json, .release), content)
            }
            if known != nil { try renew(release, besides: channel) }
            return try finish(release, channel)
        } catch {
            guard output.home?.namesAtOnce != false else { throw error }
            throw error.unsigned("revision \(revision) is published", remedy)
        }
    }

    /// Points a channel at a release signed before, as returned by ``signed(_:)``.
    func point(_ channel: String?, at release: SignedRelease) throws(PublishError) -> FreshStatement {
        try output.keep(release.content.manifest, ofRevision: release.content.revision)
        return try finish(release, channel)
    }

    /// Renews the statements of other channels that name this revision. If the release was signed anew, by keys that
    /// replaced others, it is no longer the one that they name.
    private func renew(_ release: SignedRelease, besides channel: String?) throws(PublishError) {
        for other in try channels() where other != channel {
            // A statement that cannot be read, or is not valid, is left as it is, and `keys refresh` reports it.
            guard let word = try? said(other).fresh, !word.isRemoved, word.revision == release.content.revision,
                word.release != release.statement.digest
            else { continue }
            _ = try finish(release, other)
        }
    }

    /// The channels with a statement, the default one first.
    private func channels() throws(PublishError) -> [String?] {
        let names = try output.statementNames()
        let channels = [nil] + names.compactMap(FreshStatement.channel(ofFile:)).sorted()
        return channels.filter { names.contains(FreshStatement.name($0)) }
    }

    /// Renews the statement of the newest release for every channel.
    ///
    /// Anyone with write access may have changed what is served. So only what a valid key has signed is signed again:
    /// each channel continues with exactly the release that the fresh keys of one of the roots have named.
    func refresh() throws(PublishError) -> Refreshed {
        var refreshed = Refreshed()
        for channel in try channels() {
            let word: (fresh: FreshStatement, root: UInt64)
            var known: SignedRelease?
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
                ?? .notFound(
                    "\(shown(output.path)) has no signed release", "publish one with 'syncagent publish --sign'")
        }
        // The statements are in place by now, so a release that cannot be read is no failure. A removed channel has
        // pointed at its release, so that no publish was interrupted; what a refused one points at is not known.
        let named = refreshed.statements.map(\.fresh.revision).max() ?? 0
        if refreshed.refused.isEmpty { refreshed.ahead = try? newestRelease(above: named) }
        return refreshed
    }

    /// The newest published release above a revision that is signed by currently valid keys; `nil` if there is none.
    func newestRelease(above revision: UInt64) throws(PublishError) -> UInt64? {
        let numbers = try output.statementNames().filter { $0.hasSuffix(".release") }.compactMap {
            UInt64($0.dropLast(8))
        }
        for number in numbers.sorted(by: >) where number > revision {
            if let known = try output.release(number), known.content.revision == number, isSigned(known) {
                return number
            }
        }
        return nil
    }

    /// States that a channel has been removed; its releases stay.
    func remove(_ channel: String) throws(PublishError) -> FreshStatement {
        let word = try said(channel).fresh
        return try say(word.revision, word.release, of: channel, isRemoved: true)
    }

    /// The published statement of a channel's newest release, and the root whose fresh keys signed it.
    func said(_ channel: String?) throws(PublishError) -> (fresh: FreshStatement, root: UInt64) {
        let name = "trust/" + FreshStatement.name(channel)
        guard let (statement, fresh) = try output.word(channel) else { throw unsigned("\(name) cannot be read") }
        guard fresh.project == signing.root.project, fresh.channel == channel else {
            throw unsigned("\(name) is about another project or channel")
        }
        if let last = try signing.known?[channel].freshContent, Self.isOlder(fresh, than: last) {
            let said = last.isRemoved ? "that the channel \(channel ?? "") is removed" : "revision \(last.revision)"
            throw .refused(
                "\(shown(output.path)): \(name) names revision \(fresh.revision), and this machine has signed \(said): an older "
                    + "statement was put back",
                "restore \(name), or publish the files again with --sign where release.key is")
        }
        guard let root = signing.roots.last(where: { statement.isSigned(.fresh, by: $0.content.fresh) }) else {
            throw unsigned("no fresh key of the roots at hand has signed \(name)")
        }
        return (fresh, root.content.number)
    }

    /// Whether a statement takes back what another says. An older statement with the same content does not.
    private static func isOlder(_ fresh: FreshStatement, than last: FreshStatement) -> Bool {
        guard fresh.revision == last.revision else { return fresh.revision < last.revision }
        return fresh.serial < last.serial && (fresh.isRemoved != last.isRemoved || fresh.release != last.release)
    }

    /// The exact release that a statement names.
    private func signed(_ fresh: FreshStatement) throws(PublishError) -> SignedRelease {
        let known = try signed(fresh.revision)
        guard known.statement.digest == fresh.release else {
            throw unsigned(
                "trust/\(fresh.revision).release is not the one that trust/\(FreshStatement.name(fresh.channel)) names")
        }
        try requirePast(known)
        return known
    }

    /// A published release that is signed by currently valid keys.
    func signed(_ revision: UInt64) throws(PublishError) -> SignedRelease {
        let name = "trust/\(revision).release"
        guard let known = try output.release(revision) else {
            throw unsigned("\(name) is not there, or cannot be read")
        }
        guard known.content.project == signing.root.project, known.content.revision == revision else {
            throw unsigned("\(name) is about another project or revision")
        }
        guard !isSigned(known) else { return known }
        let former = signing.roots.last { known.statement.isSigned(.release, by: $0.content.release) }
        throw unsigned(
            former.map { "\(name) is signed by a key of root \($0.content.number) that is no longer valid" }
                ?? "no release key of the roots at hand has signed \(name)")
    }

    /// Refuses to confirm a release that machines would not take.
    func requirePast(_ release: SignedRelease) throws(PublishError) {
        guard isFromFuture(release) else { return }
        throw .refused(
            "\(shown(output.path)): trust/\(release.content.revision).release was signed at "
                + "\(timestamp(milliseconds: release.content.signed)), but this machine's clock says "
                + "\(timestamp(milliseconds: signing.now)): machines whose clocks are right refuse it",
            "set the clock; if it is right, publish the files again with --sign where release.key is")
    }

    private func unsigned(_ reason: String) -> PublishError {
        .refused(
            "\(shown(output.path)): \(reason)",
            "publish the files again with --sign where release.key is; an unverified release is not signed")
    }

    private func finish(_ release: SignedRelease, _ channel: String?) throws(PublishError) -> FreshStatement {
        try say(release.content.revision, release.statement.digest, of: channel, with: release.statement)
    }

    /// Signs and publishes a channel's newest release: the release, the roots, and last the fresh statement.
    private func say(
        _ revision: UInt64, _ digest: SHA256Digest, of channel: String?, with release: SignedStatement? = nil,
        isRemoved: Bool = false
    ) throws(PublishError) -> FreshStatement {
        // The serial comes from the clock, so that it increases even if the former statement is lost. Machines have
        // accepted no serial without a valid key, and have forgotten those of a revoked key.
        let serial = max(try lastSerial(channel) + 1, UInt64(clamping: signing.now / 1000))
        guard serial <= UInt64(Int64.max) else {
            throw .refused(
                "the last serial that a fresh key has signed is the highest possible one: somebody else has that key",
                "change it with 'syncagent keys rotate --role fresh'")
        }
        let fresh = FreshStatement(
            project: signing.root.project, channel: channel, serial: serial, signed: signing.now,
            until: signing.now + signing.validity, root: signing.root.number, revision: revision, release: digest,
            isRemoved: isRemoved)
        let signed = try signing.sign(fresh.json, .fresh)
        if let release { try output.put(release.bytes, "\(revision).release", in: .trust) }
        // The roots come late: from here on, statements of revoked keys are invalid, until the last statement is in
        // place.
        for root in signing.roots { try output.put(root.statement.bytes, "\(root.content.number).root", in: .trust) }
        try output.put(signed.bytes, FreshStatement.name(channel), in: .trust)
        // A statement is remembered only once it is visible.
        try output.home?.commit()
        signing.memory?.keep(signed, fresh, under: signing.roots, now: signing.now)
        return fresh
    }

    private func isSigned(_ release: SignedRelease) -> Bool {
        release.content.project == signing.root.project
            && release.statement.isSigned(.release, by: signing.root.release)
    }

    /// Whether machines would refuse a release because a clock that was ahead has dated it.
    private func isFromFuture(_ release: SignedRelease) -> Bool {
        release.content.signed > signing.now + TrustCheck.clockTolerance
    }

    /// The serial of the last statement signed by a valid key, here or by this machine; 0 if there is none.
    private func lastSerial(_ channel: String?) throws(PublishError) -> UInt64 {
        max(try publishedSerial(channel), try signing.known?[channel].serial ?? 0)
    }

    private func publishedSerial(_ channel: String?) throws(PublishError) -> UInt64 {
        guard let (statement, fresh) = try output.word(channel), fresh.project == signing.root.project,
            fresh.channel == channel, !statement.signers(.fresh, of: signing.root.fresh).isEmpty
        else { return 0 }
        return fresh.serial
    }
}

/// A release statement with its content.
typealias SignedRelease = (statement: SignedStatement, content: ReleaseStatement)

/// Reads a release statement without verifying its signatures; `nil` for other bytes.
func signedRelease(_ bytes: [UInt8]) -> SignedRelease? {
    guard let statement = try? SignedStatement(bytes, limit: Role.release.limit),
        let content = try? ReleaseStatement(json: statement.json)
    else { return nil }
    return (statement, content)
}
