import SyncModel
import SyncPlugins

/// What a plugin says about a transfer, read with suspicion.
enum TransferAnswer {
    /// `transport.head`; `nil` when it is none.
    static func head(_ value: JSONValue) -> ResponseHead? {
        guard let status = value["status"]?.integer, [200, 206, 304].contains(status) else { return nil }
        let offset = value["offset"]?.unsigned
        guard status == 206 ? offset != nil : offset ?? 0 == 0 else { return nil }
        if let size = value["object_size"], !size.isNull, size.unsigned == nil { return nil }
        return ResponseHead(
            status: Int(status), bodyOffset: offset ?? 0, objectSize: value["object_size"]?.unsigned,
            validator: Validator(etag: line(value["etag"]), lastModified: line(value["last_modified"])),
            contentType: line(value["content_type"])?.lowercased())
    }

    /// A text that goes into a header again.
    private static func line(_ value: JSONValue?) -> String? {
        guard let text = value?.string, !text.isEmpty, text.utf8.count <= 1_000, text.isOneLine else { return nil }
        return text
    }

    /// The kind of failure that an error's `data` names; `badAnswer` for none that is known.
    static func code(_ error: RPCError) -> TransferError.Code {
        let name = error.data["code"]?.string ?? ""
        if name.hasPrefix("status-"), let status = Int(name.dropFirst(7)), (100...999).contains(status) {
            return .badStatus(status)
        }
        return named[name] ?? .badAnswer
    }

    private static let named: [String: TransferError.Code] = Dictionary(
        uniqueKeysWithValues: [
            .unreachable, .timedOut, .tls, .redirectRefused, .refusedByPolicy, .badAnswer, .authentication,
        ].map { (code: TransferError.Code) in (code.name, code) })

    /// Requests that were sent, 0...1,000.
    static func requests(_ value: JSONValue) -> Int? { value["requests"]?.integer.map { Int(min(max($0, 0), 1_000)) } }

    /// Where the plugin was led; `nil` when it does not say.
    static func url(_ value: JSONValue) -> String? {
        guard let text = value["url"]?.string, text.utf8.count <= 32 << 10, text.isOneLine else { return nil }
        return text
    }

    /// Whether the same source may do better later.
    static func isTransient(_ code: TransferError.Code) -> Bool {
        if code == .unreachable || code == .timedOut { return true }
        guard let status = code.status else { return false }
        return status == 408 || status == 425 || status == 429 || (500...599).contains(status)
    }
}
