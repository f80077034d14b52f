import CPosix
import SyncSystem

// Whether a network address can be reached from anywhere, and not only from this machine, this link or this site. IANA
// Special-Purpose Address Registries, RFC 6890.

/// Whether an address as libcurl or `inet_pton(3)` writes it, with or without brackets, is public; `nil` for other text.
package func isPublicAddress(_ text: String) -> Bool? {
    let bare = text.hasPrefix("[") && text.hasSuffix("]") ? String(text.dropFirst().dropLast()) : text
    guard let bytes = addressBytes(bare.prefix { $0 != "%" }) else { return nil }
    return bytes.count == 4
        ? isPublic(ipv4: bytes.reduce(0) { $0 << 8 | UInt32($1) }) : bytes.withUnsafeBytes { isPublic(ipv6: $0) }
}

/// Whether the address that a socket is about to connect to is public; families other than IP are not.
func isPublicAddress(_ address: UnsafePointer<sockaddr>) -> Bool {
    switch Int32(address.pointee.sa_family) {
    case AF_INET:
        address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
            isPublic(ipv4: UInt32(bigEndian: $0.pointee.sin_addr.s_addr))
        }
    case AF_INET6:
        address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
            withUnsafeBytes(of: $0.pointee.sin6_addr) { isPublic(ipv6: $0) }
        }
    default: false
    }
}

private func isPublic(ipv4 address: UInt32) -> Bool {
    let local: [(prefix: UInt32, length: UInt32)] = [
        (0x0000_0000, 8),  // This network; Linux connects 0.0.0.0 to itself.
        (0x0A00_0000, 8), (0xAC10_0000, 12), (0xC0A8_0000, 16),  // RFC 1918.
        (0x6440_0000, 10),  // Carrier-grade NAT, RFC 6598.
        (0x7F00_0000, 8),  // Loopback.
        (0xA9FE_0000, 16),  // Link-local, and the clouds' metadata service.
        (0xC000_0000, 24), (0xC612_0000, 15),  // Protocol assignments, benchmarks.
        (0xE000_0000, 4), (0xF000_0000, 4),  // Multicast, reserved, broadcast.
    ]
    return !local.contains { address >> (32 - $0.length) == $0.prefix >> (32 - $0.length) }
}

private func isPublic(ipv6 bytes: UnsafeRawBufferPointer) -> Bool {
    let high = bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self).bigEndian
    let low = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self).bigEndian
    let embedded = UInt32(truncatingIfNeeded: low)
    if high == 0, low >> 32 == 0xFFFF || low >> 32 == 0 {  // ::ffff:a.b.c.d, ::a.b.c.d, :: and ::1.
        return !(low >> 32 == 0 && embedded <= 1) && isPublic(ipv4: embedded)
    }
    if high == 0x0064_FF9B_0000_0000, low >> 32 == 0 {  // NAT64, RFC 6052.
        return isPublic(ipv4: embedded)
    }
    if high >> 48 == 0x2002 {  // 6to4, RFC 3056.
        return isPublic(ipv4: UInt32(truncatingIfNeeded: high >> 16))
    }
    // 2000::/3 is global unicast; fc00::/7, fe80::/10 and ff00::/8 are outside it.
    return high >> 61 == 1
}
