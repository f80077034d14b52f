import SyncModel
package import SyncPlugins

/// Asks a plugin about requests: method `resolver.resolve`.
///
/// A disposition that the protocol does not allow lets its request go on as it is, with a warning; so do fields
/// beside a disposition that does not read them.
package struct PluginResolver: RequestResolver {
    private let client: PluginClient

    /// Most requests in one question. The text of a question is bounded as well.
    private static let most = 500
    private static let mostBytes = 512 << 10

    /// Asks the plugin of this client, which was made for ``PluginPoint/resolver``.
    package init(_ client: PluginClient) { self.client = client }

    package func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition] {
        var answers: [RequestDisposition] = []
        var rest = requests[...]
        while !rest.isEmpty {
            // A character is at most six in JSON, and most are one.
            let batch = takeBatch(&rest, most: Self.most, bytes: Self.mostBytes) {
                200 + 2 * ($0.url.utf8.count + $0.original.utf8.count)
            }
            let result = try client.call("resolver.resolve") { line in
                line.list("requests", batch) { Self.write($0, &$1) }
            }
            guard let dispositions = result["dispositions"]?.array, dispositions.count == batch.count else {
                throw client.failure(
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
            return .cancel(reason: reason(value["reason"]) ?? "plugin \(client.name) gave no reason")
        case "replace": return replacement(value)
        default:
            client.warn("a disposition that is not one of continue, replace, cancel; the request goes out unchanged")
            return .proceed
        }
    }

    private func replacement(_ value: JSONValue) -> RequestDisposition {
        warnOfExtras(value, known: ["disposition", "reason", "request"])
        guard let url = value["request"]?["url"]?.string, WireText.isWebURL(url) else {
            client.warn("a replacement without an absolute http or https URL; the request goes out unchanged")
            return .proceed
        }
        switch WireText.headers(value["request"]?["headers"]) {
        case .success(let headers): return .replace(url: url, headers: headers)
        case .failure(let refusal):
            client.warn("a replacement is not used: \(refusal.reason); the request goes out unchanged")
            return .proceed
        }
    }

    private func warnOfExtras(_ value: JSONValue, known: Set<String>) {
        let extra = Set((value.object ?? [:]).keys).subtracting(known).sorted().prefix(5)
        guard !extra.isEmpty else { return }
        let names = extra.map { escaped(String($0.prefix(40))) }.joined(separator: ", ")
        client.warn("fields that this disposition does not have are ignored: \(names)")
    }
}

/// Takes the first elements off that are neither too many nor together too large; at least one.
func takeBatch<E>(_ rest: inout ArraySlice<E>, most: Int, bytes: Int, size: (E) -> Int) -> ArraySlice<E> {
    var (count, sum) = (0, 0)
    for element in rest.prefix(most) {
        sum += size(element)
        if count > 0, sum > bytes { break }
        count += 1
    }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
}

/// A reason for people from a plugin: one line, not long; `nil` when there is none.
func reason(_ value: JSONValue?) -> String? {
    guard let text = value?.string, !text.isEmpty else { return nil }
    return escaped(String(text.prefix(500)))
}
