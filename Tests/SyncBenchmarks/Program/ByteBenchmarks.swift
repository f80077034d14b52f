import SyncContent
import SyncManifest
import SyncModel

/// What every byte goes through.
enum ByteBenchmarks {
    static let all = [chunks, digestLarge, digestSmall, decompress]

    private static let chunks = Benchmark(
        "chunk-cutter", unit: .bytes, work: 8 * 1_048_576,
        limits: [.exactly("chunks", 112), .most("allocations", 2, debug: 4)]
    ) {
        var source = Bytes(seed: 1)
        let bytes = source.noise(8 << 20)
        let cutter = ChunkCutter(ChunkParameters())
        return {
            bytes.withUnsafeBytes { all in
                var (start, count) = (0, 0)
                while start < all.count {
                    start += cutter.firstChunk(of: UnsafeRawBufferPointer(rebasing: all[start...]))
                    count += 1
                }
                return ["chunks": Double(count)]
            }
        }
    }

    private static let digestLarge = Benchmark(
        "sha256-large", unit: .bytes, work: 32 * 1_048_576, limits: [.most("allocations", 2)]
    ) { try digests(of: 32 << 20, each: 32 << 20) }

    private static let digestSmall = Benchmark(
        "sha256-4KiB", unit: .things("messages"), work: 2048,
        // OpenSSL 3.0 makes its context anew for each message.
        limits: [.most("allocations", 2052)]
    ) { try digests(of: 8 << 20, each: 4 << 10) }

    /// One hasher for all messages, as a worker has it.
    private static func digests(of count: Int, each length: Int) throws -> () throws -> Benchmark.Counts {
        var source = Bytes(seed: 2)
        let bytes = source.noise(count)
        let kept = Kept(try SHA256Hasher())
        return {
            try bytes.withUnsafeBytes { all in
                var sum: UInt64 = 0
                for start in stride(from: 0, to: all.count, by: length) {
                    let message = UnsafeRawBufferPointer(rebasing: all[start..<(start + length)])
                    sum ^= try kept.value.digest(of: message).firstWord
                }
                guard sum != 0 else { throw WrongResult("digests cancel each other") }
                return [:]
            }
        }
    }

    private static let decompress = Benchmark(
        "zstd-decode", unit: .bytes, work: 512 * 16_384,
        limits: [.most("allocations", 2, debug: 600), .most("stored KiB", 1700)]
    ) {
        var source = Bytes(seed: 3)
        let raw = 16 << 10
        var compressor = try ZstdCompressor(level: 3)
        var frames: [[UInt8]] = []
        for _ in 0..<512 {
            let bytes = Array(source.text(raw).prefix(raw))
            var frame = [UInt8](repeating: 0, count: ZstdCompressor.bound(raw))
            let count = try bytes.withUnsafeBytes { input in
                try frame.withUnsafeMutableBytes { try compressor.encode(input, into: $0) }
            }
            guard let count else { throw WrongResult("a frame is longer than its bound") }
            frames.append(Array(frame.prefix(count)))
        }
        let kept = Kept(try ZstdDecompressor())
        let target = Memory(raw)
        let stored = Double(frames.reduce(0) { $0 + $1.count }) / 1024
        return { [frames] in
            for frame in frames { try frame.withUnsafeBytes { try kept.value.decode($0, into: target.bytes) } }
            return ["stored KiB": stored]
        }
    }
}

/// Holds what cannot be copied, so that a closure can use it again and again.
final class Kept<Value: ~Copyable> {
    var value: Value

    init(_ value: consuming Value) { self.value = value }
}

/// Memory that is given back.
final class Memory {
    let bytes: UnsafeMutableRawBufferPointer

    init(_ count: Int) { bytes = .allocate(byteCount: count, alignment: 64) }

    deinit { bytes.deallocate() }
}
