/// Decodes the header blocks of one HTTP/2 connection. RFC 7541.
///
/// Only what a request needs; a block that breaks the rules gives `nil`, which ends the connection.
struct HPACKDecoder {
    typealias Header = (name: String, value: String)

    /// Newest first. RFC 7541 §2.3.2.
    private var dynamic: [Header] = []
    private var dynamicSize = 0
    private var maximumSize = 4_096

    mutating func decode(_ block: ArraySlice<UInt8>) -> [Header]? {
        var rest = block
        var headers: [Header] = []
        while let first = rest.first {
            if first & 0x80 != 0 {
                guard let index = integer(&rest, prefix: 7), let header = header(at: index) else { return nil }
                headers.append(header)
            } else if first & 0xE0 == 0x20 {
                guard let size = integer(&rest, prefix: 5), size <= 4_096 else { return nil }
                maximumSize = size
                evict()
            } else {
                let isIndexed = first & 0x40 != 0
                guard let header = literal(&rest, prefix: isIndexed ? 6 : 4) else { return nil }
                headers.append(header)
                if isIndexed { add(header) }
            }
        }
        return headers
    }

    private func header(at index: Int) -> Header? {
        guard index >= 1 else { return nil }
        if index <= staticHeaders.count { return staticHeaders[index - 1] }
        return dynamic.dropFirst(index - staticHeaders.count - 1).first
    }

    private func literal(_ rest: inout ArraySlice<UInt8>, prefix: Int) -> Header? {
        guard let index = integer(&rest, prefix: prefix) else { return nil }
        let name = index == 0 ? text(&rest) : header(at: index)?.name
        guard let name, let value = text(&rest) else { return nil }
        return (name, value)
    }

    private mutating func add(_ header: Header) {
        dynamic.insert(header, at: 0)
        dynamicSize += size(header)
        evict()
    }

    private mutating func evict() {
        while dynamicSize > maximumSize, let last = dynamic.popLast() { dynamicSize -= size(last) }
    }

    private func size(_ header: Header) -> Int { header.name.utf8.count + header.value.utf8.count + 32 }

    /// RFC 7541 §5.1.
    private func integer(_ rest: inout ArraySlice<UInt8>, prefix: Int) -> Int? {
        guard let first = rest.popFirst() else { return nil }
        let mask = (1 << prefix) - 1
        var value = Int(first) & mask
        guard value == mask else { return value }
        var shift = 0
        while let byte = rest.popFirst() {
            guard shift <= 21 else { return nil }
            value += (Int(byte) & 0x7F) << shift
            shift += 7
            if byte & 0x80 == 0 { return value }
        }
        return nil
    }

    /// RFC 7541 §5.2.
    private func text(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard let first = rest.first else { return nil }
        guard let length = integer(&rest, prefix: 7), length <= rest.count else { return nil }
        let bytes = rest.prefix(length)
        rest = rest.dropFirst(length)
        if first & 0x80 == 0 { return String(decoding: bytes, as: UTF8.self) }
        return huffmanDecoded(bytes).map { String(decoding: $0, as: UTF8.self) }
    }
}

/// The canonical code as a map from length and code to symbol.
private let huffmanSymbols: [UInt64: UInt16] = {
    var symbols: [UInt64: UInt16] = [:]
    var code: UInt64 = 0
    for length in UInt64(5)...30 {
        code <<= 1
        for (symbol, its) in huffmanLengths.enumerated() where UInt64(its) == length {
            symbols[length << 32 | code] = UInt16(symbol)
            code += 1
        }
    }
    return symbols
}()

/// RFC 7541 §5.2; `nil` for padding that is no prefix of the end of text.
func huffmanDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
    var result: [UInt8] = []
    var code: UInt64 = 0
    var length: UInt64 = 0
    for byte in bytes {
        for bit in stride(from: 7, through: 0, by: -1) {
            code = code << 1 | UInt64(byte >> UInt8(bit) & 1)
            length += 1
            if let symbol = huffmanSymbols[length << 32 | code] {
                guard symbol < 256 else { return nil }
                result.append(UInt8(symbol))
                (code, length) = (0, 0)
            } else if length > 30 {
                return nil
            }
        }
    }
    return length < 8 && code == (1 << length) - 1 ? result : nil
}

/// A header block of literal fields without indexing. RFC 7541 §6.2.2.
func hpackEncoded(_ headers: [(name: String, value: String)]) -> [UInt8] {
    var block: [UInt8] = []
    for header in headers {
        block.append(0)
        appendHPACKText(header.name.lowercased(), to: &block)
        appendHPACKText(header.value, to: &block)
    }
    return block
}

private func appendHPACKText(_ text: String, to block: inout [UInt8]) {
    let bytes = Array(text.utf8)
    if bytes.count < 127 {
        block.append(UInt8(bytes.count))
    } else {
        block.append(127)
        var rest = bytes.count - 127
        while rest >= 128 {
            block.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        block.append(UInt8(rest))
    }
    block += bytes
}

/// Code lengths of the Huffman code in **bits**, by symbol; 256 is the end of text. RFC 7541, Appendix B.
///
/// The code is canonical: equal lengths count up in the order of symbols, so the lengths say all.
let huffmanLengths: [UInt8] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
]

/// The static table; index 1 is the first. RFC 7541, Appendix A.
let staticHeaders: [(name: String, value: String)] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
]
