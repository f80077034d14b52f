import Synchronization

/// One answer over HTTP/2.
///
/// Bends that are about HTTP/1's framing alone (chunks, closing) have no effect here.
final class HTTP2Stream {
    let id: UInt32
    let entry: Int
    /// **Bytes** the client takes on this stream.
    var window: Int

    enum Step {
        case sent
        case waiting
        case ended(ByteLog.End)
        case connectionOver(ByteLog.End)
    }

    private let answer: FaultAnswer
    private let plan: AnswerPlan
    private unowned let connection: HTTP2Connection
    private var steps: ArraySlice<FaultAnswer.Step>
    private var position = 0
    private var isHeadSent = false
    private var quietUntil: ContinuousClock.Instant?
    private var stallGeneration: Int?

    init(
        id: UInt32, _ answer: FaultAnswer, to request: ServedRequest, entry: Int, window: Int,
        over connection: HTTP2Connection
    ) {
        self.id = id
        self.entry = entry
        self.window = window
        self.answer = answer
        self.connection = connection
        plan = AnswerPlan(answer, to: request)
        steps = answer.steps.sorted { $0.position < $1.position }[...]
        if let delay = answer.delay { quietUntil = .now + delay }
    }

    private var wire: any FaultWire { connection.wire }
    private var core: ServerCore { connection.core }

    /// Sends the next frame, if it is time for it.
    func step() -> Step {
        if let quiet = quietUntil {
            guard ContinuousClock.now >= quiet else { return .waiting }
            quietUntil = nil
        }
        if let generation = stallGeneration {
            guard core.stalls.load(ordering: .sequentiallyConsistent) != generation else { return .waiting }
            stallGeneration = nil
        }
        if case .none = answer.content { return nextFault() ?? reset(code: 2) }
        if case .raw = answer.content { return reset(code: 2) }
        if !isHeadSent { return sendHead() }
        if let next = steps.first, next.position <= position || position == plan.body.count {
            return nextFault() ?? .sent
        }
        guard position < plan.body.count else { return sendData([]) }
        let until = min(steps.first?.position ?? plan.body.count, plan.body.count)
        var count = min(until - position, 16_384, window, connection.window)
        if let pace = answer.pace {
            count = min(count, pace.bytes)
            quietUntil = .now + pace.every
        }
        guard count > 0 else { return .waiting }
        let start = plan.body.startIndex + position
        return sendData(plan.body[start..<(start + count)])
    }

    private func sendHead() -> Step {
        var headers = [(name: ":status", value: "\(plan.status)")] + plan.headers
        switch answer.framing {
        case .contentLength where ![204, 304].contains(plan.status):
            headers.append(("Content-Length", "\(plan.body.count)"))
        case .lengths(let values): headers += values.map { ("Content-Length", $0) }
        default: break
        }
        if let flood = answer.headerFlood, let colon = flood.line.firstIndex(of: ":") {
            let value = String(flood.line[flood.line.index(after: colon)...].dropFirst())
            headers += (0..<flood.count).map { _ in (String(flood.line[..<colon]), value) }
        }
        for _ in 0..<(answer.interim?.count ?? 0) {
            let interim = hpackEncoded([(":status", "\(answer.interim?.status ?? 103)")])
            let frame = HTTP2Frame.bytes(.headers, flags: HTTP2Frame.Flag.endHeaders, stream: id, interim)
            guard wire.writeAll(frame) else { return .connectionOver(.abandoned) }
        }
        isHeadSent = true
        core.log.headSent(entry, status: plan.status)
        return sendHeaderBlock(hpackEncoded(headers))
    }

    /// Sends a block as one HEADERS frame and as many CONTINUATION frames as it needs. RFC 9113 §6.10.
    private func sendHeaderBlock(_ block: [UInt8]) -> Step {
        var rest = block[...]
        var kind = HTTP2Frame.Kind.headers
        repeat {
            let piece = rest.prefix(16_384)
            rest = rest.dropFirst(16_384)
            var flags = rest.isEmpty ? HTTP2Frame.Flag.endHeaders : 0
            if kind == .headers, plan.isBodyless { flags |= HTTP2Frame.Flag.endStream }
            guard wire.writeAll(HTTP2Frame.bytes(kind, flags: flags, stream: id, piece)) else {
                return .connectionOver(.abandoned)
            }
            kind = .continuation
        } while !rest.isEmpty
        return plan.isBodyless ? .ended(.complete) : .sent
    }

    private func sendData(_ piece: ArraySlice<UInt8>) -> Step {
        let isLast = position + piece.count == plan.body.count && steps.isEmpty
        let flags = isLast ? HTTP2Frame.Flag.endStream : 0
        guard wire.writeAll(HTTP2Frame.bytes(.data, flags: flags, stream: id, piece)) else {
            return .connectionOver(core.isStopping ? .stopped : .abandoned)
        }
        core.log.bodySent(entry, piece.count)
        position += piece.count
        window -= piece.count
        connection.window -= piece.count
        return isLast ? .ended(.complete) : .sent
    }

    /// Does the next thing the script says; `nil` when the answer goes on at once.
    private func nextFault() -> Step? {
        guard let next = steps.popFirst() else { return nil }
        switch next.action {
        case .drop:
            wire.socket.endWriting()
            return .connectionOver(.dropped)
        case .reset:
            wire.socket.resetOnClose()
            return .connectionOver(.reset)
        case .streamReset(let code): return reset(code: code)
        case .goAway(let finishing):
            guard connection.sendGoAway() else { return .connectionOver(.abandoned) }
            return finishing ? nil : .connectionOver(.dropped)
        case .stall(let duration):
            if let duration {
                quietUntil = .now + duration
            } else {
                stallGeneration = core.stalls.load(ordering: .sequentiallyConsistent)
            }
            return .waiting
        }
    }

    /// RFC 9113 §6.4.
    private func reset(code: UInt32) -> Step {
        let frame = HTTP2Frame.bytes(.resetStream, stream: id, HTTP2Frame.big(code))
        return wire.writeAll(frame) ? .ended(.reset) : .connectionOver(.abandoned)
    }
}
