/// One HTTP/2 frame. RFC 9113 §4.1.
struct HTTP2Frame {
    /// RFC 9113 §6; the ones this server reads or writes.
    enum Kind: UInt8 {
        case data = 0, headers = 1, priority = 2, resetStream = 3, settings = 4, ping = 6, goAway = 7
        case windowUpdate = 8, continuation = 9
    }

    /// Flags, by bit. RFC 9113 §6.1, §6.2, §6.5.
    enum Flag {
        static let endStream: UInt8 = 0x1
        static let acknowledgement: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4
        static let padded: UInt8 = 0x8
        static let priority: UInt8 = 0x20
    }

    /// What a client sends first. RFC 9113 §3.4; the rest of it behind the head that HTTP/1 would see.
    static let prefaceHead = "PRI * HTTP/2.0"
    static let prefaceRest = Array("SM\r\n\r\n".utf8)

    /// `nil` for kinds that are to be ignored.
    var kind: Kind?
    var flags: UInt8
    var stream: UInt32
    var payload: ArraySlice<UInt8>

    /// Takes one whole frame from the front of `bytes`; `nil` when there is none yet.
    static func take(from bytes: inout ArraySlice<UInt8>) -> HTTP2Frame? {
        guard bytes.count >= 9 else { return nil }
        let head = Array(bytes.prefix(9))
        let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        guard bytes.count >= 9 + length else { return nil }
        bytes = bytes.dropFirst(9)
        let payload = bytes.prefix(length)
        bytes = bytes.dropFirst(length)
        return HTTP2Frame(
            kind: Kind(rawValue: head[3]), flags: head[4], stream: number(head[5...]) & 0x7FFF_FFFF, payload: payload)
    }

    static func bytes(_ kind: Kind, flags: UInt8 = 0, stream: UInt32, _ payload: some Collection<UInt8>) -> [UInt8] {
        let length = UInt32(truncatingIfNeeded: payload.count)
        var bytes = Array(big(length).dropFirst())
        bytes += [kind.rawValue, flags]
        bytes += big(stream)
        bytes += payload
        return bytes
    }

    /// The payload without padding and priority. RFC 9113 §6.2.
    var headerBlock: ArraySlice<UInt8>? {
        var block = payload
        var padding = 0
        if flags & Flag.padded != 0 {
            guard let count = block.popFirst() else { return nil }
            padding = Int(count)
        }
        if flags & Flag.priority != 0 { block = block.dropFirst(5) }
        return block.count >= padding ? block.dropLast(padding) : nil
    }

    /// Four bytes, highest first.
    static func big(_ number: UInt32) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) } }

    /// The number in the first four bytes.
    static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }
}
