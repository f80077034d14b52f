import SyncCurl
package import SyncModel
import SyncPlugins

/// What redirects may do, and the hosts with exemptions.
package struct RedirectPolicy: Sendable, Equatable {
    /// Most redirects of one request.
    package var limit = 10
    /// Targets that may be http although the redirect came by https.
    package var downgrade = HostExemption.none
    /// Targets that may be private, loopback or link-local although the origin is public.
    package var privateTargets = HostExemption.none

    /// The rules of RFC 9110 §15.4, and nothing relaxed.
    package init() {}
}

extension RedirectPolicy {
    /// What leads from one place to another.
    enum Lead {
        /// A redirect, be it one that was remembered.
        case redirect(CurlURL, to: CurlURL)
        /// A document from a server that names URLs: it may lead where a redirect might.
        case document
    }

    /// Why nobody may be led from one place to another; `nil` if it is allowed. The one decision about that, before anything
    /// connects. What the user's own rules and resolvers choose is not asked about.
    ///
    /// - Parameter isFromPublic: Whether what leads there came from a public address.
    func decide(from: Origin, to: Origin, isFromPublic: Bool, by lead: Lead) -> Fault? {
        if from.scheme == "https", to.scheme == "http", !downgrade.covers(to.host) {
            let detail =
                switch lead {
                case .redirect(let url, let target):
                    "a redirect from https to http, \(redacted(url)) to \(redacted(target))"
                case .document: "the manifest was fetched over https and names http://\(to.host)"
                }
            return Fault(.policy, detail, advice: .allowDowngrade)
        }
        guard isFromPublic, to.isLocalByName, !privateTargets.covers(to.host) else { return nil }
        let detail =
            switch lead {
            case .redirect: "a redirect from a public server to the private address \(to.host)"
            case .document: "the manifest of a public server names the private address \(to.host)"
            }
        return Fault(.policy, detail, advice: .allowPrivateTarget)
    }
}

extension Origin {
    /// The place of the document that names the URLs. A plugin's document is of no host, so nothing private is its own.
    init(naming referrer: TransferRequest.Referrer) {
        self =
            (try? CurlURL(referrer.url))?.origin ?? Origin(scheme: urlScheme(of: referrer.url) ?? "", host: "", port: 0)
    }

    /// Whether the name stands for this machine or a private address. RFC 6761 §6.3.
    var isLocalByName: Bool {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        return AddressScope(literal: name) == .local || name == "localhost" || name.hasSuffix(".localhost")
    }
}
