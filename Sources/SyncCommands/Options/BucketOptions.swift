import ArgumentParser
import SyncModel
import SyncRemotes

/// The service and region of a bucket, if its URL does not name them.
struct BucketOptions: ParsableArguments {
    @Option(
        help: "The URL of the service that has the s3:// bucket.  (default: AWS_ENDPOINT_URL, or AWS itself)".taking(
            "url"))
    var endpoint: String?

    @Option(help: "The region of the s3:// bucket.  (default: AWS_REGION, or us-east-1)".taking("name"))
    var region: String?

    /// The place as a URL that names service and region; other places unchanged.
    func named(_ place: String) throws(ValidationError) -> String {
        guard endpoint != nil || region != nil else { return place }
        guard urlScheme(of: place) == S3Address.scheme else {
            throw ValidationError("--endpoint and --region are for s3://BUCKET/PREFIX.")
        }
        do throws(S3Fault) {
            var address = try S3Address(place)
            address.endpoint = endpoint ?? address.endpoint
            address.region = region ?? address.region
            _ = try S3Endpoint(address.bucket, endpoint: address.endpoint, region: address.region ?? "us-east-1")
            return address.text
        } catch { throw ValidationError("\(error.reason).") }
    }
}
