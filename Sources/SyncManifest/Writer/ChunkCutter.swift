/// Where chunks of large files end.
///
/// FastCDC with normalised chunking: W. Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking
/// Approach for Data Deduplication", USENIX ATC 2016, section 3.4; normalisation level 2.
package struct ChunkParameters: Sendable, Equatable {
    /// Shortest chunk in **bytes**, but for the last of a file.
    package var minimum: Int
    /// Where cutting becomes 16 times as likely, in **bytes**; most chunks end near it.
    package var average: Int
    /// Longest chunk in **bytes**.
    package var maximum: Int

    /// The defaults were measured: 2 GiB of files with 4 KiB inserted near the start of each large one and 1 % of
    /// their 64 KiB blocks replaced cost 33.6 MB of new blobs and 1.3 MB of compressed manifest with 16/64/256 KiB;
    /// 49.3 and 0.8 MB with 64/128/512 KiB, 23.5 and 2.4 MB with 8/32/128 KiB.
    /// Of seven real sets from one release to the next, new chunks were 528 MB, and 554 MB with 32/128/512 KiB.
    package init(minimum: Int = 16 << 10, average: Int = 64 << 10, maximum: Int = 256 << 10) {
        (self.minimum, self.average, self.maximum) = (minimum, average, maximum)
    }

    /// Whether these parameters are possible.
    package var isValid: Bool {
        minimum >= ChunkCutter.window && minimum <= average && average <= maximum && maximum <= 16 << 20
    }
}

/// Finds the ends of chunks by content: a rolling hash over the last 64 bytes falls below a limit.
///
/// Bytes inserted or removed move only the chunks around them. The gear table is part of what makes two
/// publishes of the same bytes agree; a test pins it.
package struct ChunkCutter: Sendable {
    /// **Bytes** a cut depends on: a 64-bit gear hash has forgotten everything older.
    package static let window = 64

    /// Names this method, gear table included, in `x-chunking`.
    package static let method = "fastcdc-gear64-1"

    /// Seed of ``gear``: the first 64 bits of the fraction of π.
    package static let seed: UInt64 = 0x243F_6A88_85A3_08D3

    package let parameters: ChunkParameters
    private let strict: UInt64
    private let loose: UInt64
    private let gear: [UInt64]

    /// A cutter for valid parameters.
    package init(_ parameters: ChunkParameters) {
        self.parameters = parameters
        // Two bits harder before the average, two bits easier after it. A larger hash range makes a cut
        // likelier, so the average need not be a power of two.
        strict = UInt64.max / UInt64(parameters.average) / 4
        loose = UInt64.max / UInt64(parameters.average) * 4
        gear = Self.gearTable()
    }

    /// 256 numbers by SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014) from ``seed``.
    package static func gearTable() -> [UInt64] {
        var state = seed
        return (0..<256).map { _ in
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return value ^ (value >> 31)
        }
    }

    /// Length of the first chunk of `bytes`, which must be the rest of the file, or at least
    /// ``ChunkParameters/maximum`` bytes of it.
    package func firstChunk(of bytes: UnsafeRawBufferPointer) -> Int {
        guard bytes.count > parameters.minimum, let base = bytes.baseAddress else { return bytes.count }
        let end = min(bytes.count, parameters.maximum)
        let turn = min(parameters.average, end)
        return gear.withUnsafeBufferPointer { gear in
            guard let table = gear.baseAddress else { return end }
            let input = base.assumingMemoryBound(to: UInt8.self)
            var hash: UInt64 = 0
            var position = parameters.minimum - Self.window
            while position < parameters.minimum {
                hash = (hash << 1) &+ table[Int(input[position])]
                position += 1
            }
            while position < turn {
                hash = (hash << 1) &+ table[Int(input[position])]
                position += 1
                if hash < strict { return position }
            }
            while position < end {
                hash = (hash << 1) &+ table[Int(input[position])]
                position += 1
                if hash < loose { return position }
            }
            return end
        }
    }
}
