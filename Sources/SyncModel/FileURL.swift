/// The `file:` URL of an absolute path (RFC 8089): every byte that is not unreserved in RFC 3986 §2.3, nor `/`, is
/// percent-encoded, so that a `#`, `?` or `%` of a name stays part of it.
public func fileURL(path: String) -> String {
    var bytes = Array("file://".utf8)
    for byte in path.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"), UInt8(ascii: "/"):
            bytes.append(byte)
        default: bytes += [UInt8(ascii: "%"), hexadecimal(byte >> 4), hexadecimal(byte & 15)]
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// The path of a `file:` URL without a host: what stands before a query or fragment, percent-decoded once.
///
/// - Returns: The path's bytes, without a zero at the end; `nil` for another URL, a broken encoding, or a zero byte.
public func path(ofFileURL url: String) -> [UInt8]? {
    let prefix = Array("file://".utf8)
    var rest = Array(url.utf8)[...]
    guard rest.starts(with: prefix) else { return nil }
    rest = rest.dropFirst(prefix.count).prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    guard rest.first == UInt8(ascii: "/") else { return nil }
    var path: [UInt8] = []
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
            path.append(byte)
            continue
        }
        guard let high = rest.popFirst().flatMap(value), let low = rest.popFirst().flatMap(value) else {
            return nil
        }
        path.append(high << 4 | low)
    }
    return path.contains(0) ? nil : path
}

private func hexadecimal(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
}

private func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
}
