import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads a base's parts from their packs, in the output directory or beside the base.
enum BaseParts {
    /// The raw bytes of one part, or of the dictionary, their SHA-256 checked.
    ///
    /// - Parameter what: What is read, for people.
    static func read(
        _ what: String,
        _ blob: Blob,
        _ digest: SHA256Digest,
        _ pack: Manifest.Pack,
        manifest: String,
        _ output: OutputDirectory
    ) throws(PublishError) -> [UInt8] {
        guard let stored = stored(blob, pack, manifest, output) else {
            throw .invalidBase(
                "\(shown(manifest)): \(what) is in the pack \(pack.sha256.hex), which is not here",
                "bring the packs of the base into the output directory, or publish with --no-base"
            )
        }
        let decoded = stored.withUnsafeBytes { bytes -> [UInt8]? in
            // What cannot be decoded counts as no bytes at all, whose digest does not match.
            try? BlobDecoder.decode(bytes, as: blob.codec, limit: Int(clamping: blob.rawLength))
        }
        let raw = decoded ?? []
        let found = try calling { try sha256(raw) }
        guard UInt64(raw.count) == blob.rawLength, found == digest else {
            throw .invalidBase(
                "\(shown(manifest)): \(what) is not what the manifest says; its pack is \(pack.sha256.hex)",
                "repair the pack, or publish with --no-base"
            )
        }
        return raw
    }

    private static func stored(
        _ blob: Blob,
        _ pack: Manifest.Pack,
        _ manifest: String,
        _ output: OutputDirectory
    ) -> [UInt8]? {
        if let file = output.open(.packs, pack.sha256.hex + ".pack"), let bytes = read(file.raw, blob) {
            return bytes
        }
        let directory = manifest.lastIndex(of: "/").map { String(manifest[...$0]) } ?? ""
        for url in pack.urls where !url.contains("://") && !url.hasPrefix("/") {
            // Try the next place.
            guard let file = try? openFile(directory + url, trust: .input) else { continue }
            if let bytes = read(file.raw, blob) { return bytes }
        }
        return nil
    }

    private static func read(_ file: Int32, _ blob: Blob) -> [UInt8]? {
        guard let count = Int(exactly: blob.storedLength), let size = status(file)?.size,
            blob.storedLength <= size
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: count)
        return bytes.withUnsafeMutableBytes { readFully(file, into: $0, at: blob.offset) } == count
            ? bytes : nil
    }
}
