import CCurl
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncRemotes
import SyncSystem
import SyncTransfer

/// The support of `s3:` URLs: the places of buckets, and the keys for them.
///
/// Only buckets that the user has named are asked, and only they see a signature: a manifest could name any bucket.
struct Buckets {
    /// The schemes that URLs may have besides the web's; empty if the user has not named a bucket.
    let schemes: Set<String>
    /// The origin of the named bucket.
    private(set) var home: Origin?
    private let keys: BucketKeys?

    /// - Parameters:
    ///   - location: The place that the user has named: a manifest, or a published directory.
    ///   - configuration: The settings for requests to buckets.
    ///   - notice: Receives a warning if a bucket is in another region than the one that was asked.
    init(
        _ location: String?, _ host: HostEnvironment, _ configuration: TransportConfiguration,
        notice: @escaping @Sendable (PluginNotice) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) throws(EngineError) {
        guard let location, urlScheme(of: location) == S3Address.scheme else {
            (schemes, keys) = ([], nil)
            return
        }
        do throws(S3Fault) {
            let environment = try AWSEnvironment(host)
            let credentials = AWSCredentials(environment, isStopped: isStopped, reach: configuration.reach)
            let places = BucketPlaces(environment) { place in
                guard let region = Self.region(of: place, credentials, configuration, isStopped) else { return nil }
                let text =
                    "the bucket is in \(region), not in \(place.region): set AWS_REGION, or add ?region=\(region) to its URL, "
                    + "to ask there first"
                notice(PluginNotice(plugin: BucketKeys.name, kind: .warning, text: text))
                return region
            }
            home = try places.add(location).origin
            (schemes, keys) = ([S3Address.scheme], BucketKeys(places: places, credentials: credentials))
        } catch { throw EngineError(error) }
    }

    /// The providers of keys for the named buckets.
    var providers: [ConfiguredCredentialProvider] {
        keys.map { [ConfiguredCredentialProvider(name: BucketKeys.name, plugin: $0)] } ?? []
    }

    /// A transport that finds objects of buckets, around one for everything else.
    func around(_ transport: any Transport) -> any Transport {
        keys.map { BucketTransport(transport, $0.places) } ?? transport
    }

    /// The region that a bucket states, if it is another one; `nil` otherwise.
    private static func region(
        of place: S3Endpoint, _ credentials: AWSCredentials, _ configuration: TransportConfiguration,
        _ isStopped: @escaping @Sendable () -> Bool
    ) -> String? {
        /// The region in the header that AWS has, or in the text of a refusal.
        func said(by call: HTTPCall) -> String? {
            var text: [UInt8] = []
            guard (try? configuration.reach(call.easy, place.origin)) != nil,
                case .answered? = try? call.perform(
                    until: .now + .seconds(20), every: 100, isStopped: isStopped,
                    receive: { piece, _ in
                        text += piece
                        return text.count <= longestAnswer
                    })
            else { return nil }
            return call.headers.bucketRegion ?? elementTexts(text)["Region"]
        }
        // AWS answers everybody.
        if let call = try? HTTPCall(place.url(""), method: "HEAD", headers: [], body: nil),
            (try? call.easy.set(CURLOPT_NOBODY, 1)) != nil, let region = said(by: call)
        {
            return region == place.region ? nil : region
        }
        // Others answer a request that is signed for the wrong region.
        let now = configuration.clock.unixTime()
        var signature = AWSSignature(place.origin, path: place.path(""))
        signature.query = [("list-type", "2"), ("max-keys", "1")]
        guard let keys = (try? credentials.keys(now: now)) ?? nil,
            let headers = try? signature.signed(by: keys, region: place.region, now: now),
            let call = try? HTTPCall(
                "\(place.origin)\(signature.path)?\(signature.queryText)", headers: headers, body: nil),
            let region = said(by: call), region != place.region
        else { return nil }
        return region
    }

    /// The most **bytes** of a bucket's answer.
    private static let longestAnswer = 64 << 10
}

/// The places of the buckets that the user has named.
final class BucketPlaces: Sendable {
    private let environment: AWSEnvironment
    private let ask: @Sendable (S3Endpoint) -> String?
    private let known = Mutex<[String: S3Endpoint]>([:])
    /// The buckets that were asked for their region, and whether they are elsewhere.
    private let asked = Mutex<[String: Bool]>([:])
    /// Why keys cannot be had at present; `nil` if they can, or there are none.
    private let trouble = Mutex<String?>(nil)

    /// - Parameter ask: Returns the region that a bucket states, if it is another one. May block.
    init(_ environment: AWSEnvironment, ask: @escaping @Sendable (S3Endpoint) -> String?) {
        (self.environment, self.ask) = (environment, ask)
    }

    /// Adds the bucket of a URL that the user has named.
    @discardableResult func add(_ url: String) throws(S3Fault) -> S3Endpoint {
        let address = try S3Address(url)
        if let endpoint = known.withLock({ $0[address.bucket] }) { return endpoint }
        let endpoint = try S3Endpoint(
            address.bucket, endpoint: address.endpoint ?? environment.endpoint,
            region: address.region ?? environment.region ?? "us-east-1")
        known.withLock { $0[address.bucket] = endpoint }
        return endpoint
    }

    /// The URL of an object in its bucket.
    func url(_ text: String) throws(S3Fault) -> String {
        let address = try S3Address(text)
        guard let endpoint = known.withLock({ $0[address.bucket] }) else {
            throw S3Fault(.refused, "\(address.shown) is in a bucket that was not named")
        }
        return endpoint.url(address.prefix)
    }

    /// Records why keys cannot be had; `nil` once they can.
    func note(trouble reason: String?) { trouble.withLock { $0 = reason } }

    /// The error to report. While keys cannot be had, a bucket that wants some has refused nobody: it counts as
    /// unreachable.
    func detailed(_ error: TransferError) -> TransferError {
        guard error.cause == .access, let reason = trouble.withLock(\.self) else { return error }
        return TransferError(code: .unreachable, url: error.url, detail: reason, requests: error.requests)
    }

    func region(of origin: Origin) -> String? {
        known.withLock { $0.values.first { $0.origin == origin }?.region }
    }

    /// Asks the bucket of a URL for its region, once. Blocks.
    ///
    /// - Returns: Whether the bucket is in another region than was believed.
    func learn(bucketOf url: String) -> Bool { (try? S3Address(url)).map { learn($0.bucket) } ?? false }

    /// The same for the bucket at an origin.
    func learn(at origin: Origin) -> Bool {
        known.withLock { $0.first { $0.value.origin == origin }?.key }.map { learn($0) } ?? false
    }

    private func learn(_ bucket: String) -> Bool {
        asked.withLock { asked in
            if let isElsewhere = asked[bucket] { return isElsewhere }
            asked[bucket] = false
            guard let former = known.withLock({ $0[bucket] }), let region = ask(former),
                let place = try? former.moved(to: region)
            else { return false }
            known.withLock { $0[bucket] = place }
            asked[bucket] = true
            return true
        }
    }
}

/// Provides keys for the origins of buckets.
struct BucketKeys: CredentialProvider {
    let places: BucketPlaces
    let credentials: AWSCredentials

    /// The name in events.
    static let name = "aws"

    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        guard let origin = (try? CurlURL(request.origin))?.origin, places.region(of: origin) != nil else { return nil }
        let former = places.region(of: origin)
        // Either the bucket is elsewhere, which is learnt once, or the keys were refused.
        if request.refused != nil, !places.learn(at: origin) || places.region(of: origin) == former {
            credentials.forget()
        }
        guard let region = places.region(of: origin) else { return nil }
        do throws(S3Fault) {
            let found = try credentials.keys(now: SystemTime.clock.unixTime())
            places.note(trouble: nil)
            guard let keys = found else { return nil }
            let kind = Credential.Kind.sigV4(
                accessKey: keys.access, secretKey: keys.secret, sessionToken: keys.session, region: region,
                service: AWSSignature.service)
            return Credential(kind, expires: keys.expires.map { $0 - 120 })
        } catch {
            if error.exitStatus == .unavailable { places.note(trouble: error.reason) }
            throw PluginError(
                plugin: Self.name, code: error.exitStatus == .unavailable ? .unavailable : .refused,
                message: error.reason)
        }
    }
}

/// Fetches objects by the URLs of their buckets. A bucket that is in another region is asked again there.
final class BucketTransport: Transport {
    private let inner: any Transport
    private let places: BucketPlaces
    /// The number of transfers that wait to learn where their bucket is.
    private let waiting = Monitor(0)

    init(_ inner: any Transport, _ places: BucketPlaces) { (self.inner, self.places) = (inner, places) }

    func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        do throws(S3Fault) {
            let first = try web(request)
            guard let object = request.urls.first(where: Self.isObject) else {
                return inner.start(first, sink: sink, completion: completion)
            }
            inner.start(first, sink: sink) { [self] result in
                let tell: TransferCompletion = { [places] result in
                    completion(result.mapError { places.detailed($0) })
                }
                guard case .failure(let error) = result, Self.mayBeElsewhere(error) else { return tell(result) }
                // Not on the thread of all transfers, since this blocks.
                waiting.change { $0 += 1 }
                let begun = try? WorkerThread(name: "bucket") { [self] in
                    defer { waiting.change { $0 -= 1 } }
                    guard places.learn(bucketOf: object), let again = try? web(request), again.urls != first.urls else {
                        return tell(result)
                    }
                    inner.start(again, sink: sink, completion: tell)
                }
                guard begun == nil else { return }
                waiting.change { $0 -= 1 }
                tell(result)
            }
        } catch {
            // No object can have such a URL: it counts as missing.
            let code: TransferError.Code = error.exitStatus == .usage ? .badStatus(404) : .misuse
            completion(.failure(TransferError(code: code, url: request.urls.first ?? "", detail: error.reason)))
        }
    }

    /// The same request with URLs of the web.
    private func web(_ request: TransferRequest) throws(S3Fault) -> TransferRequest {
        var web = request
        for (index, url) in request.urls.enumerated() where Self.isObject(url) {
            if request.referrer == nil { try places.add(url) }
            web.urls[index] = try places.url(url)
        }
        if let referrer = request.referrer, Self.isObject(referrer.url) {
            web.referrer?.url = try places.url(referrer.url)
        }
        return web
    }

    private static func isObject(_ url: String) -> Bool { urlScheme(of: url) == S3Address.scheme }

    /// Whether an error may be the answer of a bucket that is asked in the wrong region.
    private static func mayBeElsewhere(_ error: TransferError) -> Bool {
        if [.authentication, .redirectRefused].contains(error.code) { return true }
        return [301, 307, 400, 403].contains(error.code.status ?? error.status)
    }

    func resume(_ id: TransferID) { inner.resume(id) }

    func cancel(_ id: TransferID) { inner.cancel(id) }

    func reportFault(url: String, reason: String) {
        inner.reportFault(url: (try? places.url(url)) ?? url, reason: reason)
    }

    var totals: TransferTotals { inner.totals }

    func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        inner.transferStatuses(limit: limit, at: now)
    }

    func shutdown() {
        inner.shutdown()
        waiting.wait { $0 == 0 ? () : nil }
    }
}
