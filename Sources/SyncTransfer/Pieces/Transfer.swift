import SyncModel
import SyncPlugins
import SyncSystem

/// One transfer from start to completion: the request, and what its pieces share.
final class Transfer {
    let request: TransferRequest
    private let completion: TransferCompletion
    /// The latest time for the transfer's end.
    let deadline: Duration

    /// One per sink; more than one after a split.
    var pieces: [Piece] = []
    var openPieces = 0
    var sources: [Source]
    /// The result so far: the last answer, the URL that was requested last, requests and bytes.
    var report: TransferReport
    /// The document that names the URLs; `nil` for URLs from the user.
    let referrer: (origin: Origin, isPublic: Bool?)?
    /// Whether the transfer's activity has been announced. It is not announced while the transfer waits.
    var isReported = false
    private(set) var hasEnded = false

    /// - Throws: `misuse` for an invalid request. A URL that is none is left out if there are others: a mirror's typo
    ///   must not keep a file away.
    init(request: TransferRequest, sink: any TransferSink, deadline: Duration, completion: @escaping TransferCompletion)
        throws(TransferError)
    {
        var sources: [Source] = []
        var invalid: URLError?
        for (place, text) in request.urls.enumerated() {
            do throws(URLError) { sources.append(Source(url: try CurlURL(text), place: place)) } catch {
                invalid = invalid ?? error
            }
        }
        guard let first = sources.first else {
            throw TransferError(.misuse, invalid?.description ?? "a transfer without a URL", of: request)
        }
        self.sources = sources
        self.request = request
        self.deadline = deadline
        self.completion = completion
        report = TransferReport(
            response: ResponseHead(status: 0), sourceIndex: first.place, currentURL: first.url.text, requests: 0,
            bytesReceived: 0, isPublic: false)
        referrer = request.referrer.map { (Origin(naming: $0), $0.isPublic) }
        add(
            Piece(
                transfer: self, sink: sink, start: request.range?.lowerBound ?? 0,
                end: request.isFirstRange ? nil : request.range?.upperBound ?? request.objectSize))
    }

    var id: TransferID { request.id }

    /// Whether the object's length is known from answers alone. Every whole answer states it anew.
    var hasOpenEnd: Bool {
        (request.range == nil || request.isFirstRange) && request.objectSize == nil && pieces.count == 1
    }

    func add(_ piece: Piece) {
        pieces.append(piece)
        openPieces += 1
    }

    func close() { hasEnded = true }

    func succeed() {
        pieces = []
        completion(.success(report))
    }

    func fail(_ error: TransferError) {
        pieces = []
        completion(.failure(error))
    }

    /// An error about the URL that was requested last.
    ///
    /// - Parameter fault: The fault behind the error, if any.
    func error(_ code: TransferError.Code, _ detail: String, _ fault: Fault? = nil) -> TransferError {
        var error = TransferError(code: code, url: report.currentURL, detail: detail, requests: report.requests)
        error.status = error.status ?? fault?.status
        if let cause = fault?.cause { error.cause = cause }
        error.isOtherSize = fault.map { $0.kind == .otherSize || $0.kind == .tooLarge } ?? false
        return error
    }

    /// Whether a source has answered, but without the object. Then little is expected of a source that does not answer.
    var isAnswered: Bool { sources.contains { $0.left?.fault.status != nil } }

    /// The error that ends the transfer, from the faults of its sources. The first dropped source says more than a
    /// source that is unreachable or keeps failing; the others are listed after it.
    ///
    /// - Parameter others: What is known of sources that were not dropped.
    func error(_ last: Fault, _ words: (TransferAdvice) -> String?, others: [(url: String, detail: String)] = [])
        -> TransferError
    {
        var ends = sources.compactMap(\.left)
        // No other source could have helped.
        if last.remedy() == .fail { ends = [] }
        guard let first = ends.first else { return error(last.code, last.message(words), last) }
        let rest = ends.dropFirst().map { (url: $0.url, detail: $0.fault.detail) } + others
        let beside = rest.prefix(3).map { "\(redacted(url: $0.url)): \($0.detail)" }
        let told = ([first.fault.message(words)] + beside).joined(separator: "; also ")
        report.currentURL = first.url
        return error(first.fault.code, told, first.fault)
    }
}

/// One URL of a transfer, and what this transfer knows about it.
struct Source {
    let url: CurlURL
    /// Its index in the request.
    let place: Int
    /// The fault, and the URL it occurred at, for which this transfer no longer asks the source.
    var left: (fault: Fault, url: String)?
    /// One-time remedies already used.
    var strikes: Set<Remedy> = []
    /// The resolvers' answer, and when its URL expires by its own parameters, **seconds** since 1970; `nil` before they
    /// have been asked.
    var resolution: (link: ResolvedLink?, expires: Int64?)?
    /// Whether ``resolution`` is not used yet. If a request is resolved too early, its URL may expire before it is sent.
    var isAhead = false
    /// An earlier resolution that was refused, and the status of the refusal.
    var refused: (status: Int, link: CurlURL)?
    /// The origin of its last request; `nil` before that.
    var asked: Origin?

    /// Whether this transfer no longer asks the source.
    var isSpent: Bool { left != nil }
    /// Whether requests go without `Range`.
    var wholeOnly: Bool { strikes.contains(.onceWithoutRange) }
    /// Whether requests go with `Cache-Control: no-cache`.
    var uncached: Bool { strikes.contains(.onceUncached) }
}

/// The part of a transfer that one sink receives, in order.
final class Piece {
    /// Keeps the transfer and this piece alive until the end: queues may keep a piece for longer.
    let transfer: Transfer
    let sink: any TransferSink
    /// The first wanted **byte** of the object.
    let start: UInt64
    /// One past the last wanted **byte**; `nil` while the length is unknown.
    var end: UInt64?
    /// The next wanted **byte**: the sink has everything before it.
    var position: UInt64
    /// The piece's state and its history of failures.
    private(set) var machine: PieceMachine
    /// The rate of the attempts so far; `nil` before the first has ended.
    var pace: Pace?
    /// The time since which the piece has been in its state, as far as status queries have noticed.
    var since: Duration?

    var sourceIndex = 0
    /// The source that was asked last; `nil` before the first request.
    var askedSource: Int?
    /// The redirects of this attempt so far; `nil` to begin at the original URL.
    var chain: RedirectChain?
    /// The steps of ``chain`` as announced, redacted.
    var trail: [Hop] = []
    /// Whether a step of ``trail`` may not be recorded yet.
    var hasNewHop = false
    /// The status of a redirect whose target resolvers have not seen yet.
    var unresolvedRedirect: Int?
    /// The value of ``HostCredential/answers`` when the piece was last sent.
    var shownCredential = 0
    /// How often another credential was requested after a refusal.
    var credentialRefusals = 0
    /// The position when a refusal was last counted: a piece that makes progress may be refused again.
    var refusedAt: UInt64 = 0
    /// The place the piece scouts for others, see ``Scouts``; `nil` if it is no scout.
    var scoutKey: String?
    /// Whether it has waited for a scout.
    var hasWaited = false
    /// The validator for `If-Range`.
    var ifRange: String?
    /// The source that ``ifRange`` came from.
    var ifRangeSource = 0
    /// Why this piece wants no more of its exchange; other pieces may.
    var fault: Fault?
    /// Whether its sink had no place for a cut when it was asked for one.
    var isIndivisible = false
    /// Whether the piece accepts a body from the first byte although most of it is not wanted: no other source supports
    /// ranges.
    var acceptsWaste = false

    init(transfer: Transfer, sink: any TransferSink, start: UInt64, end: UInt64?) {
        self.transfer = transfer
        self.sink = sink
        self.start = start
        self.end = end
        position = start
        machine = PieceMachine(position: start)
    }

    var state: PieceState { machine.state }
    var ticket: UInt64 { machine.ticket }
    var source: Source { transfer.sources[sourceIndex] }

    /// As ``PieceMachine/take(_:)``.
    @discardableResult func take(_ input: PieceInput) -> UInt64 {
        since = nil
        return machine.take(input)
    }

    /// As ``PieceMachine/ended(own:fault:isAccepted:position:end:isFullLength:isTooSlow:)``, with the piece's own fault,
    /// which this clears.
    func ended(_ fault: Fault?, isAccepted: Bool, isFullLength: Bool, isTooSlow: Bool) throws(Fault) -> Bool {
        try machine.ended(
            own: self.fault.take(), fault: fault, isAccepted: isAccepted, position: position, end: end,
            isFullLength: isFullLength, isTooSlow: isTooSlow)
    }

    /// As ``PieceMachine/failed(_:)``.
    func failed(_ failure: PieceFailure) -> [PieceAction] { machine.failed(failure) }

    var isComplete: Bool { end == position }

    /// Whether the piece wants nothing more of its exchange.
    var isServed: Bool { fault != nil || isComplete }

    /// **Bytes** still wanted; `nil` when the length is not known.
    var remaining: UInt64? { end.map { $0 - min(position, $0) } }

    /// The range of the next request while the object's length is unknown; `nil` if the length is known or the whole
    /// object is requested.
    var firstRange: Range<UInt64>? {
        let request = transfer.request
        guard request.isFirstRange, end == nil, let range = request.range, position < range.upperBound else {
            return nil
        }
        return position..<range.upperBound
    }

    /// One past the last **byte** that may be taken.
    var hardEnd: UInt64 {
        let (limit, overflow) = start.addingReportingOverflow(transfer.request.limit)
        return min(end ?? .max, overflow ? .max : limit)
    }

    var beyondLimit: Fault { Fault(.tooLarge, "more than the \(transfer.request.limit) bytes allowed") }

    func cut(at offset: UInt64, tail: any TransferSink, chain: RedirectChain?) -> Piece {
        let other = Piece(transfer: transfer, sink: tail, start: offset, end: end)
        end = offset
        other.sourceIndex = sourceIndex
        other.askedSource = askedSource
        other.ifRange = ifRange
        other.ifRangeSource = ifRangeSource
        other.chain = chain
        other.trail = trail
        transfer.add(other)
        return other
    }
}
