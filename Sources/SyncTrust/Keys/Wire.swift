/// Reads the binary data of SSH: numbers in network order, and strings with their length before them. RFC 4251 section
/// 5.
struct WireReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func bytes(_ count: Int) throws(TrustFault) -> [UInt8] {
        guard count <= rest.count else { throw TrustFault("it ends too early") }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func uint32() throws(TrustFault) -> UInt32 { try bytes(4).reduce(0) { $0 << 8 | UInt32($1) } }

    mutating func string() throws(TrustFault) -> [UInt8] {
        let count = try uint32()
        return try bytes(Int(clamping: count))
    }

    /// Reads a string that must be `text`.
    mutating func expect(_ text: String, _ what: String) throws(TrustFault) {
        let found = try string()
        guard found.elementsEqual(text.utf8) else { throw TrustFault("\(what) is not \(text)") }
    }
}

/// A number as ``WireReader/uint32()`` reads it.
func wireNumber(_ value: UInt32) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }

/// A string as ``WireReader/string()`` reads it.
func wireString(_ value: some Collection<UInt8>) -> [UInt8] { wireNumber(UInt32(clamping: value.count)) + value }

/// A fault of a key, a signature or a statement, before its owner is known: one line for people. Foreign text in it has
/// been escaped.
package struct TrustFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong, without a full stop.
    package let reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }
}
