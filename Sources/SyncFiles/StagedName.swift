package import SyncModel

/// A staged file's name: its digest, a serial number, since several files may share content, and `.part` while
/// it is being filled out of order. A `.begun` file holds the first bytes of a blob of the pack with that digest.
package struct StagedName: Hashable, Sendable {
    package var digest: SHA256Digest
    package var serial: UInt32
    package var isPart: Bool
    /// Whether it is part of a blob rather than of a file; ``isPart`` is then true as well.
    package var isPartialBlob = false

    package init(digest: SHA256Digest, serial: UInt32 = 0, isPart: Bool = false) {
        self.digest = digest
        self.serial = serial
        self.isPart = isPart
    }

    /// The largest serial number. No run comes near it, so the next one never wraps around to a name that is taken.
    private static let mostSerial = UInt32.max >> 1

    /// Reads a name back; `nil` when it is not one that ``text`` gives.
    package init?(parsing name: String) {
        var rest = Substring(name)
        isPartialBlob = rest.hasSuffix(Self.partialBlob)
        isPart = isPartialBlob || rest.hasSuffix(Self.part)
        if isPart { rest = rest.dropLast((isPartialBlob ? Self.partialBlob : Self.part).utf8.count) }
        let parts = rest.split(separator: ".", omittingEmptySubsequences: false)
        guard let first = parts.first, parts.count <= 2, let digest = SHA256Digest(hex: first.utf8) else { return nil }
        self.digest = digest
        if parts.count == 2 {
            guard let serial = UInt32(parts[1]), serial <= Self.mostSerial else { return nil }
            self.serial = serial
        } else {
            serial = 0
        }
        guard text.utf8.elementsEqual(name.utf8) else { return nil }
    }

    package var text: String { (serial == 0 ? digest.hex : "\(digest.hex).\(serial)") + suffix }

    private static let part = ".part"
    private static let partialBlob = ".begun"
    private var suffix: String { isPartialBlob ? Self.partialBlob : isPart ? Self.part : "" }

    /// Calls `body` with the name as a C string, built on the stack.
    package func withCString<R: ~Copyable>(_ body: (UnsafePointer<CChar>) -> R) -> R {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 96) { buffer in
            var end = 64
            digest.writeHex { buffer[$0] = CChar(bitPattern: $1) }
            if serial != 0 {
                buffer[end] = 0x2E
                end += 1
                for digit in String(serial).utf8 {
                    buffer[end] = CChar(bitPattern: digit)
                    end += 1
                }
            }
            if isPart {
                for letter in suffix.utf8 {
                    buffer[end] = CChar(bitPattern: letter)
                    end += 1
                }
            }
            buffer[end] = 0
            return body(UnsafePointer(buffer.baseAddress.unsafelyUnwrapped))
        }
    }
}
