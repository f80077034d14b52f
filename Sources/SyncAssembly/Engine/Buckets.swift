import SyncCurl
import SyncEngine
import SyncModel
import SyncPlugins
import SyncS3
import SyncSystem
import SyncTransfer

/// What an engine needs for `s3:`: where buckets are, and the keys for them.
///
/// Only buckets that the user has named are asked, and nobody but them sees a signature: a manifest could name any.
struct Buckets {
    /// What URLs may begin with; none where the recipe names something else.
    let schemes: Set<String>
    /// The origin of the bucket that the recipe names.
    private(set) var home: Origin?
    private let places: BucketPlaces?
    private let environment: AWSEnvironment?
    private let isStopped: @Sendable () -> Bool

    init(_ recipe: RunRecipe?, _ host: HostEnvironment, isStopped: @escaping @Sendable () -> Bool)
        throws(EngineError)
    {
        self.isStopped = isStopped
        guard let recipe, urlScheme(of: recipe.manifest) == S3Address.scheme else {
            (schemes, places, environment) = ([], nil, nil)
            return
        }
        do throws(S3Fault) {
            let environment = try AWSEnvironment(home: host.base.home, lookup: host.lookup)
            let places = BucketPlaces(environment)
            home = try places.add(recipe.manifest).origin
            (schemes, self.places, self.environment) = ([S3Address.scheme], places, environment)
        } catch { throw EngineError(error) }
    }

    /// Signs for those origins.
    var providers: [ConfiguredCredentialProvider] {
        guard let places, let environment else { return [] }
        let keys = BucketKeys(places: places, credentials: AWSCredentials(environment, isStopped: isStopped))
        return [ConfiguredCredentialProvider(name: BucketKeys.name, plugin: keys)]
    }

    /// A transport that finds objects of buckets, around what brings everything else.
    func around(_ transport: any Transport) -> any Transport {
        places.map { BucketTransport(transport, $0) } ?? transport
    }
}

/// Where the buckets are that the user has named.
private final class BucketPlaces: Sendable {
    private let environment: AWSEnvironment
    private let known = Mutex<[String: S3Endpoint]>([:])

    init(_ environment: AWSEnvironment) { self.environment = environment }

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

    func region(of origin: Origin) -> String? {
        known.withLock { $0.values.first { $0.origin == origin }?.region }
    }
}

/// Keys for the origins of buckets.
private struct BucketKeys: CredentialProvider {
    let places: BucketPlaces
    let credentials: AWSCredentials

    /// What events call it.
    static let name = "aws"

    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        guard let origin = (try? CurlURL(request.origin))?.origin, let region = places.region(of: origin) else {
            return nil
        }
        if request.refused != nil { credentials.forget() }
        do throws(S3Fault) {
            guard let keys = try credentials.keys(now: SystemTime.clock.unixTime()) else { return nil }
            let kind = Credential.Kind.sigV4(
                accessKey: keys.access, secretKey: keys.secret, sessionToken: keys.session, region: region,
                service: AWSSignature.service)
            return Credential(kind, expires: keys.expires.map { $0 - 120 })
        } catch {
            throw PluginError(
                plugin: Self.name, code: error.kind == .passing ? .unavailable : .refused, message: error.reason)
        }
    }
}

/// Asks for objects by the URLs that their buckets have.
private final class BucketTransport: Transport {
    private let inner: any Transport
    private let places: BucketPlaces

    init(_ inner: any Transport, _ places: BucketPlaces) { (self.inner, self.places) = (inner, places) }

    func start(
        _ request: TransferRequest, sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    ) {
        var web = request
        do throws(S3Fault) {
            for (index, url) in request.urls.enumerated() where Self.isObject(url) {
                if request.referrer == nil { try places.add(url) }
                web.urls[index] = try places.url(url)
            }
            if let referrer = request.referrer, Self.isObject(referrer.url) {
                web.referrer?.url = try places.url(referrer.url)
            }
        } catch {
            return completion(
                .failure(TransferError(code: .misuse, url: request.urls.first ?? "", detail: error.reason)))
        }
        inner.start(web, sink: sink, completion: completion)
    }

    private static func isObject(_ url: String) -> Bool { urlScheme(of: url) == S3Address.scheme }

    func resume(_ id: TransferID) { inner.resume(id) }

    func cancel(_ id: TransferID) { inner.cancel(id) }

    func blame(url: String, reason: String) { inner.blame(url: (try? places.url(url)) ?? url, reason: reason) }

    var totals: TransferTotals { inner.totals }

    func transferStatuses(limit: Int) -> (transfers: [TransferStatus], more: Int)? {
        inner.transferStatuses(limit: limit)
    }

    func shutdown() { inner.shutdown() }
}
