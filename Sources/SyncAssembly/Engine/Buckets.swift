import CCurl
import SyncCurl
import SyncEngine
import SyncHomes
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncS3
import SyncSystem
import SyncTransfer

/// What an engine needs for `s3:`: where buckets are, and the keys for them.
///
/// Only buckets that the user has named are asked, and nobody but them sees a signature: a manifest could name any.
struct Buckets {
    /// What URLs may begin with; none where something else is named.
    let schemes: Set<String>
    /// The origin of the bucket that is named.
    private(set) var home: Origin?
    private let places: BucketPlaces?
    private let credentials: AWSCredentials?

    /// - Parameters:
    ///   - location: What the user has named: a manifest, or a published directory.
    ///   - configuration: How buckets are reached.
    ///   - notice: Told where a bucket is, if it is not where it was looked for.
    init(
        _ location: String?, _ host: HostEnvironment, _ configuration: TransportConfiguration,
        notice: @escaping @Sendable (PluginNotice) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) throws(EngineError) {
        guard let location, urlScheme(of: location) == S3Address.scheme else {
            (schemes, places, credentials) = ([], nil, nil)
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
            (schemes, self.places, self.credentials) = ([S3Address.scheme], places, credentials)
        } catch { throw EngineError(error) }
    }

    /// Signs for those origins.
    var providers: [ConfiguredCredentialProvider] {
        guard let places, let credentials else { return [] }
        let keys = BucketKeys(places: places, credentials: credentials)
        return [ConfiguredCredentialProvider(name: BucketKeys.name, plugin: keys)]
    }

    /// A transport that finds objects of buckets, around what brings everything else.
    func around(_ transport: any Transport) -> any Transport {
        places.map { BucketTransport(transport, $0) } ?? transport
    }

    /// In which other region a bucket says that it is; `nil` where it does not.
    private static func region(
        of place: S3Endpoint, _ credentials: AWSCredentials, _ configuration: TransportConfiguration,
        _ isStopped: @escaping @Sendable () -> Bool
    ) -> String? {
        /// What is said in the header that AWS has, or in the text of a refusal.
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
        // AWS tells everybody.
        if let call = try? HTTPCall(place.url(""), method: "HEAD", headers: [], body: nil),
            (try? call.easy.set(CURLOPT_NOBODY, 1)) != nil, let region = said(by: call)
        {
            return region == place.region ? nil : region
        }
        // Others tell whoever has signed for the wrong one.
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

    /// Most **bytes** of what a bucket says of itself.
    private static let longestAnswer = 64 << 10
}

/// Where the buckets are that the user has named.
final class BucketPlaces: Sendable {
    private let environment: AWSEnvironment
    private let ask: @Sendable (S3Endpoint) -> String?
    private let known = Mutex<[String: S3Endpoint]>([:])
    /// The buckets that were asked where they are, with what they said.
    private let asked = Mutex<[String: Bool]>([:])
    /// Why nobody gives keys for now; `nil` where somebody does, or there are none.
    private let trouble = Mutex<String?>(nil)

    /// - Parameter ask: Gives the region in which a bucket says that it is, if it is another one. May wait.
    init(_ environment: AWSEnvironment, ask: @escaping @Sendable (S3Endpoint) -> String?) {
        (self.environment, self.ask) = (environment, ask)
    }

    /// Notes the bucket of a URL that the user has named.
    @discardableResult func add(_ url: String) throws(S3Fault) -> S3Endpoint {
        let address = try S3Address(url)
        if let endpoint = known.withLock({ $0[address.bucket] }) { return endpoint }
        let endpoint = try S3Endpoint(
            address.bucket, endpoint: address.endpoint ?? environment.endpoint,
            region: address.region ?? environment.region ?? "us-east-1")
        known.withLock { $0[address.bucket] = endpoint }
        return endpoint
    }

    /// The URL by which an object is asked for.
    func url(_ text: String) throws(S3Fault) -> String {
        let address = try S3Address(text)
        guard let endpoint = known.withLock({ $0[address.bucket] }) else {
            throw S3Fault(.refused, "\(address.shown) is in a bucket that nobody has named")
        }
        return endpoint.url(address.prefix)
    }

    /// Notes whether keys can be had.
    func note(trouble reason: String?) { trouble.withLock { $0 = reason } }

    /// What a failure means: while nobody gives keys, a bucket that wants some has refused nobody. It is as if it were out of reach.
    func told(_ error: TransferError) -> TransferError {
        guard error.cause == .access, let reason = trouble.withLock(\.self) else { return error }
        return TransferError(code: .unreachable, url: error.url, detail: reason, requests: error.requests)
    }

    func region(of origin: Origin) -> String? {
        known.withLock { $0.values.first { $0.origin == origin }?.region }
    }

    /// Asks the bucket of a URL, once, where it is. Waits.
    ///
    /// - Returns: Whether that is somewhere else than was believed.
    func learn(bucketOf url: String) -> Bool { (try? S3Address(url)).map { learn($0.bucket) } ?? false }

    /// The same of the bucket at an origin.
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

/// Keys for the origins of buckets.
struct BucketKeys: CredentialProvider {
    let places: BucketPlaces
    let credentials: AWSCredentials

    /// What events call it.
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

/// Asks for objects by the URLs that their buckets have. A bucket that is in another region is asked there.
final class BucketTransport: Transport {
    private let inner: any Transport
    private let places: BucketPlaces
    /// Transfers that wait to learn where their bucket is.
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
                    completion(result.mapError { places.told($0) })
                }
                guard case .failure(let error) = result, Self.mayBeElsewhere(error) else { return tell(result) }
                // Not on the thread of all transfers, since it waits.
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
            // What no object can be called is not there.
            let code: TransferError.Code = error.exitStatus == .usage ? .badStatus(404) : .misuse
            completion(.failure(TransferError(code: code, url: request.urls.first ?? "", detail: error.reason)))
        }
    }

    /// A request for the same by the web's URLs.
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

    /// Whether a bucket that is asked in the wrong region answers like this.
    private static func mayBeElsewhere(_ error: TransferError) -> Bool {
        if [.authentication, .redirectRefused].contains(error.code) { return true }
        return [301, 307, 400, 403].contains(error.code.status ?? error.status)
    }

    func resume(_ id: TransferID) { inner.resume(id) }

    func cancel(_ id: TransferID) { inner.cancel(id) }

    func blame(url: String, reason: String) { inner.blame(url: (try? places.url(url)) ?? url, reason: reason) }

    var totals: TransferTotals { inner.totals }

    func transferStatuses(limit: Int) -> (transfers: [TransferStatus], more: Int)? {
        inner.transferStatuses(limit: limit)
    }

    func shutdown() {
        inner.shutdown()
        waiting.wait { $0 == 0 ? () : nil }
    }
}
