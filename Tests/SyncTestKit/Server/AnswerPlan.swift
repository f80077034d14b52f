/// What an answer to one request comes to: a head and a body. Pure; the connection only sends it.
struct AnswerPlan: Sendable {
    var status: Int
    /// In order, without framing headers.
    var headers: [(name: String, value: String)]
    /// The body's bytes, wherever they come from.
    var body: ArraySlice<UInt8>
    /// Whether only the head goes out: HEAD, 204, 304.
    var isBodyless: Bool
}

extension AnswerPlan {
    /// Applies ranges, conditions and bends. RFC 9110 §13, §14.
    init(_ answer: FaultAnswer, to request: ServedRequest) {
        switch answer.content {
        case .object(let object): self.init(answer, object, request)
        case .fixed(let status, let body, let headers):
            self.init(status: status, headers: headers.map { ($0.0, $0.1) }, body: body[...], isBodyless: false)
        case .raw(let bytes): self.init(status: 0, headers: [], body: bytes[...], isBodyless: false)
        case .none: self.init(status: 0, headers: [], body: [], isBodyless: true)
        }
        if let override = answer.statusOverride { status = override }
        for edit in answer.headerEdits {
            headers.removeAll { $0.name.lowercased() == edit.name.lowercased() }
            headers.append(edit)
        }
        isBodyless = isBodyless || request.method == "HEAD" || [204, 205, 304].contains(status)
    }

    private init(_ answer: FaultAnswer, _ object: ServedObject, _ request: ServedRequest) {
        var bytes = object.bytes
        for offset in answer.flips where bytes.indices.contains(offset) { bytes[offset] = ~bytes[offset] }
        if answer.extraBody > 0 { bytes += patternedBytes(size: answer.extraBody, seed: 0xE17A) }

        var headers: [(name: String, value: String)] = []
        if let etag = object.etag { headers.append(("ETag", etag)) }
        if let date = object.lastModified { headers.append(("Last-Modified", date)) }
        let type = object.contentType.map { [(name: "Content-Type", value: $0)] } ?? []

        if object.isKnown(to: request) {
            self.init(status: 304, headers: headers, body: [], isBodyless: true)
            return
        }
        var wanted = object.satisfiesIfRange(of: request) ? request.range(ofSize: bytes.count) : nil
        switch answer.ranges {
        case .ignore: wanted = nil
        case .refuse where wanted != nil: wanted = bytes.count..<bytes.count
        case .shift(let offset):
            wanted = wanted.map {
                let start = max(0, $0.lowerBound + offset)
                return start..<max(start, $0.upperBound)
            }
        default: break
        }
        if case .ignore = answer.ranges {} else { headers.append(("Accept-Ranges", "bytes")) }

        guard let wanted else {
            self.init(status: 200, headers: headers + type, body: bytes[...], isBodyless: false)
            return
        }
        guard wanted.lowerBound < bytes.count else {
            headers.append(("Content-Range", "bytes */\(bytes.count)"))
            self.init(status: 416, headers: headers, body: [], isBodyless: false)
            return
        }
        let served = wanted.clamped(to: 0..<bytes.count)
        let text = answer.contentRange.text(served, size: bytes.count)
        if case .multipart = answer.ranges {
            let boundary = "syncagent-boundary"
            headers.append(("Content-Type", "multipart/byteranges; boundary=\(boundary)"))
            var body = Array("--\(boundary)\r\nContent-Range: \(text ?? "")\r\n\r\n".utf8)
            body += bytes[served]
            body += Array("\r\n--\(boundary)--\r\n".utf8)
            self.init(status: 206, headers: headers, body: body[...], isBodyless: false)
            return
        }
        if let text { headers.append(("Content-Range", text)) }
        self.init(status: 206, headers: headers + type, body: bytes[served], isBodyless: false)
    }
}

extension FaultAnswer.ContentRange {
    fileprivate func text(_ range: Range<Int>, size: Int) -> String? {
        let span = "bytes \(range.lowerBound)-\(range.upperBound - 1)/"
        return switch self {
        case .right: span + "\(size)"
        case .missing: nil
        case .unknownTotal: span + "*"
        case .total(let total): span + "\(total)"
        case .text(let text): text
        }
    }
}

extension ServedObject {
    /// Whether the client has this version already. RFC 9110 §13.2.2; dates are compared as text.
    fileprivate func isKnown(to request: ServedRequest) -> Bool {
        if let tags = request.header("if-none-match") {
            guard let etag else { return false }
            return tags == "*" || tags.split(separator: ",").contains { weakly($0) == weakly(etag[...]) }
        }
        return lastModified != nil && request.header("if-modified-since") == lastModified
    }

    /// Whether a range may be served. RFC 9110 §13.1.5: a strong comparison, so weak tags never match.
    fileprivate func satisfiesIfRange(of request: ServedRequest) -> Bool {
        guard let condition = request.header("if-range") else { return true }
        if condition.hasPrefix("\"") { return condition == etag }
        return condition == lastModified
    }

    private func weakly(_ tag: Substring) -> Substring {
        let trimmed = tag.drop { $0 == " " }
        return trimmed.hasPrefix("W/") ? trimmed.dropFirst(2) : trimmed
    }
}
