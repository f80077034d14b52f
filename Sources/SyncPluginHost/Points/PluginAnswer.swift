import SyncModel
import SyncPlugins

// The values that a plugin may put into a request. Everything else is rejected here, before anything uses it.
extension JSONValue {
    /// An absolute http or https URL with a host, in printable ASCII; `nil` for anything else.
    var webURL: String? {
        guard let text = string, text.utf8.count <= 32 << 10, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        for scheme in ["http://", "https://"] where text.lowercased().hasPrefix(scheme) {
            return text.dropFirst(scheme.count).first.map { !"/?#".contains($0) } ?? false ? text : nil
        }
        return nil
    }

    /// Headers from an object of texts.
    ///
    /// - Throws: ``WireFault`` for a header that may not be set.
    func headers() throws(WireFault) -> [HeaderField] {
        if isNull { return [] }
        guard let members = object, members.count <= 64 else { throw WireFault("headers is not an object") }
        var fields: [HeaderField] = []
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            guard name.isToken, name.utf8.count <= 200 else {
                throw WireFault("a header's name is not a token (RFC 9110 5.6.2)")
            }
            guard !Self.framing.contains(name.lowercased()) else {
                throw WireFault("the header \(name) may not be set by a plugin")
            }
            guard let text = value.string, text.isOneLine, text.utf8.count <= 16 << 10 else {
                throw WireFault("the header \(name) is not a single line of text")
            }
            fields.append(HeaderField(name, text))
        }
        return fields
    }

    /// Headers that frame a message or belong to the transport.
    private static let framing: Set<String> = [
        "connection", "content-length", "expect", "host", "if-none-match", "if-modified-since", "if-range",
        "keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer", "transfer-encoding",
        "upgrade", "accept-encoding",
    ]
}

/// Removes the first elements, within a count and a total size; at least one.
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

/// A plugin's reason for people: one line of limited length; `nil` if there is none.
func reason(_ value: JSONValue?) -> String? {
    guard let text = value?.string, !text.isEmpty else { return nil }
    return escaped(String(text.prefix(500)))
}
