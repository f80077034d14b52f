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
    /// - Parameters:
    ///   - name: The object's name below the prefix; `nil` for the bucket itself.
    ///   - headers: Names in lower case, with their values; they are signed.
    ///   - limit: Most **bytes** of the answer.
    /// - Returns: An answer with a status below 300, or one of `expected`.
    func send(
        _ name: String?, _ method: String = "GET", query: [(name: String, value: String)] = [],
        headers: [(name: String, value: String)] = [], body: NewObject? = nil, limit: Int = 1 << 20,
        expecting expected: Set<Int> = []
    ) throws(PublishError) -> Answer {
        var failures = 0
        var (hasNewKeys, moves) = (false, 0)
        let place = (name.map(address.object) ?? address).shown
        while true {
            let reason: String
            var passing: Answer?
            let (url, lines) = try signed(method, name, query, headers, body)
            let request = StoreCalls.Request(
                method: method, url: url, headers: lines, part: body.map { (0..<$0.size, $0) }, limit: limit)
            switch try calls.send(request, shown: place, isOwn: true) {
            case .success(let answer):
                if answer.status < 300 || expected.contains(answer.status) { return answer }
                let said = elementTexts(answer.body)
                let code = said["Code"] ?? ""
                if moves < 2, let region = said["Region"] ?? answer.headers.bucketRegion, learn(region) {
                    moves += 1
                    continue
                }
                if ["ExpiredToken", "TokenRefreshRequired"].contains(code), !hasNewKeys {
                    hasNewKeys = true
                    credentials.forget()
                    continue
                }
                guard Self.isPassing(answer.status, code) else {
                    throw refusal(answer.status, code, said["Message"] ?? "", place)
                }
                reason = "status \(answer.status)\(code.isEmpty ? "" : " (\(escaped(code)))")"
                passing = answer
            case .failure(let error):
                reason = error.detail
            }
            failures += 1
            guard failures < Self.attempts else {
                throw PublishError(
                    .unavailable, "\(place): \(reason), \(failures) times in a row", "run it again later")
            }
            calls.pause(failures, reason, address.shown, passing)
        }
    }

    /// Whether the same request may get another answer a moment later.
    private static func isPassing(_ status: Int, _ code: String) -> Bool {
        [408, 429, 500, 502, 503, 504].contains(status)
            || ["RequestTimeout", "SlowDown", "OperationAborted", "ConditionalRequestConflict", "Throttling"]
                .contains(code)
    }

    /// Notes that the bucket is in another region; `false` if that was known.
    private func learn(_ region: String) -> Bool {
        endpoint.withLock { endpoint in
            guard region != endpoint.region, let found = try? endpoint.moved(to: region) else { return false }
            endpoint = found
            return true
        }
    }

    /// The URL and the headers of a request, signed for where the bucket is now.
    private func signed(
        _ method: String, _ name: String?, _ query: [(name: String, value: String)],
        _ headers: [(name: String, value: String)], _ body: NewObject?
    ) throws(PublishError) -> (url: String, headers: [String]) {
        let now = calls.configuration.clock.unixTime()
        let keys = try rethrowing(credentials.keys(now: now)) { (fault: S3Fault) in PublishError(fault) }
        let endpoint = endpoint.withLock(\.self)
        var signature = AWSSignature(
            endpoint.origin, path: endpoint.path(name.map { address.object($0).prefix } ?? ""))
        (signature.method, signature.query, signature.headers) = (method, query, headers)
        if let body { signature.payload = body.digest.hex }
        let text = signature.queryText
        do throws(DigestError) {
            return (
                endpoint.origin.description + signature.path + (text.isEmpty ? "" : "?\(text)"),
                try signature.signed(by: keys, region: endpoint.region, now: now)
            )
        } catch { throw PublishError(.internalError, "\(error)", "check the configuration of OpenSSL") }
    }

    private func refusal(_ status: Int, _ code: String, _ message: String, _ place: String) -> PublishError {
        let said = code + (message.isEmpty ? "" : ": \(message)")
        let what = "status \(status)" + (code.isEmpty ? "" : ", \(escaped(said))")
        switch (status, code) {
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
