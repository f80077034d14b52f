package import SyncModel
import SyncTrust

/// Whom a pull believes, as somebody has said.
package struct TrustChoice: Sendable, Equatable {
    /// Where trust in a project begins.
    package enum Anchor: Sendable, Equatable {
        /// The root itself, as published.
        case file(path: String, [UInt8])
        /// ``SignedStatement/digest`` of a root.
        case fingerprint(SHA256Digest)
        /// Whatever root is served at first sight.
        case first
        /// What cannot be read; its project alone is stopped.
        case unreadable(EngineError)
    }

    /// For what is pulled now; `nil` to keep to the pins there are.
    package var anchor: Anchor?
    /// By project, from the configuration.
    package var pins: [String: Anchor] = [:]
    /// Refuse what is signed by nobody, or by nobody who is pinned.
    package var requiresSignature = false
    /// How many **milliseconds** after its end a statement is still believed.
    package var grace: Int64 = 0
    /// How long one place may take for all its statements; the clock begins anew with each root that is believed.
    ///
    /// Statements are a few kilobytes in all: a modem needs seconds, and whoever needs a minute holds them back. Without this,
    /// eight attempts of a transfer that drips take nine minutes before a mirror is asked.
    package var patience: Duration = .seconds(60)
    /// How long all places together may take for their statements: where there are many, each has its share of it. Whoever
    /// hands a run to the agent waits that long and is not told that the agent does not answer.
    package var patienceWithAll: Duration = .seconds(240)

    package init() {}
}

/// Which release of a set is asked for.
package struct WantedRelease: Sendable, Equatable {
    /// `nil` for the default channel.
    package var channel: String?
    /// `nil` for the newest of the channel.
    package var revision: UInt64?

    /// What `manifest.json` is.
    package init() {}

    package init(_ recipe: RunRecipe) { (channel, revision) = (recipe.channel, recipe.revision) }

    /// Where its manifest is, from the place of `manifest.json`; `nil` for that itself.
    var path: String? { name.map { "channels/\($0).json" } }

    /// The channel or revision as part of a name; `nil` for the default channel.
    var name: String? { revision.map { "\($0)" } ?? channel }

    /// That it is not there.
    ///
    /// - Parameters:
    ///   - names: The channels that there are; `nil` when nobody knows.
    ///   - wasRemoved: Whether those who are trusted say so.
    func isMissing(_ place: String, _ names: [String]?, wasRemoved: Bool = false) -> EngineError {
        if let revision, !wasRemoved {
            return EngineError(
                .noInput,
                "\(place): revision \(revision) is not available there; revisions are kept from the first "
                    + "'publish --sign' or 'publish --channel' on"
            )
        }
        let there =
            switch names {
            case nil: "it does not list its channels"
            case []: "there is no channel but the default one"
            case .some(let names): "there are \(names.joined(separator: ", ")), and the default one"
            }
        let channel = channel ?? ChannelName.ofDefault
        return EngineError(
            .noInput,
            wasRemoved
                ? "\(place): the publisher has removed the channel \(channel); \(there). use --channel to follow another one"
                : "\(place): there is no channel \(channel); \(there)"
        )
    }
}

/// A release whose signatures are good: what a person may want to know of them.
package struct TrustedRelease: Sendable, Equatable {
    package let project: String
    /// The root whose keys counted.
    package let root: UInt64
    package let revision: UInt64
    package let serial: UInt64
    /// Until when it counts as the newest; **milliseconds** since 1970.
    package let until: Int64
    /// Fingerprints of the keys that have signed the release.
    package let signers: [String]
    /// Whether what is installed may be newer than what is right: its revision was signed by a key that is revoked.
    let mayBeOlder: Bool

    /// - Parameter check: One that has believed a release; `nil` comes of another.
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
        line.field("until", timestamp(milliseconds: until))
        line.key("by")
        line.array { array in for signer in signers { array.value(signer) } }
    }
}
