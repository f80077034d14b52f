import SyncSystem

/// The state of one origin: its queue, its running exchanges, and what may start.
final class HostState {
    let origin: Origin
    var queue = TransferQueue<(piece: Piece, ticket: UInt64)>()
    /// Queued pieces that have other sources.
    var movable = 0
    /// Exchanges under way.
    var running = 0
    /// Running exchanges in the lane for small transfers.
    var runningSmall = 0
    /// Running exchanges without an answer so far.
    var unanswered = 0
    /// The time before which nothing starts: the host was unreachable or asked for a pause.
    var notBefore: Duration?
    /// How many requests the host accepts, as it states; `nil` if it states nothing.
    var allowance: RequestAllowance?
    /// The end of the pause that was announced last.
    var announcedPause: Duration?
    /// Failed connections since the last successful one.
    var connectivityFailures = 0
    /// The fault that last held requests up, such as a log-in page that answers instead; `nil` after an answer.
    var lastFault: Fault?
    /// When failed requests are retried.
    var backoff = HostBackoff()
    var silence = HostSilence()
    var load: HostLoad
    var isListed = false
    /// The credential to send, and the state of the question to providers.
    var credential: HostCredential
    /// Idle handles by kind: a handle that has carried secrets is used for nothing else.
    var handles: [HandleKind: [EasyHandle]] = [:]
    /// The shortest time from a request to its answer.
    var firstByte: Duration?
    /// Whether the server is known to support ranges.
    var givesRanges = false
    /// Whether a running piece could be split, so that more connections would have work.
    var hasDivisible = false

    init(origin: Origin, load: HostLoad, credential: HostCredential) {
        self.origin = origin
        self.load = load
        self.credential = credential
    }

    /// Whether it is unreachable or behind a log-in page.
    var isOutOfReach: Bool { connectivityFailures > 0 || lastFault?.kind == .captivePortal }

    /// How many exchanges may run: one to probe the host, else as many as serve it well.
    var limit: Int { isOutOfReach || backoff.isShut ? 1 : load.connections(running: running) }

    /// Whether something is queued that may start now.
    func mayStart(now: Duration) -> Bool {
        guard !queue.isEmpty, running < limit, allowance?.mayAsk(now: now, unanswered: unanswered) != false else {
            return false
        }
        return notBefore.map { $0 <= now } ?? true
    }

    /// Notes that the host was reached, which ends the probing. Behind a log-in page only an answer counts. Returns
    /// whether the host was out of reach before.
    func wasReached(byAnswer: Bool) -> Bool {
        if byAnswer { lastFault = nil }
        guard lastFault?.kind != .captivePortal, connectivityFailures > 0 else { return false }
        connectivityFailures = 0
        return true
    }
}

/// The properties of a handle besides its URL. Requests of different kinds never share a handle.
struct HandleKind: Hashable {
    /// The number of the origin's credential, counted from 1 as it changes; 0 for none.
    var credential: Int
    /// Whether it sends the configured headers and shows the client certificate.
    var isAtHome: Bool
    /// Whether it may speak HTTP/2.
    var http2: Bool
}

/// How many requests a host accepts within a time, as its `RateLimit` field states. Requests without an answer so far
/// count as used, so that none has to be refused.
struct RequestAllowance: Equatable {
    /// Requests that may still be sent.
    private var left: Int
    /// When more are allowed; `nil` while one request finds out how many there are now.
    private(set) var until: Duration?

    /// How far apart two answers may put the same end, since they count in whole seconds.
    private static let rounding = Duration.milliseconds(1_500)

    /// - Parameters:
    ///   - unanswered: Requests without an answer so far.
    ///   - until: When more are allowed.
    init(_ limit: RateLimit, unanswered: Int, until: Duration, former: RequestAllowance?) {
        let told = Int(clamping: min(limit.requests, UInt64(Int32.max))) - unanswered
        (left, self.until) = (told, until)
        // Answers may overtake each other, and the number only falls until that end.
        if let former, let end = former.until, until < end + Self.rounding, end < until + Self.rounding {
            (left, self.until) = (min(told, former.left), end)
        }
    }

    /// Whether one more request may be sent now.
    func mayAsk(now: Duration, unanswered: Int) -> Bool {
        // The request that was to find out may have ended without an answer.
        left > 0 || until.map { now >= $0 } ?? (unanswered == 0)
    }

    /// Notes one more request.
    mutating func ask() {
        if left <= 0 { (left, until) = (1, nil) }
        left -= 1
    }

    var isUsedUp: Bool { left <= 0 }
}
