import Synchronization

/// Links as object stores sign them: good for some uses, or until some time, then 403 with an XML text.
///
/// ```swift
/// let links = SignedLinks(uses: 2)
/// server.respond(to: "/a") { _ in .redirect(to: server.url(links.sign("/store/a"))) }
/// server.respond(to: "/store/a") { links.admit($0) { .object(file) } }
/// ```
public final class SignedLinks: Sendable {
    private struct State {
        var issued = 0
        var valid: [String: (usesLeft: Int, until: Duration)] = [:]
    }
    private let state = Mutex(State())
    private let uses: Int
    private let lifetime: Duration?
    private let clock: TestClock?
    private let refusal: FaultAnswer

    /// Makes an issuer of links that admit `uses` requests (`nil`: any number) for `lifetime` by `clock`
    /// (either `nil`: for ever). Others get `refusal`, or the 403 of an object store.
    public init(uses: Int? = nil, lifetime: Duration? = nil, clock: TestClock? = nil, refusal: FaultAnswer? = nil) {
        self.uses = uses ?? Int.max
        self.lifetime = lifetime
        self.clock = clock
        self.refusal = refusal ?? Self.accessDenied
    }

    /// A new link to a path: the path with a query that no other link has.
    public func sign(_ path: String) -> String {
        let until = lifetime.flatMap { lifetime in clock.map { $0.elapsed + lifetime } }
        return state.withLock { state in
            state.issued += 1
            let query = "X-Amz-Signature=test-\(state.issued)"
            state.valid[query] = (uses, until ?? .seconds(Int64.max))
            return "\(path)?\(query)"
        }
    }

    /// Counts a use of the link that `request` came with, and answers; an expired or unknown one is refused.
    public func admit(_ request: ServedRequest, _ answer: () -> FaultAnswer) -> FaultAnswer {
        let now = clock?.elapsed ?? .zero
        let admitted = state.withLock { state in
            guard let query = request.query, let link = state.valid[query], link.usesLeft > 0, now < link.until else {
                return false
            }
            state.valid[query] = (link.usesLeft - 1, link.until)
            return true
        }
        return admitted ? answer() : refusal
    }

    /// Makes every link signed so far expire now.
    public func expireAll() { state.withLock { $0.valid = [:] } }

    /// Number of links signed so far.
    public var issued: Int { state.withLock { $0.issued } }

    private static let accessDenied = FaultAnswer.status(
        403,
        text: "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
    ).setting("Content-Type", "application/xml")
}
