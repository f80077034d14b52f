/// Why Windows cannot hold a name: it is a device's, ends in a dot or a space, or has a character that means something
/// there. Such names are real on Linux and ordinary in a manifest (V14); `publish` warns of them.
///
/// - Parameter name: One component of a path.
/// - Returns: `nil` when it can.
package func windowsProblem(_ name: UnsafeBufferPointer<UInt8>) -> String? {
    if let last = name.last, last == 0x2E || last == 0x20 { return "ends in a dot or a space" }
    if name.contains(where: { [0x22, 0x2A, 0x3A, 0x3C, 0x3E, 0x3F, 0x5C, 0x7C].contains($0) }) {
        return "has one of \" * : < > ? \\ |"
    }
    let stem = name.prefix { $0 != 0x2E }
    guard (3...4).contains(stem.count) else { return nil }
    let device = String(decoding: stem, as: UTF8.self).uppercased()
    let digits = device.hasPrefix("COM") || device.hasPrefix("LPT") ? device.dropFirst(3) : ""
    let isDevice =
        ["CON", "PRN", "AUX", "NUL"].contains(device) || ("1"..."9").contains(digits) && digits.count == 1
    return isDevice ? "is a device's name" : nil
}
