package import SyncModel

/// What a plugin writes. JSON-RPC 2.0, https://www.jsonrpc.org/specification.
enum RPCMessage: Sendable, Equatable {
    /// An answer to the request with this number.
    case answer(Int64, RPCAnswer)
    /// Something it tells by itself.
    case notification(String, JSONValue)
    /// Something it asks; the protocol has nothing of the kind.
    case request(String)

    /// Reads one line without its end; `nil` for anything but a JSON-RPC message. Batches are not taken.
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
    /// JSON-RPC 2.0, section 5.1: -32768 to -32000 are the protocol's own.
    package var code: Int64
    /// The plugin's own words.
    package var message: String
    package var data: JSONValue

    static let methodNotFound: Int64 = -32601
    /// The request was given up because it was asked to. As in the Language Server Protocol.
    static let cancelled: Int64 = -32800

    /// Fit for a terminal and not long.
    package var text: String { escaped(String(message.prefix(500))) }
}

/// What is written to a plugin: one line each.
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

    /// Asks to give a request up; it is answered all the same.
    static func cancel(_ id: Int64) -> [UInt8] {
        request(nil, "$/cancelRequest", JSONLine.object { $0.field("id", id) })
    }
}

/// Cuts a stream into lines. A line that is too long is an error, not a growing buffer.
struct LineFraming: Sendable {
    /// Most **bytes** of a line, without its end.
    let limit: Int
    private var partial: [UInt8] = []

    init(limit: Int) { self.limit = limit }

    var hasPartialLine: Bool { !partial.isEmpty }

    /// Takes bytes and gives each whole line, without its end, to `line`. Stops after a line for which `line` says no.
    ///
    /// - Returns: `false` when a line was too long: nothing after it can be understood.
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
