import CCurl
import SyncModel
package import SyncSystem

/// Finds keys where AWS's own programs find them: in variables, in the files of a profile, from a program, for a role,
/// at a container's endpoint and at the instance's. Keys are looked for again before they expire.
package final class AWSCredentials: Sendable {
    /// The variables and files, as they were when keys were last looked for.
    private let lastRead: Mutex<AWSEnvironment>
    var environment: AWSEnvironment { lastRead.withLock(\.self) }
    let isStopped: @Sendable () -> Bool
    /// Prepares requests to other servers: proxies and trust.
    let reach: @Sendable (EasyHandle, Origin) throws(CurlError) -> Void
    private let known = Mutex<(keys: AWSKeys?, until: Int64)?>(nil)

    /// New keys are looked for this many **seconds** before the old ones expire, since requests take time.
    private static let margin: Int64 = 300
    /// **Seconds** for which the lack of keys is remembered.
    private static let pause: Int64 = 60
    static let limit = 64 << 10
    /// How long a profile's program may take: it may wait for a person to confirm.
    private static let programPatience = Duration.seconds(60)

    package init(
        _ environment: AWSEnvironment, isStopped: @escaping @Sendable () -> Bool,
        reach: @escaping @Sendable (EasyHandle, Origin) throws(CurlError) -> Void = { _, _ throws(CurlError) in }
    ) {
        lastRead = Mutex(environment)
        (self.isStopped, self.reach) = (isStopped, reach)
    }

    /// The keys that are valid now; `nil` if there are none. Blocks.
    ///
    /// - Parameter now: **Seconds** since 1970.
    package func keys(now: Int64) throws(S3Fault) -> AWSKeys? {
        try known.withLock { known throws(S3Fault) in
            if let known, now < known.until { return known.keys }
            let keys = try find(now)
            known = (
                keys, keys == nil ? now + Self.pause : keys?.expires.map { max(now + 1, $0 - Self.margin) } ?? .max
            )
            return keys
        }
    }

    /// Forgets the keys, since they were refused.
    package func forget() { known.withLock { $0 = nil } }

    private func find(_ now: Int64) throws(S3Fault) -> AWSKeys? {
        _ = lastRead.withLock { try? $0.readFiles() }
        if let keys = try ofVariables() { return keys }
        let profile = environment.profileName
        if environment.setting("role_arn", of: profile) != nil { return try ofRole(profile, now, []) }
        if let file = environment.variable("AWS_WEB_IDENTITY_TOKEN_FILE") {
            guard let role = environment.variable("AWS_ROLE_ARN") else {
                throw S3Fault(.configuration, "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not")
            }
            return try assume(role, tokenIn: file, named: environment.variable("AWS_ROLE_SESSION_NAME"), now)
        }
        if let keys = try ofProfile(profile) { return keys }
        if let keys = try ofContainer() { return keys }
        return try ofInstance()
    }

    private func ofVariables() throws(S3Fault) -> AWSKeys? {
        guard let access = environment.variable("AWS_ACCESS_KEY_ID") else { return nil }
        guard let secret = environment.variable("AWS_SECRET_ACCESS_KEY") else {
            throw S3Fault(.configuration, "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")
        }
        return try checked(AWSKeys(access: access, secret: secret, session: environment.variable("AWS_SESSION_TOKEN")))
    }

    /// The keys of a profile, without its role: as they are written, or from its program.
    private func ofProfile(_ profile: String) throws(S3Fault) -> AWSKeys? {
        func setting(_ name: String) -> String? { environment.setting(name, of: profile) }
        if let access = setting("aws_access_key_id") {
            guard let secret = setting("aws_secret_access_key") else {
                throw S3Fault(.configuration, "the profile '\(escaped(profile))' has no aws_secret_access_key")
            }
            return try checked(AWSKeys(access: access, secret: secret, session: setting("aws_session_token")))
        }
        if let command = setting("credential_process") { return try ofProgram(command, profile) }
        for name in ["sso_session", "sso_start_url"] where setting(name) != nil {
            throw S3Fault(
                .configuration,
                "the profile '\(escaped(profile))' gets its keys through \(name), which syncagent does not support: log in with "
                    + "'aws sso login', and put the keys into the environment with 'aws configure export-credentials --format env'"
            )
        }
        return nil
    }

    /// The keys of a profile's role, for which other keys, or a token, are exchanged.
    private func ofRole(_ profile: String, _ now: Int64, _ seen: Set<String>) throws(S3Fault) -> AWSKeys? {
        func setting(_ name: String) -> String? { environment.setting(name, of: profile) }
        func fault(_ reason: String) -> S3Fault {
            S3Fault(.configuration, "the profile '\(escaped(profile))' \(reason)")
        }
        guard let role = setting("role_arn") else { return try ofProfile(profile) }
        if let file = setting("web_identity_token_file") {
            return try assume(role, tokenIn: file, named: setting("role_session_name"), now)
        }
        let keys: AWSKeys?
        if let source = setting("source_profile") {
            guard !seen.contains(source), seen.count < 8 else {
                throw fault("leads back to itself with source_profile")
            }
            guard environment.hasProfile(source) else { throw fault("has a source_profile that no file of AWS has") }
            // A profile that names itself has keys of its own.
            keys = source == profile ? try ofProfile(source) : try ofRole(source, now, seen.union([profile]))
        } else {
            switch setting("credential_source") {
            case "Environment": keys = try ofVariables()
            case "EcsContainer": keys = try ofContainer()
            case "Ec2InstanceMetadata": keys = try ofInstance()
            default:
                throw fault("has a role_arn, and neither source_profile, credential_source nor web_identity_token_file")
            }
        }
        guard let keys else { throw fault("has a role_arn, and there are no keys with which to ask for it") }
        guard setting("mfa_serial") == nil else {
            throw fault(
                "asks for a code with mfa_serial, which nobody can type here: put the keys into the environment with "
                    + "'aws configure export-credentials --format env'")
        }
        let proof = [("Action", "AssumeRole")] + (setting("external_id").map { [("ExternalId", $0)] } ?? [])
        return try assume(role, proof, by: keys, named: setting("role_session_name"), now)
    }

    func checked(_ keys: AWSKeys) throws(S3Fault) -> AWSKeys {
        guard [keys.access, keys.secret, keys.session ?? ""].allSatisfy(\.isOneLine) else {
            throw S3Fault(.configuration, "AWS's keys have a control character in them")
        }
        return keys
    }

    // MARK: Programs

    /// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>
    private func ofProgram(_ command: String, _ profile: String) throws(S3Fault) -> AWSKeys {
        let what = "the credential_process of the profile '\(escaped(profile))'"
        guard let words = Self.words(command), let name = words.first, !name.isEmpty else {
            throw S3Fault(.configuration, "\(what) is not a command line")
        }
        let path = environment.variable("PATH") ?? "/usr/local/bin:/usr/bin:/bin"
        let places = name.contains("/") ? [name] : path.split(separator: ":").map { "\($0)/\(name)" }
        guard let program = places.first(where: { $0.hasPrefix("/") && isPermitted(.execute, $0) }) else {
            throw S3Fault(.configuration, "\(what): there is no program \(escaped(name))")
        }
        let start = ProgramStart(
            [program] + words.dropFirst(), variables: environment.variables.map { "\($0.key)=\($0.value)" })
        let (end, output, errors) = start.collect(
            deadline: Self.programPatience, most: Self.limit, isStopped: isStopped)
        guard end == .exited(0) else {
            let line =
                errors.split(whereSeparator: \.isNewline).last.map { ": \(escaped(String($0.prefix(200))))" } ?? ""
            throw S3Fault(end == .stopped ? .unavailable : .refused, "\(what) gives no keys; \(end)\(line)")
        }
        return try keys(output, from: what)
    }

    /// The words of a command line, between blanks, with quotes as in a shell; `nil` where a quote is not closed.
    static func words(_ text: String) -> [String]? {
        var (words, word, quote, isEscaped) = ([String](), String?.none, Character?.none, false)
        for letter in text {
            switch letter {
            case _ where isEscaped:
                // Between double quotes a backslash stands for itself before most letters.
                if quote == "\"", letter != "\"", letter != "\\" { word = (word ?? "") + "\\" }
                word = (word ?? "") + String(letter)
                isEscaped = false
            case "\\" where quote != "'": (isEscaped, word) = (true, word ?? "")
            case quote: quote = nil
            case "'" where quote == nil, "\"" where quote == nil: (quote, word) = (letter, word ?? "")
            case " " where quote == nil, "\t" where quote == nil:
                if let whole = word { words.append(whole) }
                word = nil
            default: word = (word ?? "") + String(letter)
            }
        }
        guard quote == nil, !isEscaped else { return nil }
        return words + [word].compactMap(\.self)
    }

    // MARK: Endpoints

    /// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>
    private func ofContainer() throws(S3Fault) -> AWSKeys? {
        let text: String
        if let path = environment.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            text = "http://169.254.170.2" + (path.hasPrefix("/") ? path : "/\(path)")
        } else {
            guard let url = environment.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") else { return nil }
            text = url
        }
        let url = try rethrowing(CurlURL(text)) { (error: URLError) in
            S3Fault(.configuration, "AWS_CONTAINER_CREDENTIALS_FULL_URI is \(error)")
        }
        // The token is only for an endpoint of this machine or site.
        let isNear =
            ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost", "[::1]"].contains(url.origin.host)
            || addressBytes(url.origin.host).map { $0.count == 4 && $0[0] == 127 } == true
        guard url.origin.scheme == "https" || isNear else {
            throw S3Fault(
                .configuration,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI names \(url.origin), which others on the way could read")
        }
        var headers: [String] = []
        var token = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if let path = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") { token = try read(path) }
        if let token = token.map({ String($0[...].trimmed) }) {
            guard token.isOneLine else {
                throw S3Fault(.configuration, "AWS's token for containers has a line end in it")
            }
            headers.append("Authorization: \(token)")
        }
        guard let answer = ask(url.text, headers: headers, patience: .seconds(5)) else {
            throw S3Fault(.unavailable, "the container's endpoint for AWS's keys, \(url.origin), does not answer")
        }
        return try keys(answer, from: "\(url.origin)")
    }

    /// A file that another program has written for this one.
    func read(_ path: String) throws(S3Fault) -> String {
        do throws(FileError) {
            return String(decoding: try readFile(path, trust: .input, limit: Self.limit), as: UTF8.self)
        } catch { throw S3Fault(.configuration, "\(error)") }
    }

    /// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>
    private func ofInstance() throws(S3Fault) -> AWSKeys? {
        guard environment.variable("AWS_EC2_METADATA_DISABLED")?.lowercased() != "true" else { return nil }
        var place = environment.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254"
        while place.hasSuffix("/") { place.removeLast() }
        let life = ["X-aws-ec2-metadata-token-ttl-seconds: 21600"]
        // Outside of AWS nothing answers there: then there are no keys.
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
            throw S3Fault(.unavailable, "\(place) returns no AWS keys")
        }
        let end = value?["Expiration"]?.string.flatMap { parseTimestamp($0) }.map { $0 / 1_000 }
        let session = value?["Token"]?.string ?? value?["SessionToken"]?.string
        return try checked(AWSKeys(access: access, secret: secret, session: session, expires: end))
    }

    /// The answer with status 200; `nil` without one. No proxy is used, and no redirect is followed.
    private func ask(_ url: String, method: String? = nil, headers: [String], patience: Duration) -> [UInt8]? {
        guard let call = try? HTTPCall(url, method: method, headers: headers, body: nil) else { return nil }
        try? call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(min(patience, .seconds(1)).milliseconds))
        guard let (status, text) = answer(to: call, patience: patience), status == 200 else { return nil }
        return text
    }

    /// The answer to a request; `nil` if there is none, or it is too long.
    func answer(to call: HTTPCall, patience: Duration) -> (status: Int, text: [UInt8])? {
        var text: [UInt8] = []
        let end = try? call.perform(until: .now + patience, every: 100, isStopped: isStopped) { piece, _ in
            text += piece
            return text.count <= Self.limit
        }
        guard case .answered(let status)? = end, text.count <= Self.limit else { return nil }
        return (status, text)
    }
}
