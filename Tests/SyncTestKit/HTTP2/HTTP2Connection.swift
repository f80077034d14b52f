/// One HTTP/2 connection of a ``FaultServer``: every stream gets its scripted answer, a frame at a time in turn.
///
/// Enough of RFC 9113 for requests without bodies: flow control, one header block at a time, no push,
/// no priorities. Lives on the connection's own thread.
final class HTTP2Connection {
    let wire: any FaultWire
    let core: ServerCore
    private let id: Int
    private var pending: [UInt8]
    private var decoder = HPACKDecoder()
    private var block: (stream: UInt32, bytes: [UInt8])?
    private var streams: [HTTP2Stream] = []
    /// **Bytes** the client takes over all streams, and at first on each. RFC 9113 §6.9.
    var window = 65_535
    private var initialStreamWindow = 65_535
    private var isEnding = false
    private var lastStream: UInt32 = 0

    init(wire: any FaultWire, id: Int, core: ServerCore, pending: [UInt8]) {
        self.wire = wire
        self.id = id
        self.core = core
        self.pending = pending
    }

    func run() {
        defer { for stream in streams { core.log.ended(stream.entry, core.isStopping ? .stopped : .abandoned) } }
        guard readPreface() else { return }
        var settings: [UInt8] = []
        if let most = core.options.http2Streams { settings = [0, 3] + HTTP2Frame.big(UInt32(max(0, most))) }
        guard wire.writeAll(HTTP2Frame.bytes(.settings, stream: 0, settings)) else { return }
        while !core.isStopping {
            guard readFrames() else { return }
            let outcome = sendTurn()
            if outcome == .over || (isEnding && streams.isEmpty) { return wire.endCleanly() }
            if outcome == .idle {
                // A short wait while answers are under way: a stall may end at any time.
                _ = wire.waitReadable(milliseconds: streams.isEmpty ? 50 : 2)
            }
        }
    }

    private func readPreface() -> Bool {
        while pending.count < HTTP2Frame.prefaceRest.count { guard wire.readMore(into: &pending) else { return false } }
        guard pending.starts(with: HTTP2Frame.prefaceRest) else { return false }
        pending.removeFirst(HTTP2Frame.prefaceRest.count)
        return true
    }

    // MARK: Reading

    /// Handles what the client has sent; `false` when the connection is over.
    private func readFrames() -> Bool {
        while wire.waitReadable(milliseconds: 0) { guard wire.readMore(into: &pending) else { return false } }
        var rest = pending[...]
        defer { pending = Array(rest) }
        while let frame = HTTP2Frame.take(from: &rest) { guard handle(frame) else { return false } }
        return true
    }

    private func handle(_ frame: HTTP2Frame) -> Bool {
        switch frame.kind {
        case .settings where frame.flags & HTTP2Frame.Flag.acknowledgement == 0:
            applySettings(frame.payload)
            return wire.writeAll(HTTP2Frame.bytes(.settings, flags: HTTP2Frame.Flag.acknowledgement, stream: 0, []))
        case .ping where frame.flags & HTTP2Frame.Flag.acknowledgement == 0:
            return wire.writeAll(
                HTTP2Frame.bytes(.ping, flags: HTTP2Frame.Flag.acknowledgement, stream: 0, frame.payload))
        case .windowUpdate:
            let step = Int(HTTP2Frame.number(frame.payload) & 0x7FFF_FFFF)
            if frame.stream == 0 { window += step }
            for stream in streams where stream.id == frame.stream { stream.window += step }
        case .headers:
            guard let bytes = frame.headerBlock else { return false }
            block = (frame.stream, Array(bytes))
            return frame.flags & HTTP2Frame.Flag.endHeaders == 0 || startStream()
        case .continuation:
            guard block?.stream == frame.stream else { return false }
            block?.bytes += frame.payload
            return frame.flags & HTTP2Frame.Flag.endHeaders == 0 || startStream()
        case .resetStream:
            for stream in streams where stream.id == frame.stream { core.log.ended(stream.entry, .abandoned) }
            streams.removeAll { $0.id == frame.stream }
        case .goAway: isEnding = true
        case .data, .priority, .settings, .ping, nil: break
        }
        return true
    }

    private func applySettings(_ payload: ArraySlice<UInt8>) {
        var rest = payload
        while rest.count >= 6 {
            let name = Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
            let value = HTTP2Frame.number(rest.dropFirst(2))
            rest = rest.dropFirst(6)
            // SETTINGS_INITIAL_WINDOW_SIZE changes open streams too. RFC 9113 §6.9.2.
            guard name == 4, let size = Int(exactly: value) else { continue }
            for stream in streams { stream.window += size - initialStreamWindow }
            initialStreamWindow = size
        }
    }

    private func startStream() -> Bool {
        guard let (number, bytes) = block, let headers = decoder.decode(bytes[...]) else { return false }
        block = nil
        lastStream = max(lastStream, number)
        func pseudo(_ name: String) -> String { headers.first { $0.name == name }?.value ?? "" }
        var plain = headers.filter { !$0.name.hasPrefix(":") }
        plain.append(("host", pseudo(":authority")))
        let made = core.log.requestReceived { [id] ordinal in
            ServedRequest(
                method: pseudo(":method"), target: pseudo(":path"), headers: plain, connection: id, ordinal: ordinal,
                version: "2")
        }
        guard let (request, entry) = made else { return false }
        let answer = core.script.answer(to: request)
        streams.append(
            HTTP2Stream(id: number, answer, to: request, entry: entry, window: initialStreamWindow, over: self))
        return true
    }

    // MARK: Sending

    enum Turn { case busy, idle, over }

    private func sendTurn() -> Turn {
        var turn = Turn.idle
        for stream in streams {
            switch stream.step() {
            case .sent: turn = .busy
            case .waiting: break
            case .ended(let end):
                core.log.ended(stream.entry, end)
                streams.removeAll { $0.id == stream.id }
                turn = .busy
            case .connectionOver(let end):
                core.log.ended(stream.entry, end)
                streams.removeAll { $0.id == stream.id }
                return .over
            }
        }
        return turn
    }

    /// Tells the client to open no more streams here. RFC 9113 §6.8.
    func sendGoAway() -> Bool {
        isEnding = true
        return wire.writeAll(HTTP2Frame.bytes(.goAway, stream: 0, HTTP2Frame.big(lastStream) + HTTP2Frame.big(0)))
    }
}
