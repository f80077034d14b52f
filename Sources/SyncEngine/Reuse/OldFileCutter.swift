import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Cuts a file with unknown chunks as the publisher would, and reports the chunks.
///
/// For destinations filled by other means, or whose ``ChunkMap`` was lost. Every chunk is hashed.
struct OldFileCutter: ~Copyable {
    private let cutter: ChunkCutter
    private var hasher: SHA256Hasher
    private let buffer: UnsafeMutableRawBufferPointer

    /// Chunks longer than this many **bytes** are not searched for.
    private static let longestChunk = 4 << 20

    /// `nil` if chunks are too long, or out of memory.
    init?(_ parameters: ChunkParameters?) {
        guard let parameters, parameters.isValid, parameters.maximum <= Self.longestChunk,
            let hasher = try? SHA256Hasher()
        else { return nil }
        self.hasher = hasher
        cutter = ChunkCutter(parameters)
        buffer = .allocate(byteCount: max(1 << 20, 2 * parameters.maximum), alignment: 4096)
    }

    deinit { buffer.deallocate() }

    /// Reads a file from its start.
    ///
    /// - Parameter take: Told of each chunk and where it begins; `false` ends the reading.
    mutating func cut(_ file: Int32, size: UInt64, _ take: (ChunkMapReader.Record, UInt64) -> Bool) {
        var offset: UInt64 = 0
        var held = 0..<0
        while offset < size {
            if held.count < cutter.parameters.maximum, offset + UInt64(held.count) < size {
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[held]))
                let rest = size - offset - UInt64(held.count)
                let end = held.count + Int(min(UInt64(buffer.count - held.count), rest))
                let free = UnsafeMutableRawBufferPointer(rebasing: buffer[held.count..<end])
                guard readFully(file, into: free, at: offset + UInt64(held.count)) == free.count else { return }
                held = 0..<end
            }
            let length = cutter.firstChunk(of: UnsafeRawBufferPointer(rebasing: buffer[held]))
            guard length > 0, let number = UInt32(exactly: length),
                let digest = try? hasher.digest(  // No memory: what was found stays.
                    of: UnsafeRawBufferPointer(rebasing: buffer[held.prefix(length)])),
                take(ChunkMapReader.Record(digest: digest, number: number), offset)
            else { return }
            held = (held.lowerBound + length)..<held.upperBound
            offset += UInt64(length)
        }
    }
}
