import SyncModel

extension HTTPRequest {
    /// Why the head of a request is refused, as far as it determines its end and its recipient; `nil` if it is
    /// unambiguous.
    ///
    /// Ambiguous heads are refused: a proxy in front of this server may have interpreted them differently. RFC 9112
    /// §3.2, §5.1, §6.3, §11.2.
    ///
    /// - Parameters:
    ///   - version: As received.
    ///   - isWhole: Whether every line was received exactly as given here: without NUL, folded lines, stray blanks, or
    ///     a lone CR or LF.
    func objection(version: String, isWhole: Bool) -> String? {
        guard isWhole else { return "a line of the head has a NUL, stray blanks, or another end than CR LF" }
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else { return "the version is not HTTP/1.1" }
        guard method.isToken else { return "the method is not a token" }
        guard !target.isEmpty, target.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
            return "the target has blanks or control characters"
        }
        if let objection = fieldObjection { return objection }
        let hosts = headers.values(of: .host)
        guard hosts.count == 1 || hosts.isEmpty && version == "HTTP/1.0" else {
            return "there must be one Host, and there are \(hosts.count)"
        }
        guard hosts.allSatisfy(Self.isHost) else { return "the Host is not a host" }
        return lengthObjection(version)
    }

    /// Whether a field's value can be a host; surrounding blanks are ignored. RFC 9110 §5.5
    private static func isHost(_ value: String) -> Bool {
        let bytes = value.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let end = bytes.lastIndex { $0 != 0x20 && $0 != 0x09 }.map(bytes.index(after:)) ?? bytes.startIndex
        return bytes[..<end].allSatisfy { !endsHost.contains($0) }
    }

    /// Characters that no host name contains.
    private static let endsHost = Set(" \t,/?#@\\\"<>".utf8)

    private var fieldObjection: String? {
        var objection: String?
        headers.forEach { name, value in
            if !name.isToken {
                objection = "the name of a field is not a token"
            } else if value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
                objection = "the value of a field has control characters"
            }
        }
        return objection
    }

    private func lengthObjection(_ version: String) -> String? {
        let (lengths, codings) = (headers.values(of: .contentLength), headers.values(of: .transferEncoding))
        guard lengths.count <= 1 else { return "there are \(lengths.count) Content-Lengths" }
        guard lengths.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) else {
            return "the Content-Length is not a number"
        }
        guard !codings.isEmpty else { return nil }
        guard lengths.isEmpty else { return "there are a Content-Length and a Transfer-Encoding" }
        guard codings.count == 1, codings[0].lowercased() == "chunked", version == "HTTP/1.1" else {
            return "the only Transfer-Encoding is chunked, once, with HTTP/1.1"
        }
        return nil
    }
}

extension HTTPResponse {
    /// The answer to an ambiguous request. Nothing more is read on the connection: the beginning of the next one is
    /// unknown.
    init(refusing objection: String) {
        self.init(
            status: 400, headers: [.contentType: "text/plain; charset=utf-8", .connection: "close"],
            body: .bytes(Array("Bad request: \(objection).\n".utf8)))
    }
}
