import CCurl
import SyncModel
import SyncPublisher
package import SyncSystem
package import SyncTransfer

/// Sends requests to a bucket or a registry, with one attempt each, over connections that stay open.
final class StoreCalls: Sendable {
    let configuration: TransportConfiguration
    let isStopped: @Sendable () -> Bool
    /// Gets the reason for a long wait, for people.
    private let notice: @Sendable (String) -> Void
    /// When ``notice`` is called next; `nil` while the store answers.
    private let nextNotice = Mutex<ContinuousClock.Instant?>(nil)
    /// How long trouble, which may be over soon, is not reported; and the time from one notice to the next.
    private static let (firstNotice, noticeInterval) = (Duration.seconds(5), Duration.seconds(60))
    /// How long a transfer may stall.
    private let patience: Duration
    /// When the next byte may be sent, where all connections together may send so many **bytes** a second.
    private let nextByte = Mutex(ContinuousClock.now)
    /// Connections that are not in use: a request takes some out for itself alone.
    private let idle = Mutex<[MultiHandle]>([])

    /// One request.
    struct Request {
        var method = "GET"
        var url: String
        /// Lines `Name: value`.
        var headers: [String] = []
        /// A body in memory.
        var text: [UInt8]?
        /// A body that is sent piece by piece: a range of an object.
        var part: (range: Range<UInt64>, object: NewObject)?
        /// Most **bytes** of an answer's body.
        var limit: Int
        /// Whether the request does no harm a second time.
        var mayRepeat = true
        /// Whether it must go to a public address, as far as that is known: not through a proxy.
        var mustBePublic = false
    }

    /// The answer to a request.
    struct Answer {
        var status = 0
        var headers = ResponseHeaders()
        var body: [UInt8] = []
        /// The URL that answered, and whether the answer came from a public address.
        var url = ""
        var isPublic = false

        /// Whether the answer shows that the store works, even if it refuses the request.
        fileprivate var isGood: Bool { status < 500 && ![408, 425, 429].contains(status) }
    }

    /// - Parameters:
    ///   - configuration: For trust, proxies, rates and waits.
    ///   - notice: Gets the reason for a long wait: once, and every minute from then on.
    init(
        _ configuration: TransportConfiguration, patience: Duration, notice: @escaping @Sendable (String) -> Void,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.configuration, self.patience) = (configuration, patience)
        (self.notice, self.isStopped) = (notice, isStopped)
    }

    /// Sends a request. No redirect is followed.
    ///
    /// - Parameters:
    ///   - shown: The object of the request, for people.
    ///   - login: A user's name and password.
    ///   - isOwn: Whether the request goes to the store itself, which gets the client certificate.
    /// - Throws: ``PublishError`` where another attempt would be of no use.
    func send(_ request: Request, shown: String, login: (user: String, password: String)? = nil, isOwn: Bool)
        throws(PublishError) -> Result<Answer, CurlError>
    {
        if isStopped() { throw .cancelled }
        let start = ContinuousClock.now
        do {
            let answer = try exchange(request, login, isOwn)
            if answer.isGood { nextNotice.withLock { $0 = nil } } else { noteTrouble(since: .now) }
            guard answer.body.count <= request.limit else {
                throw PublishError(
                    .dataInvalid, "\(escaped(shown)) has more than \(request.limit) bytes",
                    "is it what its name says? Nothing was changed")
            }
            return .success(answer)
        } catch let error as CurlError {
            // A body may have moved for long before it failed.
            noteTrouble(since: request.part == nil ? start : .now)
            return .failure(error)
        } catch let error as PublishError { throw error } catch {
            throw PublishError(.usage, "\(redacted(url: request.url)): \(error)", "check the address")
        }
    }

    private func exchange(_ request: Request, _ login: (user: String, password: String)?, _ isOwn: Bool) throws
        -> Answer
    {
        let origin = try CurlURL(request.url).origin
        let call = try HTTPCall(request.url, method: request.method, headers: request.headers, body: request.text)
        if let login {
            try call.easy.set(CURLOPT_HTTPAUTH, sa_curl_auth_basic())
            try call.easy.set(CURLOPT_USERNAME, login.user)
            try call.easy.set(CURLOPT_PASSWORD, login.password)
        }
        if request.method == "HEAD" { try call.easy.set(CURLOPT_NOBODY, 1) }
        try call.easy.set(CURLOPT_PATH_AS_IS, 1)
        try call.easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try configuration.prepare(call, for: origin, showsCertificate: isOwn)
        try call.easy.set(CURLOPT_LOW_SPEED_LIMIT, 1)
        try call.easy.set(CURLOPT_LOW_SPEED_TIME, Int(patience.components.seconds))
        try call.easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
        if request.mustBePublic, configuration.proxy(for: origin) == nil {
            call.mayAsk = { isPublicAddress($0) == true }
        }
        if let (range, object) = request.part {
            try call.send(range.upperBound - range.lowerBound, method: request.method) { [self] offset, target in
                guard let rate = configuration.rateLimit.map({ max(1, $0) }) else {
                    return object.read(range.lowerBound + offset, target)
                }
                let count = Int(min(UInt64(target.count), max(rate / 8, 1), 64 << 10))
                guard waitToSend(count, rate: rate) else { return nil }
                return object.read(
                    range.lowerBound + offset, UnsafeMutableRawBufferPointer(rebasing: target[..<count]))
            }
        }
        let connections: MultiHandle
        if let found = idle.withLock({ $0.popLast() }) {
            connections = found
        } else {
            connections = try MultiHandle()
        }
        var body: [UInt8] = []
        let end = try call.perform(over: connections, until: nil, every: 200, isStopped: isStopped) { bytes, _ in
            body += bytes
            return body.count <= request.limit
        }
        switch end {
        case .stopped: throw PublishError.cancelled
        case .timedOut: throw CurlError(detail: "\(origin.host) has not answered in time")
        case .failed(let code): throw CurlError(detail: "\(origin.host): \(call.easy.message(for: code))")
        case .answered(let status):
            if body.count <= request.limit { idle.withLock { $0.append(connections) } }
            let address = call.easy.text(CURLINFO_PRIMARY_IP) ?? ""
            return Answer(
                status: status, headers: call.headers, body: body, url: request.url,
                isPublic: isPublicAddress(address) == true)
        }
    }

    /// Waits until `count` **bytes** may be sent; returns `false` if the run was stopped.
    private func waitToSend(_ count: Int, rate: UInt64) -> Bool {
        let time = Duration.seconds(Double(count) / Double(rate))
        let start = nextByte.withLock { next in
            let start = max(next, .now)
            next = start + time
            return start
        }
        while !isStopped(), case let rest = start - .now, rest > .zero {
            pauseThread(milliseconds: Int(min(rest, .milliseconds(200)).milliseconds) + 1)
        }
        return !isStopped()
    }

    private func noteTrouble(since start: ContinuousClock.Instant) {
        nextNotice.withLock { $0 = $0 ?? start + Self.firstNotice }
    }

    /// Reports the reason for the wait, if a notice is due.
    private func warn(_ reason: String, _ shown: String) {
        let isTime = nextNotice.withLock { next in
            let now = ContinuousClock.now
            guard let time = next, time <= now else { return false }
            next = now + Self.noticeInterval
            return true
        }
        if isTime { notice("waiting for \(escaped(shown)): \(reason); Ctrl-C stops") }
    }

    /// Waits before the next attempt: as long as the store asks for, or longer with each failure.
    ///
    /// - Parameters:
    ///   - reason: What went wrong, for people.
    ///   - shown: The store that is waited for, for people.
    func pause(_ failures: Int, _ reason: String, _ shown: String, _ answer: Answer? = nil) {
        let policy = configuration.retry
        let asked = answer?.headers.retryAfter.flatMap { retryAfter($0, now: configuration.clock.unixTime()) }
        let wait =
            asked.map { min(policy.wait(retryAfter: $0), .seconds(60)) }
            ?? min(policy.wait(failures: failures, random: configuration.random()), .seconds(20))
        let end = ContinuousClock.now + wait
        while !isStopped(), case let rest = end - .now, rest > .zero {
            warn(reason, shown)
            pauseThread(milliseconds: Int(min(rest, .milliseconds(100)).milliseconds) + 1)
        }
    }
}

extension TransportConfiguration {
    /// Prepares a call of this program: its name, its patience, its proxies and its trust.
    package func prepare(_ call: HTTPCall, for origin: Origin, showsCertificate: Bool = false) throws(CurlError) {
        try call.easy.set(CURLOPT_USERAGENT, userAgent)
        try call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(connectTimeout.milliseconds))
        try call.easy.apply(proxy(for: origin))
        try call.easy.apply(tls, showsCertificate: showsCertificate)
    }

    /// Prepares a request to a server that gives keys: with the same proxies and trust, but no client certificate.
    package var reach: @Sendable (EasyHandle, Origin) throws(CurlError) -> Void {
        { [self] easy, origin throws(CurlError) in
            try easy.apply(proxy(for: origin))
            try easy.apply(tls, showsCertificate: false)
        }
    }
}
