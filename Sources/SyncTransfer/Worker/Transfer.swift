import SyncCurl
import SyncPlugins

/// One transfer from its start to its completion: who asked, and what all its pieces have in common.
final class Transfer {
    let request: TransferRequest
    let completion: @Sendable (Result<TransferReport, TransferError>) -> Void
    /// When it must have ended.
    let deadline: Duration

    /// One for each part that has a sink of its own; more than one after a split.
    var pieces: [Piece] = []
    var openPieces = 0
    var sources: [Source] = []
    var requests = 0
    var bytesReceived: UInt64 = 0
    var lastHead = ResponseHead(status: 0)
    var lastURL = ""
    var lastSource = 0
    /// Who names its URLs; `nil` for the user.
    let referrer: (origin: Origin, isPublic: Bool?)?
    /// Whether any of its answers came from a public address.
    var isFromPublic = false
    var error: TransferError?
    var hasEnded = false

    init(
        request: TransferRequest,
        deadline: Duration,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        self.request = request
        self.deadline = deadline
        referrer = request.referrer.map { (Origin(naming: $0), $0.isPublic) }
        self.completion = completion
    }

    var id: TransferID { request.id }
}

/// One URL of a transfer, and what is known against it.
struct Source {
    let url: CurlURL
    /// Asked no more by this transfer.
    var isSpent = false
    /// Kinds of fault that may happen once, and have.
    var strikes: Set<RetryTable.Strike> = []
    /// Ask without `Range`.
    var wholeOnly = false
    /// Ask with `Cache-Control: no-cache`.
    var uncached = false
    /// What resolvers say; `nil` before they were asked.
    var resolution: Resolution?
    /// The status with which an earlier resolution was refused.
    var refused: Int?
    /// Where it led when it was asked last; `nil` before that.
    var asked: Origin?
}

/// The part of a transfer that one sink takes, in order.
final class Piece {
    enum State {
        /// In a queue, or between two states within one call.
        case queued
        /// Part of an exchange.
        case running(Exchange)
        /// Waits for a timer.
        case waiting
        /// Waits for the end of another exchange that has the whole object.
        case parked
        case ended
    }

    /// Holds this piece too, until its end: queues may keep a piece for longer.
    let transfer: Transfer
    let sink: any TransferSink
    /// The first wanted **byte** of the object.
    let start: UInt64
    /// One past the last wanted **byte**; `nil` while nobody has said how long the object is.
    var end: UInt64?
    /// The next wanted **byte**: the sink has everything before it.
    var position: UInt64
    var state = State.queued { didSet { since = nil } }
    /// Since when it is in its state, as far as somebody has looked.
    var since: Duration?
    /// When it is tried again, while it waits for that.
    var dueAt: Duration?
    /// Raised when the piece leaves a queue in another way than by its turn, so that its entry is skipped.
    var ticket: UInt64 = 0

    var sourceIndex = 0
    /// The source that was asked last; `nil` before the first request.
    var askedSource: Int?
    /// Where redirects have led in this attempt; `nil` to begin at the original URL.
    var chain: RedirectChain?
    /// The steps of ``chain`` as they were told, redacted.
    var trail: [TransferStanding.Hop] = []
    /// The status of a redirect whose target resolvers have yet to see.
    var unresolvedRedirect: Int?
    /// The version of the credential that was shown last, see ``HostCredential``.
    var shownCredential = 0
    /// Times that another credential was asked for because this was refused.
    var credentialRefusals = 0
    /// What its first request finds out for others, see ``Scouts``; `nil` when nobody relies on it.
    var scoutKey: String?
    /// Whether it has waited for what another finds out.
    var hasWaited = false
    /// Attempts in a row without progress.
    var failures = 0
    /// Refusals in a row by what a redirect led to.
    var refusals = 0
    /// Whether it has gone on at once after a connection that broke: the next time it waits.
    var wasTakenUp = false
    var positionAtFailure: UInt64 = 0
    /// For `If-Range`.
    var ifRange: String?
    /// The source that ``ifRange`` came from.
    var ifRangeSource = 0
    var lastFault: Fault?
    /// Why this piece wants no more of the exchange it is in, although others may.
    var fault: Fault?
    /// Its sink had no place for a cut.
    var isIndivisible = false
    /// Takes a body from the first byte on although much of it is not wanted: no other source has ranges.
    var acceptsWaste = false

    init(transfer: Transfer, sink: any TransferSink, start: UInt64, end: UInt64?) {
        self.transfer = transfer
        self.sink = sink
        self.start = start
        self.end = end
        position = start
        positionAtFailure = start
    }

    var isComplete: Bool { end == position }

    /// Whether it wants nothing more of the exchange it is in.
    var isServed: Bool { fault != nil || isComplete }

    /// **Bytes** still wanted; `nil` when the length is not known.
    var remaining: UInt64? { end.map { $0 - min(position, $0) } }

    /// One past the last **byte** that may be taken.
    var hardEnd: UInt64 {
        let (limit, overflow) = start.addingReportingOverflow(transfer.request.limit)
        return min(end ?? .max, overflow ? .max : limit)
    }

    var beyondLimit: Fault { Fault(.tooLarge, "more than the \(transfer.request.limit) bytes allowed") }

    /// Leaves any queue it is in.
    func leaveQueue() { ticket &+= 1 }
}

@available(*, unavailable)
extension Transfer: Sendable {}
@available(*, unavailable)
extension Piece: Sendable {}
