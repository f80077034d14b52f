import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Writes `manifest.json` and `manifest.json.zst` from the results of a run.
struct ManifestFiles {
    let entries: ManifestEntries
    let packs: [Manifest.Pack]
    /// Index into ``packs`` by the catalogue's pack number; `nil` for unused ones.
    let packIndices: [UInt32?]
    /// How large files were cut; `nil` if none was.
    let chunking: ChunkParameters?
    let project: String
    let groups: [Manifest.Group]
    /// `x-user-data` of the base: JSON text on one line.
    let userData: String?
    /// The parts that replace the entries; `nil` if the entries are in the manifest itself.
    let parts: [Manifest.Part]?
    /// The dictionary that blobs are decoded with.
    let dictionary: Manifest.OwnBlob?

    /// zstd's level for the manifest: it is written once and read often.
    static let level: Int32 = 10
    /// zstd's level for a manifest that is sent to a store: a sixth fewer bytes, in seven times the time.
    static let levelAway: Int32 = 16

    /// Generates the text once and passes it on in pieces of about 256 KiB.
    func forEachPiece(
        revision: UInt64, created: String?, _ take: (UnsafeRawBufferPointer) throws(PublishError) -> Void
    ) throws(PublishError) {
        var writer = ManifestWriter(
            project: project, revision: revision, created: created, chunking: chunking, isInParts: parts != nil,
            dictionary: dictionary, userData: userData)
        for directory in entries.tree.directories {
            directory.path.withUnsafeBufferPointer { writer.directory(path: $0, traits: directory.traits) }
            if writer.pending >= 256 << 10 { try writer.drain(take) }
        }
        for pack in packs { writer.pack(pack) }
        if let parts {
            for part in parts { writer.part(part) }
        } else {
            for index in entries.tree.entries.indices {
                try entries.write(index, to: &writer) { packIndices[Int($0)] }
                if writer.pending >= 256 << 10 { try writer.drain(take) }
            }
        }
        writer.finish(groups: groups)
        try writer.drain(take)
    }

    /// SHA-256 of the text without writing it.
    func digest(revision: UInt64, created: String?) throws(PublishError) -> SHA256Digest {
        var hasher = try calling { try SHA256Hasher() }
        try forEachPiece(revision: revision, created: created) { piece throws(PublishError) in
            try calling { try hasher.update(piece) }
        }
        return try calling { try hasher.finish() }
    }

    /// Writes both files and puts them in place, the JSON last; see
    /// ``OutputDirectory/placeManifest(_:compressed:keeping:isNewest:)``.
    ///
    /// - Parameter beforePlacing: Gets the SHA-256 of the text.
    func write(
        to output: OutputDirectory, revision: UInt64, created: String?, isKept: Bool, isNewest: Bool,
        beforePlacing: (SHA256Digest) throws(PublishError) -> Void
    ) throws(PublishError) -> (digest: SHA256Digest, size: UInt64, compressed: UInt64) {
        let text = try output.makeTemporary(.top)
        var size: UInt64 = 0
        var hasher = try calling { try SHA256Hasher() }
        let raw = text.descriptor.raw
        try forEachPiece(revision: revision, created: created) { piece throws(PublishError) in
            try calling { try hasher.update(piece) }
            if let code = writeAll(piece, to: raw, at: size) {
                throw .writing("\(output.path)/manifest.json", "write", code: code)
            }
            size += UInt64(piece.count)
        }
        let digest = try calling { try hasher.finish() }
        let frame = try output.makeTemporary(.top)
        let compressed = try compress(text.descriptor.raw, size, to: frame.descriptor.raw, output)
        try beforePlacing(digest)
        try output.placeManifest(text, compressed: frame, keeping: isKept ? revision : nil, isNewest: isNewest)
        return (digest, size, compressed)
    }

    private func compress(_ source: Int32, _ size: UInt64, to target: Int32, _ output: OutputDirectory)
        throws(PublishError) -> UInt64
    {
        var written: UInt64 = 0
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { piece.deallocate() }
        var compressor = try calling {
            var compressor = try ZstdCompressor(level: output.home == nil ? Self.level : Self.levelAway)
            try compressor.begin(size: size)
            return compressor
        }
        var offset: UInt64 = 0
        repeat {
            let wanted = Int(min(UInt64(piece.count), size - offset))
            let bytes = UnsafeMutableRawBufferPointer(rebasing: piece[..<wanted])
            guard readFully(source, into: bytes, at: offset) == wanted else {
                throw .writing("\(output.path)/manifest.json", "read back", code: .last)
            }
            offset += UInt64(wanted)
            let failure = try compressor.encodeNext(UnsafeRawBufferPointer(bytes), isLast: offset == size) {
                made throws(PublishError) in
                if let code = writeAll(made, to: target, at: written) {
                    throw .writing("\(output.path)/manifest.json.zst", "write", code: code)
                }
                written += UInt64(made.count)
            }
            if let failure { try calling { throw failure } }
        } while offset < size
        return written
    }
}
