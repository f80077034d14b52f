import CCurl
import Glibc
import SyncPlugins

/// One HTTP request and its answer; what libcurl's callbacks get as their context.
///
/// Usually it serves one piece. An answer with the whole object serves every piece that still wants some of it.
final class Exchange {
    enum Phase {
        case head
        case body
        /// The rest of the body is of no use.
        case discarding
    }

    let easy: EasyHandle
    let kind: HandleKind
    let host: HostState
    let isSmall: Bool
    let question: Question
    /// The URLs up to the one that is asked here.
    let chain: RedirectChain
    /// Whether a local address may answer although the origin is public.
    let mayBeLocal: Bool
    var pieces: [Piece]

    private(set) var phase = Phase.head
    private(set) var verdict: Verdict?
    var fault: Fault?
    /// Offset in the object of the next body **byte**.
    private(set) var offset: UInt64 = 0
    private var bodyEnd: UInt64?
    private var discarded = 0
    /// Body **bytes** of this answer.
    private(set) var received: UInt64 = 0
    var requests = 0
    /// The sink asked for a pause.
    var isPaused = false
    /// The rate limit asked for a pause.
    var isThrottled = false
    /// Every piece has what it wanted, and the body goes on.
    private(set) var isServed = false
    /// Grows with everything that comes.
    private(set) var activity: UInt64 = 0
    /// Whether the head of an answer has come.
    var isAnswered: Bool { verdict != nil }
    private(set) var isConnected = false
    /// A local address that was refused.
    private(set) var refusedAddress = false
    private(set) var answeredFromPublic = false

    var activitySeen: UInt64 = 0
    var activeAt: Duration
    let startedAt: Duration

    private var collector: HeaderCollector
    private let counters: Counters
    private let throttle: Throttle
    private let now: Int64

    init(
        easy: EasyHandle,
        kind: HandleKind,
        host: HostState,
        piece: Piece,
        question: Question,
        chain: RedirectChain,
        mayBeLocal: Bool,
        isSmall: Bool,
        startedAt: Duration,
        context: Context
    ) {
        self.easy = easy
        self.kind = kind
        self.host = host
        self.question = question
        self.chain = chain
        self.mayBeLocal = mayBeLocal
        self.isSmall = isSmall
        self.startedAt = startedAt
        activeAt = startedAt
        pieces = [piece]
        collector = HeaderCollector(
            maximumBytes: context.maximumHeaderBytes,
            maximumLines: context.maximumHeaderCount
        )
        counters = context.counters
        throttle = context.throttle
        now = context.unixTime
    }

    /// What all exchanges share.
    struct Context {
        let counters: Counters
        let throttle: Throttle
        let maximumHeaderBytes: Int
        let maximumHeaderCount: Int
        let unixTime: Int64
    }

    var headers: ResponseHeaders { collector.headers }

    // MARK: - Callbacks

    /// A connection is there and the request goes out next. `CURLOPT_PREREQFUNCTION`.
    func willSend(to address: String) -> Bool {
        isConnected = true
        activity += 1
        switch AddressScope(literal: address) {
        case .local where !mayBeLocal:
            refusedAddress = true
            return false
        case .global: answeredFromPublic = true
        default: break
        }
        requests += 1
        counters.addRequest()
        return true
    }

    /// - Returns: Whether libcurl may connect there. `CURLOPT_OPENSOCKETFUNCTION`.
    func mayConnect(to address: UnsafePointer<sockaddr>) -> Bool {
        if mayBeLocal || AddressScope(socketAddress: address) == .global { return true }
        refusedAddress = true
        return false
    }

    /// One header line. `CURLOPT_HEADERFUNCTION`.
    func receive(header line: UnsafeRawBufferPointer) -> Bool {
        activity += 1
        switch collector.add(line) {
        case .more: return true
        case .tooMuch:
            fault = fault ?? Fault(.malformed, "more headers than allowed")
            return false
        case .headEnded:
            headDidEnd()
            return true
        }
    }

    private func headDidEnd() {
        let verdict = judge(collector.headers, to: question, now: now)
        self.verdict = verdict
        switch verdict {
        case .fault(let found):
            fault = found
            phase = .discarding
        case .redirect:
            phase = .discarding
        case .notModified:
            phase = .discarding
            for piece in pieces { begin(piece, total: nil) }
        case .body(let offset, let end, let total):
            self.offset = offset
            bodyEnd = end
            phase = .body
            for piece in pieces { begin(piece, total: total) }
            finishWhenServed()
        }
    }

    /// Tells a piece's sink about the answer and notes what it wants of it.
    private func begin(_ piece: Piece, total: UInt64?) {
        let headers = collector.headers
        let head = ResponseHead(
            status: headers.status,
            bodyOffset: offset,
            objectSize: total,
            validator: Validator(etag: headers.etag, lastModified: headers.lastModified),
            contentType: headers.mediaType
        )
        piece.transfer.lastHead = head
        piece.ifRange = headers.ifRange
        if headers.status == 304 {
            _ = piece.sink.begin(head)
            piece.end = piece.position
            return
        }
        if piece.end == nil, let total { piece.end = total }
        if let end = piece.end, end > piece.hardEnd {
            fault = fault ?? piece.beyondLimit
            return
        }
        let wanted = max(piece.sink.begin(head), piece.start)
        piece.position = min(wanted, piece.end ?? wanted)
        if piece.position < offset, !piece.isComplete {
            fault = fault ?? Fault(.rewound, "the bytes from \(piece.position) on are wanted again")
        }
    }

    /// Body bytes. `CURLOPT_WRITEFUNCTION`. Allocates nothing and takes no lock.
    ///
    /// - Returns: What libcurl is told: the count, a pause, or another number that ends the exchange.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        let refusal = bytes.isEmpty ? 1 : 0
        guard fault == nil || phase == .discarding else { return refusal }
        activity += 1
        switch phase {
        case .head:  // HTTP/0.9.
            fault = Fault(.malformed, "a body without a head")
            return refusal
        case .discarding:
            count(bytes.count)
            discarded += bytes.count
            if isServed, bodyEnd == nil, offset == question.objectSize {
                fault = Fault(.tooLarge, "more than the object's \(offset) bytes")
            }
            return discarded <= Self.maximumDiscard ? bytes.count : refusal
        case .body: break
        }
        guard throttle.take(bytes.count) else {
            isThrottled = true
            return Int(CURL_WRITEFUNC_PAUSE)
        }
        switch deliver(bytes) {
        case .taken: break
        case .paused:
            throttle.giveBack(bytes.count)
            isPaused = true
            return Int(CURL_WRITEFUNC_PAUSE)
        case .stop:
            count(bytes.count)
            return refusal
        }
        count(bytes.count)
        offset += UInt64(bytes.count)
        finishWhenServed()
        return isServed && phase == .body ? refusal : bytes.count
    }

    private func count(_ bytes: Int) {
        received += UInt64(bytes)
        counters.addBytes(bytes)
    }

    private func deliver(_ bytes: UnsafeRawBufferPointer) -> SinkOutcome {
        let (chunkEnd, overflow) = offset.addingReportingOverflow(UInt64(bytes.count))
        guard !overflow else {
            fault = Fault(.tooLarge, "more bytes than can be counted")
            return .stop
        }
        if let size = question.objectSize, chunkEnd > size {
            fault = Fault(.tooLarge, "more than the object's \(size) bytes")
        } else if let bodyEnd, chunkEnd > bodyEnd {
            fault = Fault(.tooLarge, "more bytes than the answer's head told")
        }
        for piece in pieces {
            let low = max(piece.position, offset)
            let high = min(piece.hardEnd, chunkEnd)
            if low < high {
                let part = UnsafeRawBufferPointer(
                    rebasing: bytes[Int(low - offset)..<Int(high - offset)]
                )
                switch piece.sink.receive(part, at: low) {
                case .taken: piece.position = high
                case .paused: return .paused
                case .stop:
                    fault = Fault(.stopped, "the receiver ended the transfer")
                    return .stop
                }
            }
            if chunkEnd > piece.hardEnd, piece.end != piece.hardEnd { fault = piece.beyondLimit }
        }
        return fault == nil ? .taken : .stop
    }

    /// Once nobody wants more: a short rest is read to keep the connection, a long one is cut off.
    private func finishWhenServed() {
        for piece in pieces where !piece.isComplete { return }
        isServed = true
        if (bodyEnd ?? offset) - min(offset, bodyEnd ?? offset) <= UInt64(Self.maximumDiscard) { phase = .discarding }
    }

    /// Most **bytes** read only to keep a connection; about what a new connection costs in time.
    private static let maximumDiscard = 64 * 1024
}

@available(*, unavailable)
extension Exchange: Sendable {}
