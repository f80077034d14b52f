import SyncModel
import SyncPlugins

// A plugin's messages about a transfer, parsed defensively.

extension ResponseHead {
    /// Parses `transport.head`; `nil` if it is invalid.
    init?(_ value: JSONValue) {
        guard let status = value["status"]?.integer, [200, 206, 304].contains(status) else { return nil }
        let offset = value["offset"]?.unsigned
        guard status == 206 ? offset != nil : offset ?? 0 == 0 else { return nil }
        if let size = value["object_size"], !size.isNull, size.unsigned == nil { return nil }
        // These texts go into a header again.
        func line(_ key: String) -> String? {
            guard let text = value[key]?.string, !text.isEmpty, text.utf8.count <= 1_000, text.isOneLine else {
                return nil
            }
            return text
        }
        self.init(
            status: Int(status), bodyOffset: offset ?? 0, objectSize: value["object_size"]?.unsigned,
            validator: Validator(etag: line("etag"), lastModified: line("last_modified")),
            contentType: line("content_type")?.lowercased())
    }
}

extension JSONValue {
    /// Number of requests sent, 0...1,000.
    var sentRequests: Int? { self["requests"]?.integer.map { Int(min(max($0, 0), 1_000)) } }

    /// The final URL after redirects; `nil` if it is not reported.
    var finalURL: String? {
        guard let text = self["url"]?.string, text.utf8.count <= 32 << 10, text.isOneLine else { return nil }
        return text
    }
}

extension TransferError.Code {
    /// The kind of failure in an error's `data`; `badAnswer` if it is missing or unknown.
    init(_ error: RPCError) {
        let name = error.data["code"]?.string ?? ""
        if name.hasPrefix("status-"), let status = Int(name.dropFirst(7)), (100...999).contains(status) {
            self = .badStatus(status)
        } else {
            let known: [TransferError.Code] = [
                .unreachable, .timedOut, .tls, .redirectRefused, .refusedByPolicy, .authentication,
            ]
            self = known.first { $0.name == name } ?? .badAnswer
        }
    }

    /// Whether the same source may succeed later.
    var isTransient: Bool {
        if self == .unreachable || self == .timedOut { return true }
        guard let status else { return false }
        return status == 408 || status == 425 || status == 429 || (500...599).contains(status)
    }
}
