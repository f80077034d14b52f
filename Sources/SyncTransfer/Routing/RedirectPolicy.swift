package import SyncModel
import SyncPlugins
import SyncSystem

/// The limits for redirects, and the hosts that are exempt.
package struct RedirectPolicy: Sendable, Equatable {
    /// Most redirects of one request.
    package var limit = 10
    /// Targets that may be http although the redirect came by https.
    package var downgrade = HostExemption.none
    /// Targets that may be private, loopback or link-local although the origin is public.
    package var privateTargets = HostExemption.none

    /// The rules of RFC 9110 §15.4, with no exemptions.
    package init() {}
}

extension RedirectPolicy {
    /// Why a request may not be led from one place to another; `nil` if it may. This is the only such decision, made
    /// before anything connects. It is not asked about URLs that the user's own rules and resolvers choose.
    /// - Parameters:
    ///   - isFromPublic: Whether the answer or document that leads there came from a public address.
    ///   - redirect: The URLs of a redirect, even a remembered one; `nil` for a document from a server, which may name
    ///     what a redirect might lead to.
    func decide(from: Origin, to: Origin, isFromPublic: Bool, redirect: (from: CurlURL, to: CurlURL)? = nil) -> Fault? {
        if from.scheme == "https", to.scheme == "http", !downgrade.covers(to.host) {
            let detail =
                redirect.map { "a redirect from https to http, \(redacted($0.from)) to \(redacted($0.to))" }
                ?? "the manifest was fetched over https and names http://\(to.host)"
            return Fault(.policy, detail, advice: .allowDowngrade)
        }
        guard to.isLocalByName, !mayBeLocal(to.host, isFromPublic: isFromPublic) else { return nil }
        let detail =
            redirect == nil
            ? "the manifest of a public server names the private address \(to.host)"
            : "a redirect from a public server to the private address \(to.host)"
        return Fault(.policy, detail, advice: .allowPrivateTarget)
    }

    /// Whether a local address may answer for a host. Checked for the host's name, and again for each of its addresses.
    func mayBeLocal(_ host: String, isFromPublic: Bool) -> Bool { !isFromPublic || privateTargets.covers(host) }

    /// Whether a document that names a host counts as public. If it names its own host, which may be private if the
    /// user chose it, the document counts as public only after an answer from a public address.
    static func isPublic(
        _ document: (origin: Origin, isPublic: Bool?), naming host: String, hasAnsweredFromPublic: Bool
    ) -> Bool {
        if host == document.origin.host { return hasAnsweredFromPublic }
        return document.isPublic ?? !document.origin.isLocalByName
    }
}

extension Origin {
    /// The origin of the document that names the URLs. A plugin's document has no host, so no private host is its own.
    init(naming referrer: TransferRequest.Referrer) {
        self =
            (try? CurlURL(referrer.url))?.origin ?? Origin(scheme: urlScheme(of: referrer.url) ?? "", host: "", port: 0)
    }

    /// Whether the name stands for this machine or a private address. RFC 6761 §6.3.
    var isLocalByName: Bool {
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        return isPublicAddress(name) == false || name == "localhost" || name.hasSuffix(".localhost")
    }
}
