import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// Keys for a role, from AWS's Security Token Service or a server with its protocol.
///
/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html>
extension AWSCredentials {
    private static let attempts = 4
    private static let patience = Duration.seconds(20)

    /// Requests keys for a role with a token, in a file that is rewritten from time to time, as by Kubernetes and
    /// GitHub.
    func assume(_ role: String, tokenIn file: String, named session: String?, _ now: Int64) throws(S3Fault) -> AWSKeys {
        let token = String(try read(file)[...].trimmed)
        let proof = [("Action", "AssumeRoleWithWebIdentity"), ("WebIdentityToken", token)]
        return try assume(role, proof, by: nil, named: session, now)
    }

    /// Requests keys for a role.
    ///
    /// - Parameters:
    ///   - proof: The fields of the request that say why it may be granted.
    ///   - signer: The keys that sign it, if any.
    ///   - session: The session's name, which the bucket's owner sees in logs.
    ///   - now: **Seconds** since 1970.
    func assume(_ role: String, _ proof: [(String, String)], by signer: AWSKeys?, named session: String?, _ now: Int64)
        throws(S3Fault) -> AWSKeys
    {
        let session = session ?? "syncagent-\(now)"
        let fields = [("Version", "2011-06-15"), ("RoleArn", role), ("RoleSessionName", session)] + proof
        let body = fields.map { "\($0.0)=\(percentEncoded(bytes: $0.1.utf8, keepsSlash: false))" }.joined(
            separator: "&")
        let place = environment.tokenService
        let shown = redacted(url: place.url)
        var trouble = "it does not answer"
        for attempt in 0..<Self.attempts {
            if attempt > 0 { pauseThread(milliseconds: 250 << attempt) }
            if isStopped() { break }
            guard let (status, text) = try send(Array(body.utf8), to: place, signer, now) else { continue }
            let said = elementTexts(text)
            if status == 200 {
                guard let access = said["AccessKeyId"], let secret = said["SecretAccessKey"] else {
                    throw S3Fault(.unavailable, "\(shown) gives no keys for the role \(escaped(role))")
                }
                let end = said["Expiration"].flatMap { parseTimestamp($0) }.map { $0 / 1_000 }
                return try checked(AWSKeys(access: access, secret: secret, session: said["SessionToken"], expires: end))
            }
            trouble = [said["Code"], said["Message"]].compactMap(\.self).joined(separator: ": ")
            trouble = "status \(status)" + (trouble.isEmpty ? "" : ", \(escaped(String(trouble.prefix(300))))")
            guard status >= 500 || status == 429 || said["Code"] == "Throttling" else {
                throw S3Fault(.refused, "\(shown) refuses the role \(escaped(role)): \(trouble)")
            }
        }
        throw S3Fault(.unavailable, "\(shown) gives no keys for the role \(escaped(role)): \(trouble)")
    }

    /// - Returns: `nil` without an answer.
    private func send(_ body: [UInt8], to place: (url: String, region: String), _ signer: AWSKeys?, _ now: Int64)
        throws(S3Fault) -> (status: Int, text: [UInt8])?
    {
        let url = try rethrowing(CurlURL(place.url)) { (error: URLError) in
            S3Fault(.configuration, "the endpoint '\(redacted(url: place.url))': \(error)")
        }
        let origin = url.origin
        var signature = AWSSignature(origin, path: url.path)
        (signature.method, signature.service) = ("POST", "sts")
        signature.headers = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")]
        do {
            signature.payload = try sha256(body).hex
            let headers = try signature.signed(by: signer, region: place.region, now: now)
            let call = try HTTPCall(origin.description + signature.path, method: "POST", headers: headers, body: body)
            try reach(call.easy, origin)
            return answer(to: call, patience: Self.patience)
        } catch { throw S3Fault(.unavailable, "\(redacted(url: place.url)): \(error)") }
    }
}

/// The text of each element of a short answer in XML, by its name, the first of several; empty for other bytes.
package func elementTexts(_ body: [UInt8]) -> [String: String] {
    guard !body.isEmpty, body.count <= 64 << 10, var text = try? XMLText(body) else { return [:] }
    var texts: [String: String] = [:]
    var current = ""
    while let piece = (try? text.next()) ?? nil {
        switch piece {
        case .start: current = ""
        case .text(let bytes): current += String(decoding: bytes, as: UTF8.self)
        case .end(let name):
            if texts[name] == nil { texts[name] = current }
            current = ""
        }
    }
    return texts
}
