import Synchronization

/// What the windows of decoders may take together: a window can be as long as the raw bytes of its frame, and as many
/// frames are decoded at a time as there are connections.
package final class WindowBudget: Sendable {
    /// **Bytes** of all windows.
    package let capacity: Int
    private let used = Mutex(0)

    package init(capacity: Int) { self.capacity = capacity }

    /// Takes **bytes**; `false` when they are not there now.
    package func take(_ count: Int) -> Bool {
        used.withLock { used in
            guard count <= capacity - used else { return false }
            used += count
            return true
        }
    }

    /// Gives **bytes** back.
    package func give(_ count: Int) { used.withLock { $0 -= count } }
}

/// The beginning of a zstd frame. RFC 8878 section 3.1.1.1.
package enum FrameHeader {
    /// Most **bytes** of it.
    package static let longest = 18

    /// The most **bytes** that a decoder of the frame keeps besides one block: its window, or its content where that is
    /// said to be shorter; `nil` when the header goes on behind `bytes`, which are the first ones of the frame.
    package static func window(_ bytes: [UInt8]) throws(CompressionError) -> UInt64? {
        let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]
        guard bytes.prefix(4).elementsEqual(magic.prefix(bytes.count)) else {
            throw CompressionError(reason: "this is not a zstd frame")
        }
        guard bytes.count > 4 else { return nil }
        let descriptor = bytes[4]
        let isSingle = descriptor & 0x20 != 0
        let dictionary = [0, 1, 2, 4][Int(descriptor & 3)]
        let content = [isSingle ? 1 : 0, 2, 4, 8][Int(descriptor >> 6)]
        let contentStart = 5 + (isSingle ? 0 : 1) + dictionary
        guard bytes.count >= contentStart + content else { return nil }
        var size: UInt64?
        if content > 0 {
            var value: UInt64 = content == 2 ? 256 : 0
            for index in (0..<content).reversed() { value &+= UInt64(bytes[contentStart + index]) << UInt64(8 * index) }
            size = value
        }
        guard !isSingle else { return size }
        let base = UInt64(1) << UInt64(10 + bytes[5] >> 3)
        return min(base + base / 8 * UInt64(bytes[5] & 7), size ?? .max)
    }
}
