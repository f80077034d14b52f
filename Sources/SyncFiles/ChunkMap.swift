package import SyncModel
import SyncSystem

/// `.syncagent/chunks`: the chunks that local large files consist of, by the files' digests.
///
/// The map tells where to look for the next revision's chunks, and proves nothing: chunks are hashed before they are
/// used. So it has no checksum, and damage or loss only costs network traffic.
///
/// Eight bytes of magic, then records of 36 **bytes**: a file's digest and its number of chunks (4, little endian),
/// followed by each chunk's digest and length.
///
/// The map is read from front to back, in bounded memory.
package struct ChunkMap: ~Copyable {
    package static let name = "chunks"
    static let magic: [UInt8] = Array("SACHUNK1".utf8)
    static let recordLength = 36
    /// Most **bytes** read: enough for seven million chunks.
    private static let limit: UInt64 = 256 << 20

    /// A digest, and a file's number of chunks or a chunk's length in **bytes**.
    package struct Record: Sendable, Equatable {
        package var digest: SHA256Digest
        package var number: UInt32

        package init(digest: SHA256Digest, number: UInt32) {
            self.digest = digest
            self.number = number
        }
    }

    private let file: Descriptor
    private let buffer: UnsafeMutableRawBufferPointer
    /// The part of the buffer that was read and not yet returned.
    private var held = 0..<0
    private var offset = UInt64(ChunkMap.magic.count)
    /// Chunks of the current file that were not read.
    private var unread: UInt64 = 0

    /// Opens a destination's map; `nil` if there is none, or one of another version.
    package init?(_ destination: Destination) {
        guard destination.state >= 0, let file = try? openFile(ChunkMap.name, in: destination.state, trust: .state),
            let size = status(file.raw)?.size, size <= ChunkMap.limit
        else { return nil }
        let count = ChunkMap.recordLength * 1820  // About 64 KiB.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        let head = UnsafeMutableRawBufferPointer(rebasing: buffer[..<ChunkMap.magic.count])
        guard readFully(file.raw, into: head, at: 0) == head.count, head.elementsEqual(ChunkMap.magic) else {
            buffer.deallocate()
            return nil
        }
        self.file = file
        self.buffer = buffer
    }

    deinit { buffer.deallocate() }

    /// The next file, with its number of chunks; skips unread chunks of the previous one.
    package mutating func nextFile() -> Record? {
        let (skipped, overflow) = unread.multipliedReportingOverflow(by: UInt64(ChunkMap.recordLength))
        guard !overflow else { return nil }
        if skipped <= UInt64(held.count) {
            held = (held.lowerBound + Int(skipped))..<held.upperBound
        } else {
            let (next, tooFar) = offset.addingReportingOverflow(skipped - UInt64(held.count))
            guard !tooFar else { return nil }
            offset = next
            held = 0..<0
        }
        unread = 0
        guard let record = next() else { return nil }
        unread = UInt64(record.number)
        return record
    }

    /// The next chunk of the current file; `nil` after the last, and if the map ends early.
    package mutating func nextChunk() -> Record? {
        guard unread > 0, let record = next() else { return nil }
        unread -= 1
        return record
    }

    private mutating func next() -> Record? {
        if held.count < ChunkMap.recordLength {
            let count = readFully(file.raw, into: buffer, at: offset)
            guard count >= ChunkMap.recordLength else { return nil }
            held = 0..<(count - count % ChunkMap.recordLength)
            offset += UInt64(held.count)
        }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[held.prefix(ChunkMap.recordLength)])
        held = (held.lowerBound + ChunkMap.recordLength)..<held.upperBound
        guard let digest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: bytes[..<32])) else { return nil }
        return Record(digest: digest, number: bytes.integer(at: 32))
    }
}

/// Writes the map under another name and renames it when complete.
package struct ChunkMapWriter: ~Copyable {
    private let directory: Int32
    private var file: AppendedFile

    private static let temporaryName = ChunkMap.name + ".new"

    package init(_ destination: Destination) {
        directory = destination.state
        file = AppendedFile(Self.temporaryName, in: destination)
        file.append(ChunkMap.magic)
    }

    /// Adds a record: a file with its number of chunks, or a chunk with its length.
    package mutating func append(_ record: ChunkMap.Record) {
        withUnsafeTemporaryAllocation(byteCount: ChunkMap.recordLength, alignment: 8) { bytes in
            guard let base = bytes.baseAddress else { return }
            record.digest.store(to: base)
            base.store(record.number, at: 32)
            file.append(bytes)
        }
    }

    /// Renames the map into place. On failure the old one stays, which is as good as before.
    package consuming func finish() {
        let isWritten = (try? file.written()) != nil
        if isWritten, renameEntry(Self.temporaryName, in: directory, to: ChunkMap.name, in: directory) == nil { return }
        removeFile(Self.temporaryName, in: directory)
    }
}
