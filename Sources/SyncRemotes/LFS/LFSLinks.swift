import SyncContent
import SyncManifest
import SyncModel
package import SyncPlugins
import SyncSystem
package import SyncTransfer

/// Asks an LFS server for the links to its objects, many at a time, and again when a link has expired: the batch API.
/// https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md
///
/// Resolves URLs of the form `ENDPOINT/objects/SHA256?syncagent-lfs=SIZE`, which no server knows.
package final class LFSLinks: RequestResolver {
    private let environment: [String: String]
    private let configuration: TransportConfiguration
    private let now: @Sendable () -> Int64
    private let isStopped: @Sendable () -> Bool
    private let state = Mutex(State())

    private struct State: Sendable {
        /// By the URL that was resolved; a link that expires has the time, **seconds** since 1970.
        var links: [String: (disposition: RequestDisposition, expires: Int64?)] = [:]
        /// The credentials that git's helpers gave for an endpoint, as values of `Authorization`.
        var authorizations: [String: String] = [:]
        /// Questions in a row that an endpoint did not answer in ``LFSLinks/patience``, and what it said or did last.
        var silences: [String: (count: Int, failure: RequestDisposition)] = [:]
    }

    /// The beginning of the query in these URLs.
    package static let mark = "syncagent-lfs="

    /// Most objects in one request, as in git-lfs.
    private static let batch = 100
    /// **Bytes** of the longest answer.
    private static let longest = 4 << 20
    /// For objects that the server may give in a moment.
    private static let attempts = 4
    /// Longest time for one answer, and how long to ask for one.
    private static let patience = Duration.seconds(60)
    /// After so many questions in a row without an answer a server is not asked any more: a set can have ten thousand.
    private static let mostSilences = 3
    private static let mostLinks = 20_000

    /// - Parameters:
    ///   - configuration: For its proxies and its trust.
    ///   - environment: This process's variables, for git's credential helpers.
    ///   - now: **Milliseconds** since 1970.
    ///   - isStopped: Called several times a second.
    package init(
        _ configuration: TransportConfiguration, environment: [String: String],
        now: @escaping @Sendable () -> Int64, isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.configuration, self.environment) = (configuration, environment)
        (self.now, self.isStopped) = (now, isStopped)
    }

    /// The URL to be resolved for a file in LFS.
    static func url(endpoint: String, sha256: String, size: UInt64) -> String {
        "\(endpoint)/objects/\(sha256)?\(mark)\(size)"
    }

    private struct Question {
        let place: Int
        let url: String
        let sha256: String
        let size: UInt64
    }

    package func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition] {
        var answers = requests.map { _ in RequestDisposition.proceed }
        var open: [String: [Question]] = [:]
        let now = self.now() / 1_000
        for (place, request) in requests.enumerated() {
            guard case .start = request.reason else {
                // A link that was refused is of no further use. The targets of its redirects are not resolved here.
                if case .expired = request.reason, let (endpoint, question) = Self.question(place, request.original) {
                    state.withLock { $0.links[question.url] = nil }
                    open[endpoint, default: []].append(question)
                }
                continue
            }
            guard let (endpoint, question) = Self.question(place, request.url) else { continue }
            let known = state.withLock { $0.links[question.url] }
            if let known, known.expires.map({ $0 > now + 10 }) ?? true {
                answers[place] = known.disposition
            } else {
                open[endpoint, default: []].append(question)
            }
        }
        for (endpoint, questions) in open {
            var rest = questions[...]
            while !rest.isEmpty {
                let part = rest.prefix(Self.batch)
                rest = rest.dropFirst(part.count)
                let links = ask(endpoint, Array(part))
                for question in part { answers[question.place] = links[question.sha256] ?? Self.unknown(question) }
            }
        }
        return answers
    }

    private static func unknown(_ question: Question) -> RequestDisposition {
        .cancel(reason: "the LFS server says nothing about \(question.sha256)", cause: .serverTrouble)
    }

    private static func question(_ place: Int, _ url: String) -> (endpoint: String, Question)? {
        guard let mark = url.ranges(of: "?" + mark).last, let size = UInt64(url[mark.upperBound...]),
            let slash = url[..<mark.lowerBound].ranges(of: "/objects/").last
        else { return nil }
        let digest = String(url[slash.upperBound..<mark.lowerBound])
        return (String(url[..<slash.lowerBound]), Question(place: place, url: url, sha256: digest, size: size))
    }

    // MARK: The server

    /// Asks one server for links to objects.
    private func ask(_ endpoint: String, _ questions: [Question]) -> [String: RequestDisposition] {
        let silent = state.withLock { $0.silences[endpoint] }
        var failure = silent?.failure ?? .cancel(reason: "no answer", cause: .unreachable)
        var answers: [String: RequestDisposition]?
        let end = ContinuousClock.now + min(Self.patience, configuration.patience?.silence ?? Self.patience)
        var (wait, attempt) = (Duration.milliseconds(500), 0)
        while (silent?.count ?? 0) < Self.mostSilences {
            attempt += 1
            let seconds: Int64?
            switch call(endpoint, questions) {
            case .answer(let links, let isFinal):
                answers = links
                seconds = isFinal || attempt >= Self.attempts ? nil : 0
            case .trouble(let reason, let cause, let after):
                failure = .cancel(reason: reason, cause: cause)
                seconds = after
            }
            guard let seconds, !isStopped(), ContinuousClock.now < end else { break }
            pause(max(wait, configuration.retry.wait(retryAfter: seconds)))
            wait *= 2
        }
        if let answers {
            state.withLock { $0.silences[endpoint] = nil }
            return answers
        }
        if ContinuousClock.now >= end {
            state.withLock { $0.silences[endpoint] = (($0.silences[endpoint]?.count ?? 0) + 1, failure) }
        }
        return Dictionary(questions.map { ($0.sha256, failure) }) { first, _ in first }
    }

    private func pause(_ time: Duration) {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end, !isStopped() { pauseThread(milliseconds: 50) }
    }

    private enum Outcome {
        /// - Parameter isFinal: Whether it will not help to ask again for those that are not given.
        case answer([String: RequestDisposition], isFinal: Bool)
        /// - Parameter after: **Seconds** after which to ask again; `nil` where that will not help.
        case trouble(String, FailureCause, after: Int64?)

        static func refused(_ reason: String, _ cause: FailureCause) -> Outcome { .trouble(reason, cause, after: nil) }
    }

    private func call(_ endpoint: String, _ questions: [Question]) -> Outcome {
        let body = JSONLine.object { line in
            line.field("operation", "download")
            line.array("transfers") { $0.value("basic") }
            line.array("objects") { line in
                for question in questions {
                    line.object {
                        $0.field("oid", question.sha256)
                        $0.field("size", question.size)
                    }
                }
            }
            line.field("hash_algo", "sha256")
        }
        let url = endpoint + "/objects/batch"
        var authorization = state.withLock { $0.authorizations[endpoint] }
        for _ in 0..<2 {
            let answer: (status: Int, body: [UInt8], retryAfter: Int64?)
            switch post(url, body.bytes, authorization) {
            case .failure(let trouble):
                return .trouble("\(redacted(url: url)): \(trouble.detail)", .unreachable, after: 0)
            case .success(let got): answer = got
            }
            let said = "\(redacted(url: url)): \(answer.status)"
            switch answer.status {
            case 200: return read(answer.body, questions, endpoint)
            case 403 where authorization == nil: return .refused(said + Self.message(answer.body), .access)
            case 401, 403:
                guard authorization == nil, let found = credentials(endpoint) else {
                    let what = authorization == nil ? "none" : "no right ones"
                    return .refused("\(said), and git's credential helpers have \(what) for it", .access)
                }
                authorization = found
            case 300...399: return .refused("\(said): the LFS server has moved", .notThere)
            case 404, 410: return .refused("\(said): there is no LFS server", .notThere)
            case let status where Self.isPassing(status):
                return .trouble(said, .serverTrouble, after: answer.retryAfter ?? 0)
            default: return .refused(said + Self.message(answer.body), .other)
            }
        }
        return .refused("\(redacted(url: url)): it refuses what git's credential helpers have for it", .access)
    }

    /// Whether a server may answer otherwise in a moment.
    private static func isPassing(_ status: Int) -> Bool {
        [408, 425, 429].contains(status) || (500...599).contains(status)
    }

    private static func message(_ body: [UInt8]) -> String {
        let text = JSONValue(text: String(decoding: body, as: UTF8.self))?["message"]?.string
        return text.map { ": " + escaped(String($0.prefix(200))) } ?? ""
    }

    private func post(_ url: String, _ body: [UInt8], _ authorization: String?) -> Result<
        (status: Int, body: [UInt8], retryAfter: Int64?), CurlError
    > {
        do throws(CurlError) {
            guard let origin = (try? CurlURL(url))?.origin else { throw CurlError(detail: "not the URL of a server") }
            let type = "application/vnd.git-lfs+json"
            let call = try HTTPCall(
                url,
                headers: ["Accept: \(type)", "Content-Type: \(type)"]
                    + (authorization.map { ["Authorization: \($0)"] } ?? []),
                body: body)
            try configuration.prepare(call, for: origin)
            var kept: [UInt8] = []
            let end = try call.perform(until: ContinuousClock.now + Self.patience, every: 200, isStopped: isStopped) {
                bytes, _ in
                kept += bytes.prefix(max(0, Self.longest + 1 - kept.count))
                return kept.count <= Self.longest
            }
            switch end {
            case .answered(let status):
                guard kept.count <= Self.longest else { throw CurlError(detail: "an answer of more than 4 MiB") }
                let now = self.now() / 1_000
                return .success((status, kept, call.headers.retryAfter.flatMap { retryAfter($0, now: now) }))
            case .failed(let code): throw CurlError(detail: call.easy.message(for: code))
            case .timedOut: throw CurlError(detail: "no answer within 60 s")
            case .stopped: throw CurlError(detail: "stopped")
            }
        } catch { return .failure(error) }
    }

    /// What the server says of each object, kept for whoever asks again.
    private func read(_ body: [UInt8], _ questions: [Question], _ endpoint: String) -> Outcome {
        guard let answer = JSONValue(text: String(decoding: body, as: UTF8.self)),
            let objects = answer["objects"]?.array
        else { return .refused("\(redacted(url: endpoint)): its answer is not a list of objects", .other) }
        if let transfer = answer["transfer"]?.string, transfer != "basic" {
            return .refused(
                "\(redacted(url: endpoint)): it wants the transfer \(quoted(transfer)), which syncagent does not know",
                .other)
        }
        let now = self.now() / 1_000
        var found: [String: RequestDisposition] = [:]
        var links: [String: (disposition: RequestDisposition, expires: Int64?)] = [:]
        var isFinal = true
        let byName = Dictionary(questions.map { ($0.sha256, $0) }) { first, _ in first }
        for object in objects {
            guard let name = object["oid"]?.string?.lowercased(), let question = byName[name] else { continue }
            if let error = object["error"] {
                let code = Int(clamping: error["code"]?.integer ?? 0)
                let text = escaped(String((error["message"]?.string ?? "").prefix(200)))
                let reason = "the LFS server does not give it: \(code) \(text)"
                if Self.isPassing(code) { isFinal = false }
                let cause: FailureCause =
                    switch code {
                    case 401, 403: .access
                    case 404, 410: .notThere
                    case let code where Self.isPassing(code): .serverTrouble
                    default: .other
                    }
                found[name] = .cancel(reason: reason, cause: cause)
                continue
            }
            guard let action = object["actions"]?["download"], let href = action["href"]?.string else {
                found[name] = .cancel(reason: "the LFS server does not say where it is", cause: .serverTrouble)
                continue
            }
            let headers = (action["header"]?.object ?? [:]).compactMap { key, value -> HeaderField? in
                guard let text = value.string, !Self.own.contains(key.lowercased()) else { return nil }
                return HeaderField(key, text)
            }
            let disposition = RequestDisposition.replace(
                url: href, headers: headers.sorted { $0.name < $1.name })
            found[name] = disposition
            let inSeconds = action["expires_in"]?.integer.map { now &+ $0 }
            let expires = inSeconds ?? action["expires_at"]?.string.flatMap({ parseTimestamp($0) }).map { $0 / 1_000 }
            links[question.url] = (disposition, expires)
        }
        state.withLock { state in
            if state.links.count + links.count > Self.mostLinks { state.links = [:] }
            state.links.merge(links) { $1 }
        }
        return .answer(found, isFinal: isFinal)
    }

    /// Headers that belong to the request itself.
    private static let own: Set = [
        "host", "range", "if-range", "content-length", "content-type", "transfer-encoding", "accept-encoding",
        "connection",
        "user-agent",
    ]

    // MARK: Credentials

    /// The credentials that git's helpers have for a server, as the value of `Authorization`.
    private func credentials(_ endpoint: String) -> String? {
        guard let url = try? CurlURL(endpoint), let git = try? Git(environment, isStopped: isStopped) else {
            return nil
        }
        let authority = endpoint.drop { $0 != ":" }.dropFirst(3).prefix { $0 != "/" }
        let input = "protocol=\(url.origin.scheme)\nhost=\(authority)\npath=\(url.path.drop { $0 == "/" })\n\n"
        guard let text = try? git.run(["credential", "fill"], reading: Array(input.utf8)) else { return nil }
        var fields: [Substring: Substring] = [:]
        for line in String(decoding: text, as: UTF8.self).split(separator: "\n") {
            guard let sign = line.firstIndex(of: "=") else { continue }
            fields[line[..<sign]] = line[line.index(after: sign)...]
        }
        guard let user = fields["username"], let password = fields["password"] else { return nil }
        let value = "Basic " + base64(Array("\(user):\(password)".utf8))
        state.withLock { $0.authorizations[endpoint] = value }
        return value
    }
}
