/// What a redirect may do, and for which hosts more is allowed (S79).
package struct RedirectPolicy: Sendable, Equatable {
    /// Hosts for which one rule is relaxed.
    package enum Exemption: Sendable, Equatable, Codable {
        /// Redirect targets with one of these host names, in lower case; an IPv6 address has its brackets.
        case hosts(Set<String>)
        /// Every redirect target.
        case all

        /// No host.
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
