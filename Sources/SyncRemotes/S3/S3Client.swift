import SyncContent
import SyncModel
import SyncPublisher
import SyncSystem
import SyncTransfer

/// Sends requests to one bucket, and repeats requests that may succeed later. No redirect is followed: the keys are for
/// the bucket's own origin.
final class S3Client: Sendable {
    let address: S3Address
    private let credentials: AWSCredentials
    private let calls: StoreCalls
    private let endpoint: Mutex<S3Endpoint>

    typealias Answer = StoreCalls.Answer

    /// One request.
    struct Request {
        var method = "GET"
        /// The object's name below the prefix; `nil` for the bucket itself.
        var name: String?
        var query: [(name: String, value: String)] = []
        /// Names in lower case, with their values; they are signed.
        var headers: [(name: String, value: String)] = []
        var body: NewObject?
        /// Most **bytes** of the answer.
        var limit = 1 << 20
    }

    private static let attempts = 12

    init(
        _ address: S3Address, _ endpoint: S3Endpoint, _ credentials: AWSCredentials,
        _ configuration: TransportConfiguration, notice: @escaping @Sendable (String) -> Void,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.address, self.credentials) = (address, credentials)
        self.endpoint = Mutex(endpoint)
        calls = StoreCalls(configuration, patience: configuration.idleTimeout, notice: notice, isStopped: isStopped)
    }

    /// Sends a request until there is an answer that another attempt would not change.
    ///
    /// - Returns: An answer with a status below 300, or one of `expected`.
    func send(_ request: Request, expecting expected: Set<Int> = []) throws(PublishError) -> Answer {
        var failures = 0
        var (hasNewKeys, moves) = (false, 0)
        while true {
            let reason: String
            var passing: Answer?
            switch try sendOnce(request) {
            case .success(let answer):
                if answer.status < 300 || expected.contains(answer.status) { return answer }
                let fault = S3Error(answer.body)
                if moves < 2, let region = fault.region ?? answer.headers.bucketRegion, learn(region) {
                    moves += 1
                    continue
                }
                if ["ExpiredToken", "TokenRefreshRequired"].contains(fault.code), !hasNewKeys {
                    hasNewKeys = true
                    credentials.forget()
                    continue
                }
                guard Self.isPassing(answer.status, fault) else { throw refusal(answer, fault, request) }
                reason = "status \(answer.status)\(fault.code.isEmpty ? "" : " (\(escaped(fault.code)))")"
                passing = answer
            case .failure(let error):
                reason = error.detail
            }
            failures += 1
            guard failures < Self.attempts else {
                throw PublishError(
                    .unavailable, "\(shown(of: request)): \(reason), \(failures) times in a row", "run it again later")
            }
            calls.pause(failures, reason, address.shown, passing)
        }
    }

    /// Whether the same request may get another answer a moment later.
    private static func isPassing(_ status: Int, _ fault: S3Error) -> Bool {
        if [408, 429, 500, 502, 503, 504].contains(status) { return true }
        return ["RequestTimeout", "SlowDown", "OperationAborted", "ConditionalRequestConflict", "Throttling"].contains(
            fault.code)
    }

    /// Notes that the bucket is in another region; `false` if that was known.
    private func learn(_ region: String) -> Bool {
        endpoint.withLock { endpoint in
            guard region != endpoint.region, let found = try? endpoint.moved(to: region) else { return false }
            endpoint = found
            return true
        }
    }

    func shown(of request: Request) -> String { (request.name.map(address.object) ?? address).shown }

    // MARK: One attempt

    private func sendOnce(_ request: Request) throws(PublishError) -> Result<Answer, CurlError> {
        let now = calls.configuration.clock.unixTime()
        let keys: AWSKeys?
        do throws(S3Fault) { keys = try credentials.keys(now: now) } catch { throw PublishError(error) }
        let endpoint = endpoint.withLock(\.self)
        let origin = endpoint.origin
        var signature = AWSSignature(
            origin, path: request.name.map { endpoint.path(address.object($0).prefix) } ?? endpoint.path(""))
        (signature.method, signature.query, signature.headers) = (request.method, request.query, request.headers)
        if let body = request.body { signature.payload = body.digest.hex }
        let lines: [String]
        do throws(DigestError) {
            lines = try signature.signed(by: keys, region: endpoint.region, now: now)
        } catch { throw PublishError(.internalError, "\(error)", "check the configuration of OpenSSL") }
        let query = signature.queryText
        return try calls.send(
            StoreCalls.Request(
                method: request.method, url: origin.description + signature.path + (query.isEmpty ? "" : "?\(query)"),
                headers: lines, part: request.body.map { (0..<$0.size, $0) }, limit: request.limit),
            shown: shown(of: request), isOwn: true)
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
        case (_, "RequestTimeTooSkewed"):
            return PublishError(.refused, "\(place): refused with \(what)", "set the clock of this machine")
        case (401, _), (403, _):
            let remedy =
                (try? credentials.keys(now: calls.configuration.clock.unixTime())) ?? nil == nil
                ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                : "check the keys and what they may do: list, get, put and delete objects there"
            return PublishError(.refused, "\(place): refused with \(what)", remedy)
        case (404, _):
            return PublishError(
                .noInput, "\(place) is not there: \(what)", "check the name; is somebody else changing it?")
        default:
            return PublishError(.unavailable, "\(place): \(what)", "ask whoever runs the bucket, or run it again later")
        }
    }
}

/// A bucket's description of an error.
struct S3Error {
    let code: String
    private let message: String
    /// The bucket's region, if the request was signed for another one.
    let region: String?

    init(_ body: [UInt8]) {
        let said = elementTexts(body)
        (code, message, region) = (said["Code"] ?? "", said["Message"] ?? "", said["Region"])
    }

    /// For people.
    var text: String { message.isEmpty ? code : "\(code): \(message)" }
}

extension PublishError {
    init(_ fault: S3Fault) {
        let remedy =
            switch fault.exitStatus {
            case .usage: "write s3://BUCKET/PREFIX"
            case .configuration: "correct that, and run it again"
            case .refused: "check the keys"
            default: "run it again later"
            }
        self.init(fault.exitStatus, fault.reason, remedy)
    }
}
