package import SyncModel

/// The record that a machine keeps of a project whose releases are signed, from one pull to the next.
///
/// A value: a check makes a new one, which its caller keeps.
package struct TrustPin: Sendable, Equatable {
    /// How the first root came to be trusted.
    package enum Basis: String, Sendable { case file, fingerprint, first, configuration }

    /// A stale statement that was accepted because the user allowed it.
    package struct Grace: Sendable, Equatable {
        /// When it was used, and until when the statement was valid; **milliseconds** since 1970.
        package var used: Int64
        package var until: Int64

        package init(used: Int64, until: Int64) { (self.used, self.until) = (used, until) }
    }

    package struct Track: Sendable, Equatable {
        /// The highest serial and revision that were accepted; nothing older is. 0 when there is none: each belongs to
        /// the keys that signed it, and is dropped with them.
        package var serial: UInt64 = 0
        package var revision: UInt64 = 0
        /// The statements that were accepted last.
        package var fresh: SignedStatement?
        package var release: SignedStatement?

        package init(
            serial: UInt64 = 0, revision: UInt64 = 0, fresh: SignedStatement? = nil, release: SignedStatement? = nil
        ) { (self.serial, self.revision, self.fresh, self.release) = (serial, revision, fresh, release) }

        /// The content of the last fresh statement; `nil` when none was accepted yet.
        package var freshContent: FreshStatement? {
            // The statement was read when it was accepted.
            fresh.flatMap { try? FreshStatement(json: $0.json) }
        }

        /// The content of the last release; `nil` when none was accepted yet.
        package var releaseContent: ReleaseStatement? { release.flatMap { try? ReleaseStatement(json: $0.json) } }
    }

    /// A place whose files were refused; for a while, the others are asked before it.
    package struct Penalty: Sendable, Equatable {
        package var place: SHA256Digest
        /// **Milliseconds** since 1970.
        package var until: Int64
    }

    package struct Root: Sendable, Equatable {
        package let statement: SignedStatement
        package let content: RootStatement
    }

    package let basis: Basis
    /// When it was pinned, **milliseconds** since 1970.
    package let pinned: Int64
    /// The newest root that is trusted.
    package var root: Root
    /// Every root that was trusted, oldest first.
    package var roots: [SHA256Digest]
    /// When a newer root was last looked for, **milliseconds** since 1970.
    package var looked: Int64 = 0
    /// The default channel.
    package var newest = Track()
    /// The channels that have a name.
    package var channels: [String: Track] = [:]
    /// The time of the latest signature that was accepted, **milliseconds** since 1970.
    package var seen: Int64 = 0
    /// The highest revision that was dropped with the key that had signed it; 0 for none.
    package var fallen: UInt64 = 0
    /// The latest uses of grace.
    package var graces: [Grace] = []
    /// SHA-256 of the places that this project was pulled from: a later pull from one of them requires
    /// signatures, even if the place no longer offers any.
    package var places: [SHA256Digest] = []
    package var penalties: [Penalty] = []
    /// The last releases that were asked for by their revision: they need not be fetched again. Their signatures are
    /// checked each time.
    package private(set) var asked: [SignedStatement] = []
    /// Where this machine signs: SHA-256 of the last manifests that it has made.
    package var made: [SHA256Digest] = []

    package var project: String { root.content.project }

    /// The track of a channel; `nil` for the default one.
    package subscript(channel: String?) -> Track {
        get { channel.map { channels[$0] ?? Track() } ?? newest }
        set { if let channel { channels[channel] = newValue } else { newest = newValue } }
    }

    static let mostGraces = 16
    static let mostPlaces = 64
    /// Most channels that one machine follows.
    package static let mostChannels = 64
    static let mostPenalties = 64
    static let mostAsked = 4
    static let mostMade = 16
    /// How many **milliseconds** a refused place is asked after all others.
    static let penaltyTime: Int64 = 86_400_000
    /// A chain of this length takes centuries.
    static let mostRoots = 4096

    /// Begins with a root that somebody vouches for. It must be signed by as many of its own root keys as it requires.
    ///
    /// - Parameters:
    ///   - bytes: The statement as published.
    ///   - now: **Milliseconds** since 1970.
    package init(root bytes: [UInt8], basis: Basis, now: Int64) throws(TrustRefusal) {
        do throws(TrustFault) {
            let statement = try SignedStatement(bytes, limit: Role.root.limit)
            let content = try RootStatement(json: statement.json)
            guard statement.isSigned(.root, by: content.root) else {
                throw TrustFault("fewer than \(content.root.threshold) of its own root keys have signed it")
            }
            root = Root(statement: statement, content: content)
        } catch { throw TrustRefusal(.malformed, "not a root that can be trusted: \(error.reason)") }
        roots = [root.statement.digest]
        self.basis = basis
        pinned = now
    }

    init(basis: Basis, pinned: Int64, root: Root, roots: [SHA256Digest], asked: [SignedStatement]) {
        (self.basis, self.pinned, self.root, self.roots) = (basis, pinned, root, roots)
        self.asked = asked
    }

    mutating func note(asked release: SignedStatement) {
        guard !asked.contains(release) else { return }
        asked = asked.suffix(Self.mostAsked - 1) + [release]
    }

    /// Notes that this machine has made a manifest.
    package mutating func note(made manifest: SHA256Digest) {
        made = made.filter { $0 != manifest }.suffix(Self.mostMade - 1) + [manifest]
    }

    /// Notes that the project is at a place, so that the place is asked for signatures from now on.
    package mutating func note(place: SHA256Digest) {
        guard !places.contains(place) else { return }
        places = places.suffix(Self.mostPlaces - 1) + [place]
    }

    package mutating func penalise(_ place: SHA256Digest, now: Int64) {
        penalties.removeAll { $0.place == place || !Self.counts($0, now) }
        penalties = penalties.suffix(Self.mostPenalties - 1) + [Penalty(place: place, until: now + Self.penaltyTime)]
    }

    /// Whether other places are asked before this one.
    package func isPenalised(_ place: SHA256Digest, now: Int64) -> Bool {
        penalties.contains { $0.place == place && Self.counts($0, now) }
    }

    /// Whether what is installed may be newer than the valid releases: a key that is no longer valid has signed a
    /// higher revision than any valid one.
    package var hasFallen: Bool { fallen > ([newest] + channels.values).map(\.revision).max() ?? 0 }

    package mutating func forgive(_ place: SHA256Digest) { penalties.removeAll { $0.place == place } }

    /// Whether a penalty still applies. A clock that was set back does not make it longer.
    private static func counts(_ penalty: Penalty, _ now: Int64) -> Bool {
        penalty.until > now && penalty.until <= now + penaltyTime
    }

    /// Takes a newer root. If that lacks one of the former fresh keys, all serials are dropped; if it lacks one of the
    /// former release keys, all revisions are. So a project recovers from numbers that an attacker has set too high.
    package mutating func advance(to next: Root) {
        func hasLost(_ role: Role) -> Bool { !Set(root.content[role].keys).isSubset(of: next.content[role].keys) }
        let (losesFresh, losesRelease) = (hasLost(.fresh), hasLost(.release))
        for channel in [nil] + channels.keys.map(Optional.some) {
            if losesFresh { (self[channel].serial, self[channel].fresh) = (0, nil) }
            if losesRelease {
                fallen = max(fallen, self[channel].revision)
                (self[channel].revision, self[channel].release) = (0, nil)
            }
        }
        root = next
        roots = roots.suffix(Self.mostRoots - 1) + [next.statement.digest]
    }
}
