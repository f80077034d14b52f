import SyncModel
package import SyncPlugins
import SyncSystem

/// Asks a plugin about requests: method `resolver.resolve`.
///
/// If a disposition is invalid, its request proceeds unchanged, with a warning. Unknown fields of a disposition are
/// ignored, also with a warning.
extension PluginClient: RequestResolver {
    /// Most requests in one call, whose size is also limited.
    private static let most = 500
    private static let mostBytes = 512 << 10

    package func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition] {
        var answers: [RequestDisposition] = []
        var rest = requests[...]
        while !rest.isEmpty {
            // A character takes at most six bytes in JSON, and mostly one.
            let batch = takeBatch(&rest, most: Self.most, bytes: Self.mostBytes) {
                200 + 2 * ($0.url.utf8.count + $0.original.utf8.count)
            }
            let result = try call("resolver.resolve") { line in
                line.list("requests", batch) { Self.write($0, &$1) }
            }
            guard let dispositions = result["dispositions"]?.array, dispositions.count == batch.count else {
                throw failure(
                    .badAnswer, "its answer has no list 'dispositions' with one entry for each request")
            }
            answers += dispositions.map(disposition)
        }
        return answers
    }

    private static func write(_ request: ResolverRequest, _ line: inout JSONLine) {
        line.field("url", request.url)
        line.field("original", request.original)
        if let range = request.range { line.range(range) }
        switch request.reason {
        case .start: line.field("reason", "start")
        case .redirect(let status):
            line.field("reason", "redirect")
            line.field("status", status)
        case .expired(let status):
            line.field("reason", "expired")
            line.field("status", status)
        }
    }

    private func disposition(_ value: JSONValue) -> RequestDisposition {
        switch value["disposition"]?.string {
        case "continue":
            warnOfExtras(value, known: ["disposition"])
            return .proceed
        case "cancel":
            warnOfExtras(value, known: ["disposition", "reason"])
            return .cancel(reason: reason(value["reason"]) ?? "plugin \(name) gave no reason")
        case "replace": return replacement(value)
        default:
            warn("a disposition that is not one of continue, replace, cancel; the request goes out unchanged")
            return .proceed
        }
    }

    private func replacement(_ value: JSONValue) -> RequestDisposition {
        warnOfExtras(value, known: ["disposition", "reason", "request"])
        guard let url = value["request"]?["url"]?.webURL else {
            warn("a replacement without an absolute http or https URL; the request goes out unchanged")
            return .proceed
        }
        do throws(WireFault) {
            return .replace(url: url, headers: try value["request"]?["headers"]?.headers() ?? [])
        } catch {
            warn("a replacement is not used: \(error.reason); the request goes out unchanged")
            return .proceed
        }
    }

    private func warnOfExtras(_ value: JSONValue, known: Set<String>) {
        let extra = Set((value.object ?? [:]).keys).subtracting(known).sorted().prefix(5)
        guard !extra.isEmpty else { return }
        let names = extra.map { escaped(String($0.prefix(40))) }.joined(separator: ", ")
        warn("fields that this disposition does not have are ignored: \(names)")
    }
}

/// Checks a resolver: its answers must be well formed, complete and in order, whoever asks and however often.
///
/// - Parameters:
///   - resolver: It may replace and cancel requests freely.
///   - url: A URL that it handles, if it handles only certain URLs.
package func check(resolver: any RequestResolver, url: String = "https://assets.example.com/files/a.bin")
    -> [CheckResult]
{
    var book: [CheckResult] = []
    let one = ResolverRequest(url: url, original: url)

    book.rule("One request gets one disposition", "Answer with a list as long as the list of requests.") {
        fault(of: Result { () throws(PluginError) in try resolver.resolve([one]) }, count: 1)
    }
    book.rule("No requests get no dispositions", "Answer an empty list with an empty list.") {
        fault(of: Result { () throws(PluginError) in try resolver.resolve([]) }, count: 0)
    }
    book.rule(
        "Each reason gets a disposition: a start, a redirect, an expired link",
        "Do not rely on fields that a reason does not have; answer continue to requests that are not yours."
    ) {
        let requests = [
            one, ResolverRequest(url: url + "?x=1", original: url, reason: .redirect(status: 302)),
            ResolverRequest(url: url + "?x=1", original: url, range: 10..<20, reason: .expired(status: 403)),
        ]
        return fault(of: Result { () throws(PluginError) in try resolver.resolve(requests) }, count: 3)
    }
    book.rule(
        "A thousand requests get a thousand dispositions, in their order",
        "Answer in the order of the requests; do not leave out those that are not yours."
    ) {
        let requests = (0..<1_000).map { ResolverRequest(url: "\(url)/\($0 % 7)", original: "\(url)/\($0 % 7)") }
        let result = Result { () throws(PluginError) in try resolver.resolve(requests) }
        if let fault = fault(of: result, count: 1_000) { return fault }
        guard case .success(let answers) = result else { return nil }
        for index in 7..<1_000 where answers[index].kind != answers[index % 7].kind {
            return "equal requests got '\(answers[index % 7].kind)' and '\(answers[index].kind)'"
        }
        return nil
    }
    book.rule(
        "The same question again gets the same kind of disposition",
        "Questions are repeated after a retry or a crash; do not count them."
    ) {
        let results = (0..<3).map { _ in Result { () throws(PluginError) in try resolver.resolve([one]) } }
        for result in results { if let fault = fault(of: result, count: 1) { return fault } }
        let kinds = Set(results.compactMap { try? $0.get().first?.kind })
        return kinds.count > 1 ? "it answered \(kinds.sorted().joined(separator: " and "))" : nil
    }
    book.rule(
        "It handles odd requests: a long URL, an empty range, escapes, another scheme's case",
        "Parse URLs with a library; answer continue if one cannot be parsed."
    ) {
        let urls = [
            url + "?" + String(repeating: "a", count: 8_000), url + "/%00%ff%2e%2e", "HTTPS://EXAMPLE.COM",
            url + "/%F0%9F%96%BC",
        ]
        let requests = urls.map { ResolverRequest(url: $0, original: $0, range: 5..<5) }
        return fault(of: Result { () throws(PluginError) in try resolver.resolve(requests) }, count: urls.count)
    }
    book.rule("Eight callers at a time all get answers", "Requests arrive before earlier ones are answered.") {
        together(8) { number in
            let mine = ResolverRequest(url: "\(url)/\(number)", original: "\(url)/\(number)")
            return fault(of: Result { () throws(PluginError) in try resolver.resolve([mine]) }, count: 1)
        }
    }
    return book
}

private func fault(of result: Result<[RequestDisposition], PluginError>, count: Int) -> String? {
    switch result {
    case .failure(let error): return "it failed: \(error.message)"
    case .success(let answers):
        guard answers.count == count else { return "\(answers.count) dispositions for \(count) requests" }
        return answers.compactMap(\.fault).first
    }
}

extension RequestDisposition {
    fileprivate var kind: String {
        switch self {
        case .proceed: "continue"
        case .replace: "replace"
        case .cancel: "cancel"
        }
    }

    fileprivate var fault: String? {
        switch self {
        case .proceed: return nil
        case .cancel(let reason, _): return reason.isEmpty ? "a cancel without a reason" : nil
        case .replace(let url, let headers):
            let low = url.lowercased()
            guard low.hasPrefix("https://") || low.hasPrefix("http://") else {
                return "a replacement that is not an http or https URL"
            }
            return lineFault(url, "a replacement") ?? headerFault(headers)
        }
    }
}
