import CCurl
import SyncCurl
import SyncModel
import SyncSystem

/// Finds keys where AWS's own programs find them: in variables, in the files of a profile, at a container's endpoint and at the
/// instance's. They are asked for again before they end.
package final class AWSCredentials: Sendable {
    private let environment: AWSEnvironment
    private let isStopped: @Sendable () -> Bool
    private let known = Mutex<(keys: AWSKeys?, until: Int64)?>(nil)

    /// **Seconds** before their end when others are asked for: requests are on their way.
    private static let margin: Int64 = 300
    /// **Seconds** for which it is believed that there are none.
    private static let pause: Int64 = 60
    private static let limit = 64 << 10

    package init(_ environment: AWSEnvironment, isStopped: @escaping @Sendable () -> Bool) {
        (self.environment, self.isStopped) = (environment, isStopped)
    }

    /// The keys that count now; `nil` if there are none. Blocks.
    ///
    /// - Parameter now: **Seconds** since 1970.
    package func keys(now: Int64) throws(S3Fault) -> AWSKeys? {
        try known.withLock { known throws(S3Fault) in
            if let known, now < known.until { return known.keys }
            let keys = try find()
            known = (
                keys, keys == nil ? now + Self.pause : keys?.expires.map { max(now + 1, $0 - Self.margin) } ?? .max
            )
            return keys
        }
    }

    /// Forgets them, since they were refused.
    package func forget() { known.withLock { $0 = nil } }

    private func find() throws(S3Fault) -> AWSKeys? {
        if let access = environment.variable("AWS_ACCESS_KEY_ID") {
            guard let secret = environment.variable("AWS_SECRET_ACCESS_KEY") else {
                throw S3Fault(.settings, "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")
            }
            return try checked(
                AWSKeys(access: access, secret: secret, session: environment.variable("AWS_SESSION_TOKEN")))
        }
        if let access = environment.setting("aws_access_key_id") {
            guard let secret = environment.setting("aws_secret_access_key") else {
                throw S3Fault(
                    .settings, "the profile '\(escaped(environment.profileName))' has no aws_secret_access_key")
            }
            return try checked(
                AWSKeys(access: access, secret: secret, session: environment.setting("aws_session_token")))
        }
        for name in ["role_arn", "sso_session", "sso_start_url", "credential_process"]
        where environment.setting(name) != nil {
            throw S3Fault(
                .settings,
                "the profile '\(escaped(environment.profileName))' gets its keys through \(name), which syncagent does not do: "
                    + "put them into the environment with 'aws configure export-credentials --format env'")
        }
        if let path = environment.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            return try container("http://169.254.170.2" + (path.hasPrefix("/") ? path : "/\(path)"))
        }
        if let url = environment.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") { return try container(url) }
        return try instance()
    }

    private func checked(_ keys: AWSKeys) throws(S3Fault) -> AWSKeys {
        guard [keys.access, keys.secret, keys.session ?? ""].allSatisfy(\.isOneLine) else {
            throw S3Fault(.settings, "AWS's keys have a control character in them")
        }
        return keys
    }

    // MARK: Endpoints

    /// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>
    private func container(_ text: String) throws(S3Fault) -> AWSKeys? {
        let url: CurlURL
        do throws(URLError) { url = try CurlURL(text) } catch {
            throw S3Fault(.settings, "AWS_CONTAINER_CREDENTIALS_FULL_URI is \(error)")
        }
        // The token is for this machine's or this site's endpoint alone.
        let isNear =
            ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost", "[::1]"].contains(url.origin.host)
            || addressBytes(url.origin.host).map { $0.count == 4 && $0[0] == 127 } == true
        guard url.origin.scheme == "https" || isNear else {
            throw S3Fault(
                .settings, "AWS_CONTAINER_CREDENTIALS_FULL_URI names \(url.origin), which others on the way could read")
        }
        var headers: [String] = []
        var token = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if let path = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            do throws(FileError) {
                token = String(decoding: try readFile(path, trust: .input, limit: Self.limit), as: UTF8.self)
            } catch { throw S3Fault(.settings, "\(error)") }
        }
        if let token = token.map({ String($0[...].trimmed) }) {
            guard token.isOneLine else { throw S3Fault(.settings, "AWS's token for containers has a line end in it") }
            headers.append("Authorization: \(token)")
        }
        guard let answer = ask(url.text, headers: headers, patience: .seconds(5)) else {
            throw S3Fault(.passing, "the container's endpoint for AWS's keys, \(url.origin), does not answer")
        }
        return try keys(answer, from: "\(url.origin)")
    }

    /// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>
    private func instance() throws(S3Fault) -> AWSKeys? {
        guard environment.variable("AWS_EC2_METADATA_DISABLED")?.lowercased() != "true" else { return nil }
        var place = environment.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254"
        while place.hasSuffix("/") { place.removeLast() }
        let life = ["X-aws-ec2-metadata-token-ttl-seconds: 21600"]
        // Elsewhere nobody answers there: then there are no keys.
        guard let token = ask(place + "/latest/api/token", method: "PUT", headers: life, patience: .seconds(1)) else {
            return nil
        }
        let headers = ["X-aws-ec2-metadata-token: \(String(decoding: token, as: UTF8.self))"]
        let roles = place + "/latest/meta-data/iam/security-credentials/"
        guard headers[0].isOneLine, let answer = ask(roles, headers: headers, patience: .seconds(2)),
            let role = String(decoding: answer, as: UTF8.self).split(whereSeparator: \.isNewline).first,
            let text = ask(
                roles + percentEncoded(bytes: role.utf8, keepsSlash: false), headers: headers, patience: .seconds(2))
        else { return nil }
        return try keys(text, from: "the instance's metadata")
    }

    private func keys(_ text: [UInt8], from place: String) throws(S3Fault) -> AWSKeys {
        let value = text.withUnsafeBytes { JSONParser.parse($0) }
        guard let access = value?["AccessKeyId"]?.string, let secret = value?["SecretAccessKey"]?.string else {
            throw S3Fault(.passing, "\(place) gives no keys of AWS")
        }
        let end = value?["Expiration"]?.string.flatMap { parseTimestamp($0) }.map { $0 / 1_000 }
        return try checked(AWSKeys(access: access, secret: secret, session: value?["Token"]?.string, expires: end))
    }

    /// The answer with status 200; `nil` without one. No proxy is asked, and no redirect is followed.
    private func ask(_ url: String, method: String? = nil, headers: [String], patience: Duration) -> [UInt8]? {
        guard let call = try? HTTPCall(url, method: method, headers: headers, body: nil) else { return nil }
        try? call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(min(patience, .seconds(1)).milliseconds))
        let text = Mutex<[UInt8]>([])
        let end = try? call.perform(until: .now + patience, every: 100, isStopped: isStopped) { piece, status in
            text.withLock { text in
                text += piece
                return text.count <= Self.limit
            }
        }
        guard case .answered(status: 200)? = end else { return nil }
        return text.withLock { $0.count <= Self.limit ? $0 : nil }
    }
}
