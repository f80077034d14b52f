/// One connection of a ``FaultServer``: reads requests, asks the script, sends what it says.
///
/// Lives on the connection's own thread.
final class FaultConnection {
    private let wire: any FaultWire
    private let id: Int
    private let core: ServerCore
    private var pending: [UInt8] = []

    init(wire: any FaultWire, id: Int, core: ServerCore) {
        self.wire = wire
        self.id = id
        self.core = core
    }

    func run() {
        while !core.isStopping {
            guard let head = readHead() else { return }
            if head == HTTP2Frame.prefaceHead {
                return HTTP2Connection(wire: wire, id: id, core: core, pending: pending).run()
            }
            let made = core.log.requestReceived { [id] ordinal in
                ServedRequest(head: Substring(head), connection: id, ordinal: ordinal)
            }
            guard let (read, entry) = made else { return }
            var request = read
            guard readBody(of: &request) else {
                core.log.ended(entry, .abandoned)
                return
            }
            let answer = core.script.answer(to: request)
            var delivery = AnswerDelivery(answer, to: request, entry: entry, wire: wire, core: core)
            let end = delivery.run()
            core.log.ended(entry, end)
            guard end == .complete else { return }
            guard delivery.keepsConnection else { return wire.endCleanly() }
        }
    }

    /// The bytes up to the empty line that ends a head, without it; `nil` at the end or beyond 256 KiB.
    private func readHead() -> String? {
        while true {
            if let end = endOfHead() {
                let head = String(decoding: pending[..<end], as: UTF8.self)
                pending.removeFirst(end + 4)
                return head
            }
            guard pending.count <= 1 << 18, wire.readMore(into: &pending) else { return nil }
        }
    }

    private func endOfHead() -> Int? {
        guard pending.count >= 4 else { return nil }
        return (0...(pending.count - 4)).first { pending[$0..<($0 + 4)].elementsEqual([13, 10, 13, 10]) }
    }

    /// Most **bytes** of a request's body that are kept.
    private static let bodyLimit = 1 << 20

    /// Reads a request's body; keeps its beginning for rules.
    private func readBody(of request: inout ServedRequest) -> Bool {
        var left = request.header("content-length").flatMap { Int($0) } ?? 0
        while left > 0 {
            let taken = min(left, pending.count)
            request.body += pending.prefix(min(taken, Self.bodyLimit - request.body.count))
            pending.removeFirst(taken)
            left -= taken
            if left > 0, !wire.readMore(into: &pending) { return false }
        }
        return true
    }
}

/// Where a connection's bytes go: a bare socket, or TLS over one.
protocol FaultWire {
    var socket: Socket { get }
    /// Reads what is there; 0 at the end, `nil` on an error.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int?
    /// Writes some of the bytes; `nil` when the peer is gone.
    func write(_ buffer: UnsafeRawBufferPointer) -> Int?
    /// Waits until there is something to read, at most `milliseconds`.
    func waitReadable(milliseconds: Int32) -> Bool
    /// Says that no more bytes come, where the layer has a way to say so.
    func endCleanly()
}

extension Socket: FaultWire {
    var socket: Socket { self }
    func endCleanly() {}
}

extension FaultWire {
    /// Adds what comes next; `false` at the end and on an error.
    func readMore(into bytes: inout [UInt8]) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 1) { buffer in
            guard let count = read(into: buffer), count > 0 else { return false }
            bytes.append(contentsOf: buffer[..<count])
            return true
        }
    }

    /// Writes all bytes; `false` when the peer is gone.
    func writeAll(_ bytes: some Collection<UInt8>) -> Bool {
        let done = bytes.withContiguousStorageIfAvailable { writeAll(UnsafeRawBufferPointer($0)) }
        return done ?? Array(bytes).withUnsafeBytes { writeAll($0) }
    }

    private func writeAll(_ buffer: UnsafeRawBufferPointer) -> Bool {
        var rest = buffer
        while !rest.isEmpty {
            guard let count = write(rest) else { return false }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        return true
    }
}
