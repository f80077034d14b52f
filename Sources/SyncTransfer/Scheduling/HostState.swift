import SyncCurl

/// What the worker knows about one origin: who waits, who runs, who may start.
final class HostState {
    let origin: Origin
    var queue = TransferQueue<(piece: Piece, ticket: UInt64)>()
    /// Queued pieces that could be asked elsewhere.
    var movable = 0
    /// Exchanges under way.
    var running = 0
    /// Those of them that are small.
    var runningSmall = 0
    /// Nothing starts before this time: the host could not be reached, or asked for a pause.
    var notBefore: Duration?
    /// Connections that failed since one was made.
    var connectivityFailures = 0
    /// Why the last of them failed, or that a log-in page answers in its place.
    var lastFault: Fault?
    /// When those that have failed there ask again.
    var backoff = HostBackoff()
    /// Since when it gives nothing.
    var silence = HostSilence()
    /// What it brings.
    var load: HostLoad
    /// Whether it has an entry among those that may start.
    var isListed = false
    /// What to show here, and how far asking for it has come.
    var credential: HostCredential
    /// Idle handles, each kind for itself: a handle that has carried secrets is used for nothing else (V22).
    var handles: [HandleKind: [EasyHandle]] = [:]
    /// The shortest time from a request to its answer.
    var firstByte: Duration?
    /// Whether it has given a range, or says that it would.
    var givesRanges = false
    /// Whether something that runs could be split, so that more connections would have work.
    var hasDivisible = false

    init(origin: Origin, load: HostLoad, credential: HostCredential) {
        self.origin = origin
        self.load = load
        self.credential = credential
    }

    /// Whether nothing reaches it, or a log-in page stands before it.
    var isOutOfReach: Bool { connectivityFailures > 0 || lastFault?.kind == .captivePortal }

    /// Exchanges it may have at a time: one to see whether it is back, else as many as serve it well.
    var limit: Int { isOutOfReach || backoff.isShut ? 1 : load.connections(running: running) }

    /// Whether something waits that may start.
    func mayStart(now: Duration) -> Bool {
        guard !queue.isEmpty, running < limit else { return false }
        return notBefore.map { $0 <= now } ?? true
    }

    /// Something is there: it may get more than one to find that out. Where a log-in page stood it takes an answer.
    ///
    /// - Returns: Whether it was out of reach before.
    func wasReached(byAnswer: Bool) -> Bool {
        if byAnswer { lastFault = nil }
        guard lastFault?.kind != .captivePortal, connectivityFailures > 0 else { return false }
        connectivityFailures = 0
        return true
    }
}

/// What a handle has been told besides the URL. Two kinds never share a handle.
struct HandleKind: Hashable {
    /// Sends the credential of its origin, counted from 1 as it changes; 0 for none.
    var credential: Int
    /// Sends the configured headers and shows the client certificate.
    var isAtHome: Bool
    /// May speak HTTP/2.
    var http2: Bool
}

@available(*, unavailable)
extension HostState: Sendable {}
