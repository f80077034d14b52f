import CCurl
import SyncContent
import SyncCurl
import SyncModel
import SyncPublisher
import SyncS3
import SyncSources
import SyncSystem
import SyncTransfer

/// Asks one bucket, and tries again what may help. No redirect is followed: the keys are for the bucket's own origin.
final class S3Client: Sendable {
    let address: S3Address
    private let credentials: AWSCredentials
    private let configuration: TransportConfiguration
    private let rate: SendingRate?
    private let isStopped: @Sendable () -> Bool
    private let state: Mutex<State>

    private struct State {
        var endpoint: S3Endpoint
        var idle: [Connections] = []
    }

    private struct Connections: @unchecked Sendable {  // Safe: whoever has taken it out of the state has it alone.
        let value: HTTPConnections
    }

    /// One request.
    struct Request {
        var method = "GET"
        /// The object's, below the prefix; `nil` for the bucket.
        var name: String?
        var query: [(name: String, value: String)] = []
        /// In lower case, with what they say; they are signed.
        var headers: [(name: String, value: String)] = []
        var body: NewObject?
        /// Most **bytes** of the answer.
        var limit = 1 << 20
    }

    /// What was answered.
    struct Answer {
        var status = 0
        var headers = ResponseHeaders()
        var body: [UInt8] = []
        /// Whether the bucket may have done what an earlier try of the same request asked for.
        var isRepeated = false
    }

    private static let attempts = 12
    private static let longestWait = Duration.seconds(20)

    init(
        _ address: S3Address, _ endpoint: S3Endpoint, _ credentials: AWSCredentials,
        _ configuration: TransportConfiguration, isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.address, self.credentials, self.configuration) = (address, credentials, configuration)
        (rate, self.isStopped) = (configuration.rateLimit.map { SendingRate($0) }, isStopped)
        state = Mutex(State(endpoint: endpoint))
    }

    /// Sends a request until there is an answer that another try would not change.
    ///
    /// - Returns: An answer with a status below 300, or one of `expected`.
    func send(_ request: Request, expecting expected: Set<Int> = []) throws(PublishError) -> Answer {
        var failures = 0
        var isRepeated = false
        var hasNewKeys = false
        while true {
            if isStopped() { throw .stopped }
            var wait: Duration?
            let reason: String
            switch try sendOnce(request) {
            case .success(var answer):
                answer.isRepeated = isRepeated
                if answer.status < 300 || expected.contains(answer.status) { return answer }
                let fault = S3Error(answer.body)
                if let region = fault.region, learn(region) { continue }
                if ["ExpiredToken", "TokenRefreshRequired"].contains(fault.code), !hasNewKeys {
                    hasNewKeys = true
                    credentials.forget()
                    continue
                }
                guard Self.isPassing(answer.status, fault) else { throw refusal(answer, fault, request) }
                isRepeated = isRepeated || answer.status >= 500
                reason = "status \(answer.status)\(fault.code.isEmpty ? "" : " (\(escaped(fault.code)))")"
                wait = answer.headers.retryAfter.flatMap { retryAfter($0, now: configuration.clock.unixTime()) }.map {
                    configuration.retry.wait(retryAfter: $0)
                }
            case .failure(let error):
                isRepeated = true
                reason = error.detail
            }
            failures += 1
            guard failures < Self.attempts else {
                throw PublishError(
                    .unavailable, "\(shown(of: request)): \(reason), \(failures) times in a row",
                    "run it again later; what was published before is unchanged")
            }
            pause(wait ?? jittered(failures))
        }
    }

    private func jittered(_ failures: Int) -> Duration {
        let limit = min(Self.longestWait, .milliseconds(250) * (1 << min(failures, 10)))
        return limit * (Double(configuration.random() >> 11) / Double(UInt64(1) << 53))
    }

    private func pause(_ wait: Duration) {
        let end = ContinuousClock.now + wait
        while !isStopped(), case let rest = end - .now, rest > .zero {
            pauseThread(milliseconds: Int(min(rest, .milliseconds(100)).milliseconds) + 1)
        }
    }

    /// Whether the same request may be answered otherwise a moment later.
    private static func isPassing(_ status: Int, _ fault: S3Error) -> Bool {
        if [408, 429, 500, 502, 503, 504].contains(status) { return true }
        return ["RequestTimeout", "SlowDown", "OperationAborted", "ConditionalRequestConflict", "Throttling"].contains(
            fault.code)
    }

    /// Notes that the bucket is in another region; `false` if that was known.
    private func learn(_ region: String) -> Bool {
        state.withLock { state in
            guard region != state.endpoint.region,
                let endpoint = try? S3Endpoint(address.bucket, endpoint: address.endpoint, region: region)
            else { return false }
            state.endpoint = endpoint
            return true
        }
    }

    func shown(of request: Request) -> String { shown(request.name) }

    private func shown(_ name: String?) -> String { name.map { "\(address.shown)/\($0)" } ?? address.shown }

    private func key(_ name: String) -> String { address.prefix.isEmpty ? name : "\(address.prefix)/\(name)" }

    // MARK: One try

    private func sendOnce(_ request: Request) throws(PublishError) -> Result<Answer, CurlError> {
        let now = configuration.clock.unixTime()
        let keys: AWSKeys?
        do throws(S3Fault) { keys = try credentials.keys(now: now) } catch { throw PublishError(error) }
        let endpoint = state.withLock(\.endpoint)
        let origin = endpoint.origin
        let isDefault = origin.description.hasSuffix(origin.host)
        var signature = AWSSignature(
            host: isDefault ? origin.host : "\(origin.host):\(origin.port)",
            path: request.name.map { endpoint.path(key($0)) } ?? endpoint.path(""))
        if signature.path.isEmpty { signature.path = "/" }
        (signature.method, signature.query, signature.headers) = (request.method, request.query, request.headers)
        if let body = request.body { signature.payload = body.digest.hex }
        do {
            let lines = try signature.signed(by: keys, region: endpoint.region, now: now)
            let query = signature.queryText
            let url = origin.description + signature.path + (query.isEmpty ? "" : "?\(query)")
            return .success(try perform(request, url, lines, origin))
        } catch let error as CurlError { return .failure(error) } catch let error as PublishError { throw error } catch
        {
            throw PublishError(.internalError, "\(error)", "check the configuration of OpenSSL")
        }
    }

    private func perform(_ request: Request, _ url: String, _ lines: [String], _ origin: Origin) throws -> Answer {
        let call = try HTTPCall(url, method: request.method, headers: lines, body: nil)
        try call.easy.set(CURLOPT_PATH_AS_IS, 1)
        try call.easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try call.easy.set(CURLOPT_USERAGENT, configuration.userAgent)
        try call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(configuration.connectTimeout.milliseconds))
        try call.easy.set(CURLOPT_LOW_SPEED_LIMIT, 1)
        try call.easy.set(CURLOPT_LOW_SPEED_TIME, Int(configuration.idleTimeout.components.seconds))
        try call.easy.set(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
        try call.easy.apply(configuration.proxy(for: origin))
        try call.easy.apply(configuration.tls, showsCertificate: true)
        if request.method == "HEAD" { try call.easy.set(CURLOPT_NOBODY, 1) }
        if let body = request.body {
            try call.send(body.size, method: request.method) { [rate, isStopped] offset, target in
                guard let rate else { return body.read(offset, target) }
                let count = min(target.count, rate.piece)
                guard rate.take(count, isStopped: isStopped) else { return nil }
                return body.read(offset, UnsafeMutableRawBufferPointer(rebasing: target[..<count]))
            }
        }
        let connections = try taken()
        let limit = request.limit
        let text = Mutex<[UInt8]>([])
        let end = try call.perform(over: connections.value, until: nil, every: 200, isStopped: isStopped) { piece, _ in
            text.withLock { text in
                text += piece
                return text.count <= limit
            }
        }
        switch end {
        case .stopped: throw PublishError.stopped
        case .timedOut: throw CurlError(detail: "no answer")
        case .failed(let code): throw CurlError(detail: "\(origin.host): \(call.easy.message(for: code))")
        case .answered(let status):
            let body = text.withLock(\.self)
            guard body.count <= limit else {
                throw PublishError(
                    .dataInvalid, "\(shown(of: request)) has more than \(limit) bytes",
                    "is it what its name says? Nothing was changed")
            }
            state.withLock { $0.idle.append(connections) }
            return Answer(status: status, headers: call.headers, body: body)
        }
    }

    private func taken() throws -> Connections {
        if let idle = state.withLock({ $0.idle.popLast() }) { return idle }
        return Connections(value: try HTTPConnections())
    }

    // MARK: Refusals

    private func refusal(_ answer: Answer, _ fault: S3Error, _ request: Request) -> PublishError {
        let what = fault.code.isEmpty ? "status \(answer.status)" : "status \(answer.status), \(escaped(fault.text))"
        let place = shown(of: request)
        switch (answer.status, fault.code) {
        case (_, "NoSuchBucket"):
            return PublishError(
                .noInput, "there is no bucket \(escaped(address.bucket))", "make it first, or check its name")
        case (301, _), (307, _), (_, "PermanentRedirect"):
            return PublishError(
                .usage, "the bucket \(escaped(address.bucket)) is in another region",
                "name it with --region or AWS_REGION")
        case (401, _), (403, _):
            let remedy =
                (try? credentials.keys(now: configuration.clock.unixTime())) ?? nil == nil
                ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                : "check the keys and what they may do: list, get, put and delete objects there"
            return PublishError(.refused, "\(place): refused with \(what)", remedy)
        case (404, _):
            return PublishError(
                .noInput, "\(place) is not there: \(what)", "check the name; is somebody else changing it?")
        default:
            return PublishError(.unavailable, "\(place): \(what)", "what was published before is unchanged")
        }
    }
}

/// What a bucket says of an error.
struct S3Error {
    private(set) var code = ""
    private(set) var message = ""
    /// Where the bucket is, if the request was signed for another region.
    private(set) var region: String?

    init(_ body: [UInt8]) {
        guard !body.isEmpty, body.count <= 64 << 10, var text = try? XMLText(body) else { return }
        var name = ""
        while let piece = (try? text.next()) ?? nil {
            switch piece {
            case .start(let start, _): name = start
            case .end: name = ""
            case .text(let bytes):
                let value = String(decoding: bytes, as: UTF8.self)
                switch name {
                case "Code": code += value
                case "Message": message += value
                case "Region": region = value
                default: break
                }
            }
        }
    }

    /// For people.
    var text: String { message.isEmpty ? code : "\(code): \(message)" }
}

extension PublishError {
    /// Somebody wants no answer any more.
    static var stopped: Self {
        Self(.interrupted, "stopped before the end", "the published set is unchanged; run it again")
    }

    init(_ fault: S3Fault) {
        switch fault.kind {
        case .usage: self.init(.usage, fault.reason, "write s3://BUCKET/PREFIX")
        case .settings: self.init(.configuration, fault.reason, "correct that, and run it again")
        case .refused: self.init(.refused, fault.reason, "check the keys")
        case .passing: self.init(.unavailable, fault.reason, "run it again later")
        }
    }
}
