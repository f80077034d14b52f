import Synchronization

/// Links as object stores sign them: good for some uses, then 403 with an XML text.
///
/// ```swift
/// let links = SignedLinks(uses: 2)
/// server.respond(to: "/a") { _ in .redirect(to: server.url(links.sign("/store/a"))) }
/// server.respond(to: "/store/a") { links.admit($0) { .object(file) } }
/// ```
public final class SignedLinks: Sendable {
    /// How many were signed, and the uses left of each by its query.
    private let state = Mutex((issued: 0, left: [String: Int]()))
    private let uses: Int
    private let refusal: FaultAnswer

    /// Makes an issuer of links that admit `uses` requests. Others get `refusal`, or the 403 of an object store.
    public init(uses: Int, refusal: FaultAnswer? = nil) {
        self.uses = uses
        self.refusal = refusal ?? Self.accessDenied
    }

    /// A new link to a path: the path with a query that no other link has.
    public func sign(_ path: String) -> String {
        state.withLock { state in
            state.issued += 1
            let query = "X-Amz-Signature=test-\(state.issued)"
            state.left[query] = uses
            return "\(path)?\(query)"
        }
    }

    /// Counts a use of the link that `request` came with, and answers; an expired or unknown one is refused.
    public func admit(_ request: ServedRequest, _ answer: () -> FaultAnswer) -> FaultAnswer {
        let admitted = state.withLock { state in
            guard let query = request.query, let left = state.left[query], left > 0 else { return false }
            state.left[query] = left - 1
            return true
        }
        return admitted ? answer() : refusal
    }

    /// Number of links signed so far.
    public var issued: Int { state.withLock { $0.issued } }

    private static let accessDenied = FaultAnswer.status(
        403,
        text: "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
    ).setting("Content-Type", "application/xml")
}
