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
    var gate: Duration?
    /// Connections that failed since one was made.
    var connectivityFailures = 0
    /// Why the last of them failed, or that a log-in page answers in its place.
    var lastFault: Fault?
    /// Since when it has given nothing of what it is asked for; `nil` while it is asked for nothing.
    var silentSince: Duration?
    /// Since when nobody could have asked it and did not: the end of the last exchange, or of the last wait for it.
    var idleSince: Duration = .zero
    /// Whether a timer looks at ``silentSince``.
    var isWatched = false
    /// When those that have failed there ask again.
    var backoff = HostBackoff()
    /// Whether it has answered from a public address.
    var isPublic = false
    /// Whether it has an entry among those that may start.
    var isListed = false
    /// What to show here, and how far asking for it has come.
    var credential = HostCredential()
    /// Idle handles, each kind for itself: a handle that has carried secrets is used for nothing else (V22).
    var handles: [HandleKind: [EasyHandle]] = [:]

    var adaptive: AdaptiveLimit
    /// Body **bytes** since ``measuredSince``.
    var measuredBytes: UInt64 = 0
    var measuredSince: Duration = .zero
    /// ``measuredBytes`` at the last look, and when that was.
    var seen: (bytes: UInt64, at: Duration) = (0, .zero)
    /// **Bytes** a second at the last measurement.
    var goodput = 0.0
    /// The shortest time from a request to its answer.
    var firstByte: Duration?
    /// **Bytes** a second that its best connections have brought lately.
    var bestRate = 0.0
    /// **Bytes** a second of connections that have ended a request and wait for the next, the latest last.
    var freeRates: [Double] = []
    /// Whether it has given a range, or says that it would.
    var givesRanges = false
    /// Whether something that runs could be split, so that more connections would have work.
    var hasDivisible = false
    /// Whether all connections were busy and more was waiting, the whole time since then.
    var wasSaturated = false

    /// Whether nothing reaches it, or a log-in page stands before it.
    var isOutOfReach: Bool { connectivityFailures > 0 || lastFault?.kind == .captivePortal }

    init(origin: Origin, adaptive: AdaptiveLimit) {
        self.origin = origin
        self.adaptive = adaptive
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
