import CCurl
import SyncPlugins
import SyncSystem

/// One HTTP request and its answer; the context of libcurl's callbacks.
///
/// An exchange usually serves one piece. An answer with the whole object serves every piece that wants a part of it.
final class Exchange {
    /// The decisions about the request.
    struct Plan {
        let kind: HandleKind
        let question: Question
        /// The value of `If-Range`. With it, a 200 means that the object changed, not that ranges are unsupported,
        /// unless the answer has that same version.
        let version: String?
        /// The URLs up to and including the requested one.
        let chain: RedirectChain
        /// Whether a local address may answer although the origin is public.
        let mayBeLocal: Bool
        /// The proxy in between; `nil` for none. With a proxy, the connected address says nothing about the server.
        let proxy: ProxyConfiguration?
        /// Whether the server is sent credentials, from whatever source.
        let showsCredentials: Bool
        let isSmall: Bool
        let startedAt: Duration
        let unixTime: Int64

        var isProxied: Bool { proxy != nil }

        /// The proxy that may have answered in the server's place: in the clear, other than by SOCKS.
        var answeringProxy: ProxyConfiguration? {
            chain.current.origin.scheme == "http" && proxy?.url.lowercased().hasPrefix("socks") == false ? proxy : nil
        }
    }

    let id: ExchangeID
    let easy: EasyHandle
    let host: HostState
    let plan: Plan
    /// The transfer that requests and bytes are counted for.
    private var lead: Transfer
    var pieces: [Piece]

    /// `nil` until the head of the answer has arrived.
    private(set) var verdict: AnswerVerdict?
    /// Whether pieces get the rest of the body; otherwise it is discarded.
    private var isWanted = false
    var fault: Fault?
    /// Offset in the object of the next body **byte**.
    private(set) var offset: UInt64 = 0
    private(set) var bodyEnd: UInt64?
    private var discarded = 0
    /// Body **bytes** not yet counted for ``lead``.
    private var received: UInt64 = 0
    /// Requests not yet counted for ``lead``.
    private var requests = 0
    /// Whether a sink asked for a pause.
    var isPaused = false
    /// Whether the rate limit asked for a pause.
    var isThrottled = false
    /// Whether every piece has all it wanted although the body goes on.
    private(set) var isServed = false
    private(set) var isConnected = false
    /// Whether a local address was refused.
    private(set) var refusedAddress = false
    private(set) var answeredFromPublic = false

    /// A counter that grows with everything received.
    private(set) var activity: UInt64 = 0
    /// Whether the redirect that led here has been remembered.
    var hasTaught = false
    private var activitySeen: UInt64 = 0
    var activeAt: Duration
    /// Body **bytes** of this answer, and how many of them have been measured.
    private(set) var bodyBytes: UInt64 = 0
    private var measuredBytes: UInt64 = 0
    /// The recent **bytes** a second; 0 before the second measurement.
    private(set) var rate = 0.0
    private var ratedAt: Duration?

    /// The start of the current speed window, with the **bytes** of this exchange and of all exchanges at that time;
    /// `nil` before an answer and after a pause.
    private var window: (start: Duration, own: UInt64, all: UInt64)?

    private var collector: HeaderCollector
    private unowned let dispatcher: Dispatcher
    private let counters: Counters
    private let throttle: Throttle

    init(_ id: ExchangeID, easy: EasyHandle, host: HostState, piece: Piece, plan: Plan, dispatcher: Dispatcher) {
        self.id = id
        self.easy = easy
        self.host = host
        self.plan = plan
        self.dispatcher = dispatcher
        activeAt = plan.startedAt
        lead = piece.transfer
        pieces = [piece]
        collector = HeaderCollector(
            maximumBytes: dispatcher.configuration.maximumHeaderBytes,
            maximumLines: dispatcher.configuration.maximumHeaderCount)
        counters = dispatcher.counters
        throttle = dispatcher.pool.throttle
    }

    // MARK: - What the worker asks now and then

    /// Adds the bytes received since the last call to its host's load.
    func measure(now: Duration) {
        let bytes = bodyBytes - measuredBytes
        measuredBytes = bodyBytes
        host.load.add(bytes)
        defer { ratedAt = now }
        guard let ratedAt, now > ratedAt else { return }
        let latest = Double(bytes) / ((now - ratedAt) / .seconds(1))
        rate = rate == 0 ? latest : (rate + latest) / 2
    }

    /// Whether anything was received since the last call, or nothing can be because of a pause.
    func takeActivity(now: Duration) -> Bool {
        guard activity != activitySeen || isPaused || isThrottled else { return false }
        activitySeen = activity
        activeAt = now
        return true
    }

    func account() {
        lead.report.requests += requests
        lead.report.bytesReceived += received
        requests = 0
        received = 0
    }

    /// Removes and returns served pieces; the last piece stays until the exchange ends.
    func takeServed() -> [Piece] {
        let done = pieces.filter(\.isServed)
        pieces.removeAll { $0.isServed }
        if pieces.isEmpty { pieces = done.last.map { [$0] } ?? [] }
        updateLead()
        return done.filter { piece in !pieces.contains { $0 === piece } }
    }

    /// Stops serving a piece; returns whether no piece remains.
    func remove(_ piece: Piece) -> Bool {
        pieces.removeAll { $0 === piece }
        if pieces.isEmpty { account() } else { updateLead() }
        return pieces.isEmpty
    }

    /// Counts the requests and bytes so far for the old lead, and those that follow for the next.
    private func updateLead() {
        guard let next = pieces.first, next.transfer !== lead else { return }
        account()
        lead = next.transfer
    }

    /// The speeds since the answer or the last window began, if that is long enough ago. A pause starts a new window.
    ///
    /// - Parameter total: Body **bytes** of all exchanges so far.
    /// - Returns: **Bytes** a second of this exchange, and of all exchanges together.
    func takeRates(total: UInt64, over time: Duration, now: Duration) -> (own: Double, all: Double)? {
        guard let started = window, !isPaused, !isThrottled else {
            window = nil
            // The first activity is the connection.
            if activity > 1, !isPaused, !isThrottled { window = (now, bodyBytes, total) }
            return nil
        }
        guard now - started.start >= time else { return nil }
        window = (now, bodyBytes, total)
        let seconds = (now - started.start) / .seconds(1)
        return (Double(bodyBytes - started.own) / seconds, Double(total - started.all) / seconds)
    }

    /// Starts a new speed measurement.
    func forgetSpeed() { window = nil }

    var headers: ResponseHeaders { collector.headers }
    var isAnswered: Bool { verdict != nil }
    var isAccepted: Bool {
        switch verdict {
        case .body, .notModified: true
        case .redirect, .fault, nil: false
        }
    }
    /// Whether the server is known to support ranges of this object.
    var hasRanges: Bool {
        headers.status == 206 || headers.status == 200 && headers.acceptRanges?.lowercased() == "bytes"
    }
    /// Whether the body is the object from its first byte on.
    var isWhole: Bool { headers.status == 200 && isAnswered }

    // MARK: - Connection

    /// Called when the connection is ready and the request is sent next. `CURLOPT_PREREQFUNCTION`.
    func willSend(to address: String) -> Bool {
        isConnected = true
        activity += 1
        if !plan.isProxied {
            answeredFromPublic = isPublicAddress(address) == true
            if !answeredFromPublic, !plan.mayBeLocal {
                refusedAddress = true
                return false
            }
        }
        requests += 1
        counters.addRequest()
        return true
    }

    /// - Parameter isPublic: Whether the address is public.
    /// - Returns: Whether libcurl may connect there. `CURLOPT_OPENSOCKETFUNCTION`.
    func mayConnect(_ isPublic: @autoclosure () -> Bool) -> Bool {
        if plan.mayBeLocal || plan.isProxied || isPublic() { return true }
        refusedAddress = true
        return false
    }

    /// Kernel receive buffer in **bytes** for a new socket; `nil` for the system's choice.
    var socketBuffer: Int32? { throttle.socketBuffer }

    // MARK: - Head

    /// Takes one header line. `CURLOPT_HEADERFUNCTION`.
    func receive(header line: UnsafeRawBufferPointer) -> Bool {
        activity += 1
        switch collector.add(line) {
        case .more: return true
        case .tooMuch:
            fault = fault ?? Fault(.malformed, "more headers than allowed")
            return false
        case .headEnded:
            headDidEnd()
            return fault?.kind != .superseded
        }
    }

    private func headDidEnd() {
        let verdict = judge(collector.headers, to: plan.question, now: plan.unixTime)
        self.verdict = verdict
        host.unanswered -= 1
        noteAllowance()
        host.firstByte = min(host.firstByte ?? .seconds(60), dispatcher.configuration.clock.now() - plan.startedAt)
        if isAccepted, pieces.contains(where: { $0.scoutKey != nil }) { dispatcher.reap(self) }
        switch verdict {
        case .fault(let found): fault = found
        case .redirect: break
        case .notModified: for piece in pieces { begin(piece) }
        case .body(let offset, let end, _):
            self.offset = offset
            bodyEnd = end
            if isWhole {
                dispatcher.wholeBodyBegins(self)
                if fault != nil { return }
            }
            isWanted = true
            for piece in pieces { begin(piece) }
            finishWhenServed()
        }
    }

    /// Notes the host's request limit. Done now, since the body may take longer than the limit is valid.
    private func noteAllowance() {
        guard let limit = headers.rateLimit else {
            if let allowance = host.allowance, allowance.until == nil { host.allowance = nil }
            return
        }
        let configuration = dispatcher.configuration
        // The server's clock counts whole seconds.
        let wait = configuration.retry.wait(retryAfter: Int64(clamping: limit.seconds)) + .seconds(1)
        host.allowance = RequestAllowance(
            limit, unanswered: host.unanswered, until: configuration.clock.now() + wait, former: host.allowance)
        if let policy = headers.rateLimitPolicy {
            lead.report.quota = RequestQuota(
                left: limit.requests, seconds: limit.seconds, most: policy.requests, window: policy.seconds)
        }
    }

    /// Reports the answer to a piece's sink and notes the position that the sink wants.
    func begin(_ piece: Piece) {
        var total: UInt64?
        if case .body(_, _, let told) = verdict { total = told }
        let headers = collector.headers
        let bodyOffset = isWhole ? 0 : offset
        var head = ResponseHead(
            status: headers.status, bodyOffset: bodyOffset, objectSize: total,
            validator: Validator(etag: headers.etag, lastModified: headers.dateOfVersion),
            contentType: headers.mediaType, source: piece.transfer.request.urls[piece.source.place])
        head.next = headers.link.flatMap(nextLink)
        head.contentDigest = headers.contentDigest
        piece.transfer.report.response = head
        piece.transfer.report.sourceIndex = piece.source.place
        piece.ifRange = headers.ifRange
        piece.ifRangeSource = piece.sourceIndex
        if verdict == .notModified {
            _ = piece.sink.begin(head)
            piece.end = piece.position
            return
        }
        if piece.end == nil || isWhole && piece.transfer.hasOpenEnd { piece.end = total }
        if let end = piece.end, end > piece.hardEnd {
            piece.fault = piece.beyondLimit
            return
        }
        let wanted = max(piece.sink.begin(head), piece.start)
        piece.position = min(wanted, piece.end ?? wanted)
        if piece.position < offset, !piece.isComplete {
            piece.fault = Fault(.rewound, "the rest may be of another version; begins again at byte \(piece.position)")
        }
    }

    /// Serves another piece, whose first wanted byte must not have passed.
    func attach(_ piece: Piece) {
        pieces.append(piece)
        piece.take(.joined(id))
        piece.transfer.report.currentURL = plan.chain.current.text
        guard isWanted else { return }  // Otherwise it begins with the others.
        begin(piece)
        if piece.isServed { dispatcher.reap(self) }
    }

    // MARK: - Body

    /// Takes body bytes. `CURLOPT_WRITEFUNCTION`. Allocates nothing and takes no lock.
    ///
    /// - Returns: The value for libcurl: the count, a pause, or another number that ends the exchange.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        let refusal = bytes.isEmpty ? 1 : 0
        activity += 1
        guard isAnswered else {  // HTTP/0.9.
            fault = Fault(.malformed, "a body without a head")
            return refusal
        }
        guard isWanted else { return discard(bytes.count) ? bytes.count : refusal }
        guard throttle.take(bytes.count) else {
            isThrottled = true
            window = nil
            return Int(CURL_WRITEFUNC_PAUSE)
        }
        guard deliver(bytes) else {
            throttle.giveBack(bytes.count)
            isPaused = true
            window = nil
            return Int(CURL_WRITEFUNC_PAUSE)
        }
        count(bytes.count)
        offset += UInt64(bytes.count)
        guard fault == nil else { return refusal }
        finishWhenServed()
        return isServed && isWanted ? refusal : bytes.count
    }

    private func discard(_ bytes: Int) -> Bool {
        count(bytes)
        counters.addDiscarded(bytes)
        discarded += bytes
        if isServed, bodyEnd == nil, let size = plan.question.objectSize, offset == size {
            fault = Fault(.tooLarge, "more than the object's \(size) bytes")
        }
        return discarded <= Self.maximumDiscard
    }

    private func count(_ bytes: Int) {
        received += UInt64(bytes)
        bodyBytes += UInt64(bytes)
        counters.addBytes(bytes)
    }

    /// Gives every piece its share of a chunk.
    ///
    /// - Returns: `false` if a sink asked for a pause. The chunk then comes again, and a sink that has had its share of
    ///   it does not get that twice.
    private func deliver(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let (chunkEnd, overflow) = offset.addingReportingOverflow(UInt64(bytes.count))
        guard !overflow else {
            fault = Fault(.tooLarge, "more bytes than can be counted")
            return true
        }
        for piece in pieces where piece.fault == nil {
            let low = max(piece.position, offset)
            let high = min(piece.hardEnd, chunkEnd)
            if low < high {
                let part = UnsafeRawBufferPointer(rebasing: bytes[Int(low - offset)..<Int(high - offset)])
                switch piece.sink.receive(part, at: low) {
                case .taken: piece.position = high
                case .paused: return false
                case .stop: piece.fault = Fault(.stopped, "the receiver ended the transfer")
                }
            }
            if chunkEnd > piece.hardEnd, piece.end != piece.hardEnd { piece.fault = piece.beyondLimit }
            if piece.isServed, pieces.count > 1 { dispatcher.reap(self) }
        }
        if let size = plan.question.objectSize, chunkEnd > size {
            fault = Fault(.tooLarge, "more than the object's \(size) bytes")
        } else if let bodyEnd, chunkEnd > bodyEnd {
            fault = Fault(.tooLarge, "more bytes than the response header announced")
        }
        return true
    }

    /// Once no piece wants more, reads a short rest to keep the connection, and cuts off a long one.
    private func finishWhenServed() {
        for piece in pieces where !piece.isServed { return }
        isServed = true
        let end = bodyEnd ?? offset
        if end - min(offset, end) <= UInt64(Self.maximumDiscard) { isWanted = false }
    }

    /// Most **bytes** read only to keep a connection: about as long as a new connection takes.
    private static let maximumDiscard = 64 * 1024
}
