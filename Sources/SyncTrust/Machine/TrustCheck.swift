package import SyncModel

/// Decides whether the files of a place are to be trusted. Pure: ``want`` names the next file needed, and ``take(_:)``
/// gets it.
///
/// 1. `fresh`, which names the newest release. If that is the release that was trusted last, no other statement is
///    needed.
/// 2. The roots after the trusted one, one by one: when `fresh` names a newer one, when the keys of the trusted one did
///    not sign `fresh`, when the trusted one has expired, and once a day.
/// 3. The release that `fresh` names, and the manifest that the release names.
///
/// The caller keeps ``pin`` after every step: it changes with each root, and its floors with
/// ``accept(project:revision:)`` and when a channel was removed. One time is used for the whole check (TUF 5.1).
///
/// A check for a certain revision ends with that one, once ``fresh`` has shown which keys are valid. A look back at a
/// former release ends with that release, however old it is, if it was signed by keys that were valid then; nothing of
/// it is kept.
package struct TrustCheck: Sendable {
    package enum Want: Sendable, Equatable {
        case fresh
        case root(UInt64)
        case release(UInt64)
        /// The manifest with this digest, of so many **bytes** of text.
        case manifest(SHA256Digest, size: UInt64)
    }

    package private(set) var want = Want.fresh
    package private(set) var pin: TrustPin
    package private(set) var grace: TrustPin.Grace?
    /// The channel whose release is asked for; `nil` for the default one.
    package let channel: String?

    private let now: Int64
    private let patience: Int64
    private let revision: UInt64?
    private let looksBack: Bool
    /// The root whose keys are valid for a former release; `nil` for the newest.
    private var former: RootStatement?
    private var steps = 0
    private var fresh: (statement: SignedStatement, content: FreshStatement)?
    private var release: (statement: SignedStatement, content: ReleaseStatement)?

    /// Most roots one check goes through; the next check goes on from there.
    package static let mostRoots = 256
    /// **Milliseconds** after which a newer root is looked for, even if `fresh` names none.
    static let day: Int64 = 86_400_000
    /// **Milliseconds** that two clocks may differ.
    package static let clockTolerance: Int64 = 600_000

    /// - Parameters:
    ///   - pin: The state of trust so far.
    ///   - now: **Milliseconds** since 1970.
    ///   - grace: How many **milliseconds** after its end a statement is still accepted.
    ///   - channel: The channel whose release is asked for; `nil` for the default one.
    ///   - revision: The revision that is asked for; `nil` for the newest of the channel.
    ///   - looksBack: Whether a release may be one that was the newest at some time.
    package init(
        _ pin: TrustPin, now: Int64, grace: Int64 = 0, channel: String? = nil, revision: UInt64? = nil,
        looksBack: Bool = false
    ) {
        (self.pin, self.now) = (pin, now)
        patience = max(0, grace)
        (self.channel, self.revision, self.looksBack) = (channel, revision, looksBack)
    }

    package var track: TrustPin.Track { pin[channel] }

    private var freshName: String { "trust/" + FreshStatement.name(channel) }

    /// Takes the statement that was wanted.
    ///
    /// - Parameter bytes: The statement as served; `nil` when there is none.
    package mutating func take(_ bytes: [UInt8]?) throws(TrustRefusal) {
        switch want {
        case .fresh: try takeFresh(bytes)
        case .root(let number): try takeRoot(bytes, number)
        case .release(let revision): try takeRelease(bytes, revision)
        case .manifest: break
        }
    }

    /// Accepts the manifest, which has the wanted digest and states this project and revision.
    package mutating func accept(project: String, revision: UInt64) throws(TrustRefusal) {
        guard let fresh, let release else { return }
        guard project == pin.project else { throw wrongProject("the manifest", project) }
        guard revision == release.content.revision else {
            throw TrustRefusal(
                .mixed, "the manifest has revision \(revision), its release says \(release.content.revision)")
        }
        guard !looksBack else { return }
        if self.revision == nil {
            // A check for a certain revision has not seen the newest one, and moves no floors.
            guard channel == nil || pin.channels.count < TrustPin.mostChannels || track != TrustPin.Track() else {
                throw TrustRefusal(
                    .pin,
                    "this machine already follows \(TrustPin.mostChannels) channels of \(pin.project); to start "
                        + "over, run 'syncagent trust forget \(pin.project)' and pull with --trust")
            }
            pin[channel] = TrustPin.Track(
                serial: fresh.content.serial, revision: release.content.revision, fresh: fresh.statement,
                release: release.statement)
        } else if release.statement != track.release {
            pin.note(asked: release.statement)
        }
        pin.seen = max(pin.seen, fresh.content.signed, release.content.signed)
        if let grace, pin.graces.last?.until != grace.until {
            pin.graces = pin.graces.suffix(TrustPin.mostGraces - 1) + [grace]
        }
    }

    /// The trusted statements, once the manifest is wanted; `nil` before.
    package var believed: (fresh: FreshStatement, release: SignedStatement, content: ReleaseStatement)? {
        guard let fresh, let release else { return nil }
        return (fresh.content, release.statement, release.content)
    }

    /// The root whose keys are valid.
    package var root: RootStatement { former ?? pin.root.content }

    /// Whether the wanted manifest is the one trusted last.
    package var isKnown: Bool { release.map { $0.statement == track.release } ?? false }

    // MARK: Fresh

    private mutating func takeFresh(_ bytes: [UInt8]?) throws(TrustRefusal) {
        guard now + Self.clockTolerance >= pin.seen else {
            throw TrustRefusal(
                .clock,
                "this machine's clock says \(timestamp(milliseconds: now)), but a signature of "
                    + "\(timestamp(milliseconds: pin.seen)) was already seen; set the clock")
        }
        guard let bytes else {
            throw TrustRefusal(.unsigned, "there is no \(freshName): the set published there is not signed")
        }
        let (statement, content) = try read(freshName, bytes, .fresh, FreshStatement.init(json:))
        fresh = (statement, content)
        if looksBack, content.root <= pin.root.content.number {
            guard content.root < pin.root.content.number else { return try judge() }
            want = .root(content.root)
            return
        }
        let isSigned = statement.isSigned(.fresh, by: pin.root.content.fresh)
        let isTime = now < pin.looked || now - pin.looked >= Self.day
        let isOver = now > pin.root.content.until
        if !isSigned || content.root > pin.root.content.number || isTime || isOver { return lookForRoot() }
        try judge()
    }

    // MARK: Roots

    private mutating func lookForRoot() {
        let (next, overflow) = pin.root.content.number.addingReportingOverflow(1)
        want = .root(overflow ? .max : next)
    }

    /// TUF 5.3.3 to 5.3.9.
    private mutating func takeRoot(_ bytes: [UInt8]?, _ number: UInt64) throws(TrustRefusal) {
        if number <= pin.root.content.number { return try takeFormer(bytes, number) }
        if let bytes {
            try step(to: bytes, number)
            steps += 1
            if steps < Self.mostRoots { return lookForRoot() }
        } else {
            pin.looked = now
        }
        try judge()
    }

    /// Takes a root that was trusted once: it says whose keys were valid then.
    private mutating func takeFormer(_ bytes: [UInt8]?, _ number: UInt64) throws(TrustRefusal) {
        let name = "trust/\(number).root"
        guard let bytes else { throw TrustRefusal(.mixed, "\(name) is not there") }
        let (statement, content) = try read(name, bytes, .root, RootStatement.init(json:))
        guard pin.roots.contains(statement.digest), content.number == number else {
            throw TrustRefusal(.signature, "\(name) is not one of the roots that were trusted here")
        }
        former = content
        try judge()
    }

    private mutating func step(to bytes: [UInt8], _ number: UInt64) throws(TrustRefusal) {
        let name = "trust/\(number).root"
        let (statement, content) = try read(name, bytes, .root, RootStatement.init(json:))
        guard content.project == pin.project else { throw wrongProject(name, content.project) }
        guard content.number == number else { throw TrustRefusal(.older, "\(name) is root \(content.number)") }
        // Both the former keys and the new keys must have signed it.
        do throws(TrustRefusal) { try requireSigned(statement, name, .root, by: pin.root.content.root) } catch {
            throw TrustRefusal(
                error.cause,
                error.message
                    + "; if its publisher has told you that the root keys were lost, and what the new ones are, run: "
                    + "syncagent trust forget \(pin.project), and pull with --trust")
        }
        try requireSigned(statement, name, .root, by: content.root)
        pin.advance(to: TrustPin.Root(statement: statement, content: content))
    }

    // MARK: Validity

    /// Checks everything about `fresh` that the newest root decides. TUF 5.3.10, 5.4.2 to 5.4.4.
    private mutating func judge() throws(TrustRefusal) {
        guard let (statement, fresh) = fresh else { return }
        if !looksBack { try requireCurrent("root \(root.number)", until: root.until, renewedBy: "keys rotate") }
        guard fresh.root <= root.number else {
            throw TrustRefusal(
                .mixed,
                steps < Self.mostRoots
                    ? "\(freshName) knows root \(fresh.root), but trust/\(root.number + 1).root is not there"
                    : "the keys have changed more than \(Self.mostRoots) times; pull again to continue from root \(root.number)"
            )
        }
        try requireSigned(statement, freshName, .fresh, by: root.fresh)
        guard fresh.project == pin.project else { throw wrongProject(freshName, fresh.project) }
        guard fresh.channel == channel else {
            throw TrustRefusal(
                .mixed, "\(freshName) is about \(fresh.channel.map { "the channel \($0)" } ?? "the default channel")")
        }
        try requirePast(freshName, fresh.signed)
        if fresh.isRemoved { throw try removal(statement, fresh) }
        if !looksBack { try requireNews(fresh) }
        for known in [track.release].compactMap({ $0 }) + (revision == nil ? [] : pin.asked)
        where known.isSigned(.release, by: root.release) {
            // The statement was read when it was accepted.
            guard let content = try? ReleaseStatement(json: known.json), content.project == pin.project,
                content.revision == revision ?? fresh.revision,
                content.revision != fresh.revision || known.digest == fresh.release
            else { continue }
            return want(known, content)
        }
        want = .release(revision ?? fresh.revision)
    }

    /// A removed channel stays removed, however old the statement about that is, until there is a newer one.
    private mutating func removal(_ statement: SignedStatement, _ fresh: FreshStatement) throws(TrustRefusal)
        -> TrustRefusal
    {
        try requireSerial(fresh)
        if !looksBack, track != TrustPin.Track() {
            (pin[channel].serial, pin[channel].fresh) = (fresh.serial, statement)
            pin.seen = max(pin.seen, fresh.signed)
        }
        return TrustRefusal(.removed, "\(freshName) says that the channel no longer exists")
    }

    private func requireSerial(_ fresh: FreshStatement) throws(TrustRefusal) {
        guard fresh.serial >= track.serial else {
            throw TrustRefusal(
                .older, "\(freshName) has serial \(fresh.serial), older than \(track.serial), which was seen before")
        }
    }

    /// Refuses a statement that is older than one seen before, and one that has expired.
    private mutating func requireNews(_ fresh: FreshStatement) throws(TrustRefusal) {
        try requireSerial(fresh)
        try requireCurrent(freshName, until: fresh.until, renewedBy: "keys refresh")
        guard fresh.revision >= track.revision else {
            throw TrustRefusal(
                .older,
                "\(freshName) names revision \(fresh.revision), older than \(track.revision), which was seen before")
        }
    }

    // MARK: Release

    /// TUF 5.5.2 to 5.5.5.
    private mutating func takeRelease(_ bytes: [UInt8]?, _ revision: UInt64) throws(TrustRefusal) {
        guard let fresh = fresh?.content else { return }
        let name = "trust/\(revision).release"
        guard let bytes else { throw TrustRefusal(.mixed, "\(freshName) names \(name), which is not there") }
        let (statement, content) = try read(name, bytes, .release, ReleaseStatement.init(json:))
        guard revision != fresh.revision || statement.digest == fresh.release else {
            throw TrustRefusal(.mixed, "\(name) is not the one that \(freshName) names")
        }
        try requireSigned(statement, name, .release, by: root.release)
        guard content.project == pin.project else { throw wrongProject(name, content.project) }
        guard content.revision == revision else {
            throw TrustRefusal(.mixed, "\(name) is about revision \(content.revision)")
        }
        try requirePast(name, content.signed)
        want(statement, content)
    }

    private mutating func want(_ statement: SignedStatement, _ content: ReleaseStatement) {
        release = (statement, content)
        want = .manifest(content.manifest, size: content.size)
    }

    // MARK: Rules

    private func read<S>(_ name: String, _ bytes: [UInt8], _ role: Role, _ content: ([UInt8]) throws(TrustFault) -> S)
        throws(TrustRefusal) -> (SignedStatement, S)
    {
        do throws(TrustFault) {
            let statement = try SignedStatement(bytes, limit: role.limit)
            return (statement, try content(statement.json))
        } catch { throw TrustRefusal(.malformed, "\(name): \(error.reason)") }
    }

    private func requireSigned(_ statement: SignedStatement, _ name: String, _ role: Role, by keys: RoleKeys)
        throws(TrustRefusal)
    {
        let count = statement.signers(role, of: keys).count
        guard count < keys.threshold else { return }
        throw TrustRefusal(
            .signature,
            keys.threshold == 1
                ? "\(name) is not signed by the \(role.rawValue) key of \(pin.project)"
                : "\(name) has \(count) of the \(keys.threshold) \(role.rawValue) signatures that it needs")
    }

    private mutating func requireCurrent(_ name: String, until: Int64, renewedBy command: String) throws(TrustRefusal) {
        guard now > until else { return }
        let (end, overflow) = until.addingReportingOverflow(patience)
        guard overflow || now <= end else {
            let way = patience == 0 ? "To accept it for now: --stale 7d" : "That is longer ago than --stale accepts"
            throw TrustRefusal(
                .stale,
                "\(name) expired at \(timestamp(milliseconds: until)) and has not been signed again; "
                    + "its publisher has to run 'syncagent \(command)'. \(way)")
        }
        grace = TrustPin.Grace(used: now, until: until)
    }

    private func requirePast(_ name: String, _ signed: Int64) throws(TrustRefusal) {
        guard signed <= now + Self.clockTolerance else {
            throw TrustRefusal(
                .clock,
                "\(name) was signed at \(timestamp(milliseconds: signed)), but this machine's clock says "
                    + "\(timestamp(milliseconds: now)); one of the two clocks is wrong")
        }
    }

    private func wrongProject(_ name: String, _ found: String) -> TrustRefusal {
        TrustRefusal(.project, "\(name) is about project \(escaped(found)), not \(pin.project)")
    }
}
