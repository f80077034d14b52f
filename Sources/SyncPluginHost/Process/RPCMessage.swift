package import SyncModel

/// A message from a plugin. JSON-RPC 2.0, https://www.jsonrpc.org/specification.
enum RPCMessage: Sendable, Equatable {
    /// An answer to the request with this number.
    case answer(Int64, RPCAnswer)
    /// A message that needs no answer.
    case notification(String, JSONValue)
    /// A request from the plugin; the protocol has none.
    case request(String)

    /// Parses one line without its end; `nil` for anything but a JSON-RPC message. Batches are not supported.
    init?(line: UnsafeRawBufferPointer) {
        guard let value = JSONParser.parse(line), value["jsonrpc"]?.string == "2.0" else { return nil }
        if let method = value["method"]?.string {
            self = value["id"] == nil ? .notification(method, value["params"] ?? .null) : .request(method)
            return
        }
        guard let id = value["id"]?.integer else { return nil }
        switch (value["result"], value["error"]) {
        case (let result?, nil): self = .answer(id, .success(result))
        case (nil, let error?):
            guard let code = error["code"]?.integer, let message = error["message"]?.string else { return nil }
            self = .answer(id, .failure(RPCError(code: code, message: message, data: error["data"] ?? .null)))
        default: return nil
        }
    }
}

package typealias RPCAnswer = Result<JSONValue, RPCError>

package struct RPCError: Error, Equatable {
    /// JSON-RPC 2.0, section 5.1: -32768 to -32000 are reserved.
    package var code: Int64
    /// The plugin's own text.
    package var message: String
    package var data: JSONValue

    static let methodNotFound: Int64 = -32601
    /// The request was cancelled. As in the Language Server Protocol.
    static let cancelled: Int64 = -32800

    /// Safe for a terminal and limited in length.
    package var text: String { escaped(String(message.prefix(500))) }
}

/// Messages to a plugin: one line each.
extension RPCMessage {
    /// - Parameter id: `nil` for a notification, which is not answered.
    static func request(_ id: Int64?, _ method: String, _ parameters: JSONLine) -> [UInt8] {
        JSONLine.object { line in
            line.field("jsonrpc", "2.0")
            line.field("id", optional: id)
            line.field("method", method)
            line.json("params", parameters.text)
        }.bytes + [0x0A]
    }

    /// A request for cancellation; the cancelled request is still answered.
    static func cancel(_ id: Int64) -> [UInt8] {
        request(nil, "$/cancelRequest", JSONLine.object { $0.field("id", id) })
    }
}

/// Splits a stream into lines. A line that is too long is an error, not a growing buffer.
struct LineFraming: Sendable {
    /// Most **bytes** of a line, without its end.
    let limit: Int
    private var partial: [UInt8] = []

    init(limit: Int) { self.limit = limit }

    var hasPartialLine: Bool { !partial.isEmpty }

    /// Takes bytes and passes each complete line, without its end, to `line`. Stops after a line for which `line`
    /// returns `false`.
    ///
    /// - Returns: `false` if a line was too long: nothing after it can be parsed.
    mutating func take(_ bytes: UnsafeRawBufferPointer, _ line: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        var rest = bytes
        while let end = rest.firstIndex(of: 0x0A) {
            let piece = UnsafeRawBufferPointer(rebasing: rest[..<end])
            rest = UnsafeRawBufferPointer(rebasing: rest[(end + 1)...])
            guard partial.count + piece.count <= limit else { return false }
            var goesOn = true
            if partial.isEmpty {
                goesOn = line(piece)
            } else {
                partial.append(contentsOf: piece)
                goesOn = partial.withUnsafeBytes { line($0) }
                partial.removeAll(keepingCapacity: partial.capacity <= 64 << 10)
            }
            if !goesOn { return true }
        }
        guard partial.count + rest.count <= limit else { return false }
        partial.append(contentsOf: rest)
        return true
    }
}
