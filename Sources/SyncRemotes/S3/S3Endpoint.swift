import SyncModel
package import SyncSystem

/// The origin of a bucket, and the paths of its objects in URLs.
package struct S3Endpoint: Sendable, Equatable {
    /// `https://bucket.s3.eu-west-1.amazonaws.com`
    package let origin: Origin
    /// The prefix of every object's path: empty, or the endpoint's own path and the bucket.
    private let base: String
    package let region: String
    private let bucket: String
    private let endpoint: String?

    /// - Parameters:
    ///   - endpoint: A URL in place of AWS's.
    ///   - region: The region to sign for.
    package init(_ bucket: String, endpoint: String?, region: String) throws(S3Fault) {
        (self.bucket, self.endpoint, self.region) = (bucket, endpoint, region)
        guard region.utf8.allSatisfy({ isAlphanumeric($0) || $0 == 0x2D }), !region.isEmpty else {
            throw S3Fault(.usage, "'\(escaped(region))' is not the name of a region")
        }
        let domain = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
        // A certificate for *.s3.REGION.amazonaws.com covers no name with a dot.
        let isHost = bucket.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }
        let isInPath = endpoint != nil || !isHost
        let text =
            endpoint ?? (isInPath ? "https://s3.\(region).\(domain)" : "https://\(bucket).s3.\(region).\(domain)")
        let url: CurlURL
        do throws(URLError) { url = try CurlURL(text) } catch {
            let hint = urlScheme(of: text) == nil ? "; write it with its scheme, http:// or https://" : ""
            throw S3Fault(.usage, "the endpoint '\(redacted(url: text))': \(error)\(hint)")
        }
        guard url.query == nil else { throw S3Fault(.usage, "the endpoint '\(redacted(url: text))' has a query") }
        origin = url.origin
        var path = url.path
        while path.hasSuffix("/") { path.removeLast() }
        base = isInPath ? "\(path)/\(percentEncoded(bytes: bucket.utf8))" : path
    }

    /// The same bucket in another region.
    package func moved(to region: String) throws(S3Fault) -> S3Endpoint {
        try S3Endpoint(bucket, endpoint: endpoint, region: region)
    }

    /// The path of an object, as it is requested and signed; that of the bucket for an empty name.
    package func path(_ name: String) -> String {
        name.isEmpty && !base.isEmpty ? base : "\(base)/\(percentEncoded(bytes: name.utf8))"
    }

    package func url(_ name: String) -> String { origin.description + path(name) }
}
