import SyncSystem

/// Sends one answer over HTTP/1: head, framing, body, and the faults on the way.
struct AnswerDelivery {
    /// Whether another request may come on the connection.
    private(set) var keepsConnection = true

    private let answer: FaultAnswer
    private let plan: AnswerPlan
    private let request: ServedRequest
    private let entry: Int
    private let wire: any FaultWire
    private let core: ServerCore
    /// **Bytes** of the body that are out.
    private var position = 0

    init(_ answer: FaultAnswer, to request: ServedRequest, entry: Int, wire: any FaultWire, core: ServerCore) {
        self.answer = answer
        self.plan = AnswerPlan(answer, to: request)
        self.request = request
        self.entry = entry
        self.wire = wire
        self.core = core
    }

    mutating func run() -> ByteLog.End {
        if let delay = answer.delay, !core.waitOut(wire.socket, for: delay) { return gone }
        switch answer.content {
        case .none: return perform(answer.steps.map(\.action)) ?? gone
        case .raw(let bytes):
            keepsConnection = false
            return wire.writeAll(bytes) ? .complete : gone
        case .object, .fixed: break
        }
        guard sendHead() else { return gone }
        core.log.headSent(entry, status: plan.status)
        return plan.isBodyless ? .complete : sendBody()
    }

    private var gone: ByteLog.End { core.isStopping ? .stopped : .abandoned }

    // MARK: Head

    private mutating func sendHead() -> Bool {
        if let interim = answer.interim {
            let line = Array("HTTP/1.1 \(interim.status) Wait\r\nX-Interim: yes\r\n\r\n".utf8)
            guard sendRepeated(line, interim.count) else { return false }
        }
        var head = "HTTP/\(answer.version) \(plan.status) \(reason(plan.status))\r\n"
        for header in plan.headers { head += "\(header.name): \(header.value)\r\n" }
        for header in framingHeaders() { head += "\(header.name): \(header.value)\r\n" }
        guard wire.writeAll(head.utf8) else { return false }
        if let flood = answer.headerFlood {
            guard sendRepeated(Array((flood.line + "\r\n").utf8), flood.count) else { return false }
        }
        return wire.writeAll("\r\n".utf8)
    }

    /// Sends a line many times, in pieces of about 64 KiB.
    private func sendRepeated(_ line: [UInt8], _ count: Int) -> Bool {
        let perPiece = max(1, min(count, 65_536 / max(1, line.count)))
        var piece: [UInt8] = []
        for _ in 0..<perPiece { piece += line }
        var left = count
        while left > 0 {
            let sent = min(left, perPiece)
            guard wire.writeAll(piece[..<(sent * line.count)]) else { return false }
            left -= sent
        }
        return true
    }

    private mutating func framingHeaders() -> [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        let stated = plan.headers.contains { $0.name.lowercased() == "content-length" }
        switch answer.framing {
        case .contentLength where !stated && ![204, 304].contains(plan.status) && plan.status >= 200:
            headers.append(("Content-Length", "\(plan.body.count)"))
        case .contentLength: break
        case .lengths(let values):
            headers += values.map { ("Content-Length", $0) }
            keepsConnection = false
        case .untilClose: keepsConnection = false
        case .chunked(_, let fault):
            headers.append(("Transfer-Encoding", "chunked"))
            if fault != nil { keepsConnection = false }
        }
        let asked = request.header("connection")?.lowercased().contains("close") == true
        if answer.closesAfterwards || asked || request.version == "1.0" { keepsConnection = false }
        if !keepsConnection, answer.version != "1.0" { headers.append(("Connection", "close")) }
        return headers
    }

    // MARK: Body

    private mutating func sendBody() -> ByteLog.End {
        let body = plan.body
        let steps = answer.steps.sorted { $0.position < $1.position }
        var next = steps.startIndex
        while true {
            // A step beyond the body happens at its end: "drop behind the last byte" is a case of its own.
            while next < steps.endIndex, steps[next].position <= position || position == body.count {
                if let end = perform([steps[next].action]) { return end }
                next += 1
            }
            guard position < body.count else { break }
            let until = next < steps.endIndex ? min(steps[next].position, body.count) : body.count
            let start = body.startIndex + position
            guard sendPiece(body[start..<(start + min(until - position, pieceSize))]) else { return gone }
        }
        return sendEnd() ? .complete : gone
    }

    private var pieceSize: Int {
        var size = 65_536
        if let pace = answer.pace { size = min(size, pace.bytes) }
        if case .chunked(let chunk, _) = answer.framing { size = min(size, chunk) }
        return size
    }

    private mutating func sendPiece(_ piece: ArraySlice<UInt8>) -> Bool {
        if case .chunked(_, let fault) = answer.framing {
            let isFirst = position == 0
            let size =
                switch fault {
                case .badSize where !isFirst: "xyz"
                case .hugeSize where !isFirst: "FFFFFFFFFFFFFFFFF"
                default: String(piece.count, radix: 16)
                }
            guard wire.writeAll("\(size)\r\n".utf8), sendCounted(piece) else { return false }
            if !(fault == .missingLineEnd && isFirst), !wire.writeAll("\r\n".utf8) { return false }
        } else {
            guard sendCounted(piece) else { return false }
        }
        if let pace = answer.pace { return core.waitOut(wire.socket, for: pace.every) }
        return true
    }

    /// Sends bytes of the body, and counts those the system took even when the peer goes meanwhile.
    private mutating func sendCounted(_ piece: ArraySlice<UInt8>) -> Bool {
        var rest = piece
        while !rest.isEmpty {
            guard let count = rest.withUnsafeBytes({ wire.write($0) }) else { return false }
            core.log.bodySent(entry, count)
            position += count
            rest = rest.dropFirst(count)
        }
        return true
    }

    private func sendEnd() -> Bool {
        guard case .chunked(_, let fault) = answer.framing else { return true }
        switch fault {
        case .missingEnd: return true
        case .trailerFlood:
            return wire.writeAll("0\r\n".utf8) && sendRepeated(Array("X-Trailer: 0123456789\r\n".utf8), 100_000)
                && wire.writeAll("\r\n".utf8)
        default: return wire.writeAll("0\r\n\r\n".utf8)
        }
    }

    // MARK: Faults

    /// Does what the script says here; `nil` when the answer goes on.
    private func perform(_ actions: [FaultAnswer.Step.Action]) -> ByteLog.End? {
        for action in actions {
            switch action {
            case .drop, .goAway:
                wire.socket.endWriting()
                return .dropped
            case .reset, .streamReset:
                // RST throws away what is still under way, so wait until the peer's system has it.
                waitUntilDelivered()
                wire.socket.resetOnClose()
                return .reset
            case .stall(let duration): guard core.waitOut(wire.socket, for: duration) else { return gone }
            }
        }
        return nil
    }

    private func waitUntilDelivered() {
        let deadline = ContinuousClock.now + .seconds(5)
        while wire.socket.unacknowledged > 0, ContinuousClock.now < deadline, !wire.socket.isAbandoned, !core.isStopping
        { pauseThread(milliseconds: 1) }
    }
}

/// The reason phrase of a status. RFC 9110 §15.
private func reason(_ status: Int) -> String {
    switch status {
    case 200: "OK"
    case 206: "Partial Content"
    case 301: "Moved Permanently"
    case 302: "Found"
    case 304: "Not Modified"
    case 403: "Forbidden"
    case 404: "Not Found"
    case 416: "Range Not Satisfiable"
    case 429: "Too Many Requests"
    case 503: "Service Unavailable"
    default: "Status"
    }
}
