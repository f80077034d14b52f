import CCurl
package import SyncCurl
import SyncModel
import SyncPublisher
import SyncSystem
package import SyncTransfer

/// Requests to a store, each tried once, over connections that stay open: what buckets and registries have in common.
final class StoreCalls: Sendable {
    let configuration: TransportConfiguration
    let isStopped: @Sendable () -> Bool
    /// Told what is waited for, in words for people.
    private let notice: @Sendable (String) -> Void
    /// When ``notice`` is told next; `nil` while the store answers.
    private let nextNotice = Mutex<ContinuousClock.Instant?>(nil)
    /// How long nobody is told of trouble, which may be over soon, and from one notice to the next.
    private static let (firstNotice, noticeInterval) = (Duration.seconds(5), Duration.seconds(60))
    /// How long nothing may move.
    private let patience: Duration
    private let rate: SendingRate?
    /// Connections that nobody uses: whoever takes some out has them alone.
    private let idle = Mutex<[MultiHandle]>([])

    /// One request.
    struct Request {
        var method = "GET"
        var url: String
        /// As `Name: value`.
        var headers: [String] = []
        /// Sent as it is.
        var text: [UInt8]?
        /// Sent piece by piece: its part, and where it is read.
        var part: (range: Range<UInt64>, object: NewObject)?
        /// Most **bytes** of an answer's body.
        var limit: Int
        /// Whether it does no harm a second time.
        var mayRepeat = true
        /// Whether it goes to public addresses alone, as far as that can be told.
        var mustBePublic = false
    }

    /// What was answered.
    struct Answer {
        var status = 0
        var headers = ResponseHeaders()
        var body: [UInt8] = []
        /// Who answered, and whether from a public address.
        var url = ""
        var isPublic = false

        /// Whether the store is well, whatever it has said.
        fileprivate var isGood: Bool { status < 500 && ![408, 425, 429].contains(status) }
    }

    /// - Parameters:
    ///   - configuration: For trust, proxies, rates and waits.
    ///   - notice: Told what is waited for where it takes long: once, and every minute from then on.
    init(
        _ configuration: TransportConfiguration, patience: Duration, notice: @escaping @Sendable (String) -> Void,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.configuration, self.patience) = (configuration, patience)
        (self.notice, self.isStopped) = (notice, isStopped)
        rate = configuration.rateLimit.map { SendingRate($0) }
    }

    /// Sends a request. No redirect is followed.
    ///
    /// - Parameters:
    ///   - shown: What is asked for, for people.
    ///   - login: A user's name and password.
    ///   - isOwn: Whether it goes to the store itself, which is shown who asks.
    /// - Throws: ``PublishError`` where another try would be of no use.
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
            // What was being sent may have moved for long before.
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
        try call.easy.set(CURLOPT_USERAGENT, configuration.userAgent)
        try call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(configuration.connectTimeout.milliseconds))
        try call.easy.set(CURLOPT_LOW_SPEED_LIMIT, 1)
        try call.easy.set(CURLOPT_LOW_SPEED_TIME, Int(patience.components.seconds))
        try call.easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
        let proxy = configuration.proxy(for: origin)
        try call.easy.apply(proxy)
        try call.easy.apply(configuration.tls, showsCertificate: isOwn)
        if request.mustBePublic, proxy == nil { call.mayAsk = { AddressScope(literal: $0) == .global } }
        if let (range, object) = request.part {
            try call.send(range.upperBound - range.lowerBound, method: request.method) {
                [rate, isStopped] offset, target in
                guard let rate else { return object.read(range.lowerBound + offset, target) }
                let count = min(target.count, rate.piece)
                guard rate.take(count, isStopped: isStopped) else { return nil }
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
                isPublic: AddressScope(literal: address) == .global)
        }
    }

    private func noteTrouble(since start: ContinuousClock.Instant) {
        nextNotice.withLock { $0 = $0 ?? start + Self.firstNotice }
    }

    /// Tells what is waited for, if it is time.
    private func tell(_ reason: String, _ shown: String) {
        let isTime = nextNotice.withLock { next in
            let now = ContinuousClock.now
            guard let time = next, time <= now else { return false }
            next = now + Self.noticeInterval
            return true
        }
        if isTime { notice("waiting for \(escaped(shown)): \(reason); Ctrl-C stops") }
    }

    /// Waits before the next try: as long as the store asks for, or longer with each failure.
    ///
    /// - Parameters:
    ///   - reason: What went wrong, for people.
    ///   - shown: Whom it waits for, for people.
    func pause(_ failures: Int, _ reason: String, _ shown: String, _ answer: Answer? = nil) {
        let policy = configuration.retry
        let asked = answer?.headers.retryAfter.flatMap { retryAfter($0, now: configuration.clock.unixTime()) }
        let wait =
            asked.map { min(policy.wait(retryAfter: $0), .seconds(60)) }
            ?? min(policy.wait(failures: failures, random: configuration.random()), .seconds(20))
        let end = ContinuousClock.now + wait
        while !isStopped(), case let rest = end - .now, rest > .zero {
            tell(reason, shown)
            pauseThread(milliseconds: Int(min(rest, .milliseconds(100)).milliseconds) + 1)
        }
    }
}

extension TransportConfiguration {
    /// How servers are reached that give keys: through the same proxies, and trusted alike.
    package var reach: @Sendable (EasyHandle, Origin) throws(CurlError) -> Void {
        { [self] easy, origin throws(CurlError) in
            try easy.apply(proxy(for: origin))
            try easy.apply(tls, showsCertificate: false)
        }
    }
}
