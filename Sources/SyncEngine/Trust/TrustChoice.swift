package import SyncModel
import SyncTrust

/// The user's choice of whom to trust.
package struct TrustChoice: Sendable, Equatable {
    /// Where trust in a project starts.
    package enum Anchor: Sendable, Equatable {
        /// The root itself, as published.
        case file(path: String, [UInt8])
        /// ``SignedStatement/digest`` of a root.
        case fingerprint(SHA256Digest)
        /// The first root that is served.
        case first
        /// An anchor that cannot be read; it stops only its own project.
        case unreadable(EngineError)
    }

    /// The anchor of this pull; `nil` to use the stored pins.
    package var anchor: Anchor?
    /// The anchors of the configuration, by project.
    package var pins: [String: Anchor] = [:]
    /// Whether to refuse manifests that no pinned signer has signed.
    package var requiresSignature = false
    /// **Milliseconds** for which an expired statement is still accepted.
    package var grace: Int64 = 0
    /// How long one place may take for all its statements; the clock starts anew with each accepted root.
    ///
    /// Statements are a few kilobytes in all: a modem needs seconds, and a place that needs a minute is holding them
    /// back. Without this, eight attempts of a dripping transfer take nine minutes before a mirror is asked.
    package var patience: Duration = .seconds(60)
    /// How long all places together may take for their statements; if there are many, each gets its share. It is less
    /// than the ten minutes that a client waits after handing a run to the agent, so that it does not take the agent
    /// for dead.
    package var patienceWithAll: Duration = .seconds(240)

    package init() {}
}

/// The release to find.
package struct WantedRelease: Sendable, Equatable {
    /// `nil` for the default channel.
    package var channel: String?
    /// `nil` for the newest of the channel.
    package var revision: UInt64?

    /// The release in `manifest.json`.
    package init() {}

    package init(_ recipe: RunRecipe) { (channel, revision) = (recipe.channel, recipe.revision) }

    /// The path of its manifest relative to `manifest.json`; `nil` for `manifest.json` itself.
    var path: String? { name.map { "channels/\($0).json" } }

    /// The channel or revision as part of a name; `nil` for the default channel.
    var name: String? { revision.map { "\($0)" } ?? channel }

    /// The error if the release does not exist.
    ///
    /// - Parameters:
    ///   - names: The channels that there are; `nil` if unknown.
    ///   - wasRemoved: Whether the trusted signers state that it was removed.
    func isMissing(_ place: String, _ names: [String]?, wasRemoved: Bool = false) -> EngineError {
        if let revision, !wasRemoved {
            return EngineError(
                .noInput,
                "\(place): revision \(revision) is not available there; revisions are kept from the first "
                    + "'publish --sign' or 'publish --channel' on")
        }
        let there =
            switch names?.filter({ $0 != self.channel }) {
            case nil: "the server does not list its channels"
            case []: "there is no channel but the default one"
            case .some(let names): "there are \(names.joined(separator: ", ")), and the default one"
            }
        let channel = channel ?? ChannelName.ofDefault
        return EngineError(
            .noInput,
            wasRemoved
                ? "\(place): the publisher has removed the channel \(channel); \(there); use --channel to follow another one"
                : "\(place): there is no channel \(channel); \(there)")
    }
}

/// A release with good signatures, as shown to people.
package struct TrustedRelease: Sendable, Equatable {
    package let project: String
    /// The root whose keys were used.
    package let root: UInt64
    package let revision: UInt64
    package let serial: UInt64
    /// Until when the release counts as the newest; **milliseconds** since 1970.
    package let until: Int64
    /// Fingerprints of the keys that signed the release.
    package let signers: [String]
    /// Whether the installed revision may be newer than the right one, because a revoked key signed it.
    let mayBeOlder: Bool
    /// The root that the user's choice for this pull led to; `nil` if the pin alone decided.
    var beginning: SHA256Digest?

    /// - Parameter check: A check that has accepted a release; otherwise the result is `nil`.
    init?(_ check: TrustCheck) {
        guard let (fresh, release, content) = check.believed else { return nil }
        project = content.project
        root = check.root.number
        revision = content.revision
        serial = fresh.serial
        until = fresh.until
        signers = release.signers(.release, of: check.root.release).map(\.fingerprint).sorted()
        mayBeOlder = check.pin.hasFallen
    }

    /// The fields of `signed` in reports.
    package func write(to line: inout JSONLine) {
        line.field("project", project)
        line.field("root", root)
        line.field("revision", revision)
        line.field("serial", serial)
        line.time("until", until)
        line.field("by", signers)
    }
}
