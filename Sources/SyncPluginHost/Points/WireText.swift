import SyncModel
import SyncPlugins

/// What a plugin may put into a request. Everything else it says is refused here, before anything uses it.
enum WireText {
    /// Whether it is an absolute http or https URL with a host, in printable ASCII.
    static func isWebURL(_ text: String) -> Bool {
        guard text.utf8.count <= 32 << 10, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return false }
        for scheme in ["http://", "https://"] where text.lowercased().hasPrefix(scheme) {
            return text.dropFirst(scheme.count).first.map { !"/?#".contains($0) } ?? false
        }
        return false
    }

    /// Headers from an object of texts; `nil` with a reason when one may not be set.
    static func headers(_ value: JSONValue?) -> Result<[HeaderField], Refusal> {
        guard let value, !value.isNull else { return .success([]) }
        guard let members = value.object, members.count <= 64 else {
            return .failure(Refusal("headers is not an object"))
        }
        var fields: [HeaderField] = []
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            guard isToken(name) else { return .failure(Refusal("a header's name is not a token (RFC 9110 5.6.2)")) }
            guard !framing.contains(name.lowercased()) else {
                return .failure(Refusal("the header \(name) may not be set by a plugin"))
            }
            guard let text = value.string, text.isOneLine, text.utf8.count <= 16 << 10 else {
                return .failure(Refusal("the header \(name) is not a single line of text"))
            }
            fields.append(HeaderField(name, text))
        }
        return .success(fields)
    }

    struct Refusal: Error {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    /// What a message is framed by, and what the transport decides about.
    private static let framing: Set<String> = [
        "connection", "content-length", "expect", "host", "if-none-match", "if-modified-since", "if-range",
        "keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer", "transfer-encoding",
        "upgrade", "accept-encoding",
    ]

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 200
            && text.utf8.allSatisfy { isAlphanumeric($0) || "!#$%&'*+-.^_`|~".utf8.contains($0) }
    }
}
