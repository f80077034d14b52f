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
    }

    /// For what is pulled now; `nil` to keep to the pins there are.
    package var anchor: Anchor?
    /// By project, from the configuration.
    package var pins: [String: Anchor] = [:]
    /// Refuse what is signed by nobody, or by nobody who is pinned.
    package var requiresSignature = false
    /// How many **milliseconds** after its end a statement is still believed.
    package var grace: Int64 = 0

    package init() {}
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

    /// - Parameter pin: One that has believed a release; `nil` comes of another.
    init?(_ pin: TrustPin) {
        guard let fresh = pin.freshContent, let release = pin.release, let content = pin.releaseContent else {
            return nil
        }
        project = pin.project
        root = pin.root.content.number
        revision = content.revision
        serial = fresh.serial
        until = fresh.until
        signers = release.signers(.release, of: pin.root.content.release).map(\.fingerprint).sorted()
        mayBeOlder = pin.hasFallen
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
