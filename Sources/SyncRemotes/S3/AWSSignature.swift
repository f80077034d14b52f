package import SyncContent
import SyncModel
package import SyncSystem

/// Keys that requests are signed with. They are never written anywhere.
package struct AWSKeys: Sendable, CustomStringConvertible, CustomReflectable {
    package let access: String
    package let secret: String
    package let session: String?
    /// **Seconds** since 1970; `nil` for keys that do not expire.
    package let expires: Int64?

    package init(access: String, secret: String, session: String? = nil, expires: Int64? = nil) {
        (self.access, self.secret, self.session, self.expires) = (access, secret, session, expires)
    }

    package var description: String { "keys" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Signs requests: AWS Signature Version 4, as S3 uses it. libcurl 7.88.1 leaves the fields of a query as they are, and
/// needs a body in memory to hash it, so this is done here.
///
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>
package struct AWSSignature {
    package var method = "GET"
    /// As in the `Host` header.
    package var host: String
    /// As it is sent, percent-encoded once.
    package var path: String
    /// Not encoded yet.
    package var query: [(name: String, value: String)] = []
    /// SHA-256 of the body, or `UNSIGNED-PAYLOAD`.
    package var payload = SHA256Digest.ofNothing.hex
    /// Further headers that are signed, with names in lower case.
    package var headers: [(name: String, value: String)] = []

    package static let service = "s3"
    /// The service that requests go to.
    package var service = Self.service

    package init(host: String, path: String) { (self.host, self.path) = (host, path) }

    /// Signs a request to an origin.
    package init(_ origin: Origin, path: String) {
        let isDefaultPort = origin.description.hasSuffix(origin.host)
        self.init(host: isDefaultPort ? origin.host : "\(origin.host):\(origin.port)", path: path.isEmpty ? "/" : path)
    }

    /// The query as it is sent: encoded, and in the order in which it is signed.
    package var queryText: String {
        func encoded(_ text: String) -> String { percentEncoded(bytes: text.utf8, keepsSlash: false) }
        return query.map { (encoded($0.name), encoded($0.value)) }.sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(
            separator: "&")
    }

    /// The headers of the signed request, as `Name: value`.
    ///
    /// - Parameters:
    ///   - keys: `nil` for an anonymous request.
    ///   - now: **Seconds** since 1970.
    package func signed(by keys: AWSKeys?, region: String, now: Int64) throws(DigestError) -> [String] {
        guard let keys else { return headers.map { "\($0.name): \($0.value)" } }
        let time = Self.time(now)
        let scope = "\(time.prefix(8))/\(region)/\(service)/aws4_request"
        var fields = headers + [("host", host), ("x-amz-content-sha256", payload), ("x-amz-date", time)]
        if let session = keys.session { fields.append(("x-amz-security-token", session)) }
        fields.sort { $0.name < $1.name }
        let names = fields.map(\.name).joined(separator: ";")
        let lines = fields.map { "\($0.name):\(Self.trimmed($0.value))\n" }.joined()
        let request = "\(method)\n\(path)\n\(queryText)\n\(lines)\n\(names)\n\(payload)"
        let text = "AWS4-HMAC-SHA256\n\(time)\n\(scope)\n\(try sha256(request).hex)"
        var key = Array("AWS4\(keys.secret)".utf8)
        for part in [String(time.prefix(8)), region, service, "aws4_request"] {
            key = try hmacSHA256(Array(part.utf8), key: key)
        }
        let signature = try hmacSHA256(Array(text.utf8), key: key).map { padded(UInt64($0), 2, radix: 16) }.joined()
        let authority =
            "AWS4-HMAC-SHA256 Credential=\(keys.access)/\(scope), SignedHeaders=\(names), Signature=\(signature)"
        return fields.filter { $0.name != "host" }.map { "\($0.name): \($0.value)" } + ["Authorization: \(authority)"]
    }

    /// `20261127T032635Z`
    static func time(_ seconds: Int64) -> String {
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        let text = timestamp(milliseconds: overflow ? 0 : milliseconds)
        return text.prefix(19).filter { $0 != "-" && $0 != ":" } + "Z"
    }

    /// The value without blanks at its ends, and with one blank for several in a row.
    private static func trimmed(_ value: String) -> String {
        value.split(separator: " ").joined(separator: " ")
    }
}
