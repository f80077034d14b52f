import SyncCurl
import SyncModel
import SyncPlugins

/// What redirects may do, and the hosts with exemptions (S79).
package struct RedirectPolicy: Sendable, Equatable {
    /// Hosts for which one rule is relaxed.
    package enum Exemption: Sendable, Equatable, Codable {
        /// Redirect targets with one of these host names, in lower case; an IPv6 address has its brackets.
        case hosts(Set<String>)
        /// Every redirect target.
        case all

        package static var none: Exemption { .hosts([]) }

        /// Whatever either of the two exempts.
        package func union(_ other: Exemption) -> Exemption {
            guard case .hosts(let these) = self, case .hosts(let those) = other else { return .all }
            return .hosts(these.union(those))
        }

        /// Whether `host`, in lower case, is exempt.
        package func covers(_ host: String) -> Bool {
            switch self {
            case .hosts(let hosts): hosts.contains(host)
            case .all: true
            }
        }
    }

    /// Most redirects of one request (V51).
    package var limit = 10
    /// Targets that may be http although the redirect came by https (V25).
    package var downgrade = Exemption.none
    /// Targets that may be private, loopback or link-local although the origin is public (V29).
    package var privateTargets = Exemption.none

    /// The rules of RFC 9110 §15.4, and nothing relaxed.
    package init() {}
}

extension RedirectPolicy {
    /// Why a document from a server may not name a URL there: a redirect to it would not be followed either (V25, V29).
    func refusal(of target: Origin, namedBy referrer: Origin, isFromPublic: Bool) -> Fault? {
        if referrer.scheme == "https", target.scheme == "http", !downgrade.covers(target.host) {
            return Fault(
                .policy,
                "the manifest was fetched over https and names http://\(target.host)",
                advice: .allowDowngrade
            )
        }
        guard isFromPublic, refusesByName(target) else { return nil }
        return Fault(
            .policy,
            "the manifest of a public server names the private address \(target.host)",
            advice: .allowPrivateTarget
        )
    }

    /// Whether a target that a public server leads to is refused before anything connects: its very name is private.
    func refusesByName(_ target: Origin) -> Bool {
        target.isLocalByName && !privateTargets.covers(target.host)
    }
}

extension Origin {
    /// The place of the document that names the URLs. A plugin's document is of no host, so nothing private is its own.
    init(naming referrer: TransferRequest.Referrer) {
        self =
            (try? CurlURL(referrer.url))?.origin
            ?? Origin(scheme: urlScheme(of: referrer.url) ?? "", host: "", port: 0)
    }

    /// Whether the name stands for this machine or a private address. RFC 6761 §6.3.
    var isLocalByName: Bool {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        return AddressScope(literal: name) == .local || name == "localhost" || name.hasSuffix(".localhost")
    }
}
