import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Appends blobs to packs, hashing on the way; a full pack is closed and named.
///
/// Packs get their names when they are closed; their data is made durable later: writing goes on meanwhile, and the
/// disk has started on the older ones.
final class PackWriter {
    private let output: OutputDirectory
    private let packSize: UInt64
    private let firstPack: Int
    private var hasher: SHA256Hasher
    private var buffer: UnsafeMutableRawBufferPointer
    private var buffered = 0
    private var current: TemporaryFile?
    /// **Bytes** in the current pack, including those in the buffer.
    private var size: UInt64 = 0
    /// Closed packs without their final names.
    private var waiting: [(file: TemporaryFile, digest: SHA256Digest)] = []
    /// The closed packs, without URLs.
    private(set) var packs: [Manifest.Pack] = []
    /// **Bytes** written for each closed pack; 0 where the same pack existed already.
    private(set) var written: [UInt64] = []

    /// Most packs whose data may still be on its way to the disk.
    private static let mostWaiting = 8

    /// - Parameter firstPack: The number of its first pack.
    init(_ output: OutputDirectory, packSize: UInt64, firstPack: Int = 0) throws(PublishError) {
        hasher = try calling { try SHA256Hasher() }
        (self.output, self.packSize, self.firstPack) = (output, packSize, firstPack)
        buffer = .allocate(byteCount: 256 << 10, alignment: 64)
    }

    deinit { buffer.deallocate() }

    /// Adds a blob.
    ///
    /// - Returns: The number of its pack, and where it starts there.
    func append(_ bytes: UnsafeRawBufferPointer) throws(PublishError) -> (pack: UInt32, offset: UInt64) {
        if size > 0, size + UInt64(bytes.count) > packSize { try closePack() }
        if current == nil { current = try output.makeTemporary(.packs) }
        guard let pack = UInt32(exactly: firstPack + packs.count) else { throw .tooManyBlobs }
        let place = (pack, size)
        if buffered + bytes.count > buffer.count { try flush() }
        if bytes.count > buffer.count {
            try write(bytes)
        } else {
            UnsafeMutableRawBufferPointer(rebasing: buffer[buffered...]).copyMemory(from: bytes)
            buffered += bytes.count
        }
        size += UInt64(bytes.count)
        return place
    }

    /// Adds a blob from an array.
    func append(_ bytes: [UInt8]) throws(PublishError) -> (pack: UInt32, offset: UInt64) {
        try bytes.withUnsafeBufferPointer { bytes throws(PublishError) in try append(UnsafeRawBufferPointer(bytes)) }
    }

    /// Adds a part or a dictionary: its frame, or the bytes themselves where there is none.
    func append(_ frame: [UInt8]?, of raw: [UInt8]) throws(PublishError) -> Blob {
        let place = try append(frame ?? raw)
        return Blob(
            pack: place.pack, codec: frame == nil ? .identity : .ofParts, offset: place.offset,
            storedLength: UInt64((frame ?? raw).count), rawLength: UInt64(raw.count))
    }

    /// Closes the last pack and makes all of them durable under their names.
    func finish() throws(PublishError) {
        if size > 0 { try closePack() }
        while !waiting.isEmpty { try placeOldest() }
        try output.syncNames(.packs)
    }

    /// Starts a new pack with the next blob.
    func cut() throws(PublishError) { if size > 0 { try closePack() } }

    /// **Bytes** of what was added so far.
    var bytes: UInt64 { packs.reduce(size) { $0.saturatingAdd($1.size) } }

    private var flushed: UInt64 { size - UInt64(buffered) }

    private func flush() throws(PublishError) {
        guard buffered > 0 else { return }
        let count = buffered
        try write(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        buffered = 0
    }

    private func write(_ bytes: UnsafeRawBufferPointer) throws(PublishError) {
        try calling { try hasher.update(bytes) }
        guard let raw = current?.descriptor.raw else { return }
        if let code = writeAll(bytes, to: raw, at: flushed) {
            throw .writing("\(output.path)/packs", "write to", code: code)
        }
    }

    private func closePack() throws(PublishError) {
        try flush()
        let digest = try calling { try hasher.finish() }
        guard let file = current else { return }
        current = nil
        let name = digest.packName
        // A damaged pack is replaced. Packs that exist already are rare, so reading them costs little.
        var wasThere = try output.size(.packs, name) == size && output.home?.isWrong(digest) != true
        if wasThere {
            // A store has checked what was sent there.
            if let home = output.home {
                home.note(found: digest)
            } else {
                // A pack that cannot be read is replaced, too.
                wasThere = (try? output.digest(.packs, name)) == digest
            }
        }
        packs.append(Manifest.Pack(urls: [], size: size, sha256: digest))
        written.append(wasThere ? 0 : size)
        size = 0
        if wasThere { return output.discard(file) }
        guard output.home == nil else { return try output.placePack(file, as: digest) }
        // The disk can start; fsync(2) waits later. sync_file_range(2).
        startWriteback(file.descriptor.raw)
        waiting.append((file, digest))
        if waiting.count > Self.mostWaiting { try placeOldest() }
    }

    private func placeOldest() throws(PublishError) {
        let oldest = waiting.removeFirst()
        try output.placePack(oldest.file, as: oldest.digest)
    }
}
